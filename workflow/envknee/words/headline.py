"""The recommendation for an arm in sentences. Pure."""

from envknee.record.schema import Phase
from envknee.verdict.schema.headline import Headline, HoursSaved, Waits
from envknee.verdict.schema.phases import PhaseLaws
from envknee.verdict.schema.study import ArmVerdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Ranks
from envknee.words.learning import soonest_at
from envknee.words.levers import levers_sentence
from envknee.words.next_measurement import next_measurement
from envknee.words.numbers import listed
from envknee.words.ranks import each, together
from envknee.words.series import series_words

METHOD = (
    "the series with the largest measured FPS; its throughput threshold, or its num_envs with the largest FPS where none is"
    " shown, within the memory to keep free"
)

NO_TRIAL = "composed, no trial ran it"
"""Of FPS at a setting that are put together from parts of other settings' trials."""

LEAN = "lean frames (observations: lean), "

CHEAPER: dict[Phase, str] = {
    "physics": "fewer solver iterations or substeps, or a simpler scene",
    "render": "a lower resolution, or fewer cameras and render passes",
    "observation": "{lean}fewer frames in a stack, or less preprocessing",
    "inference": "a smaller network, or mixed precision",
    "storage": "{lean}fewer frames in a stack",
    "learning": "fewer epochs or mini-batches, mixed precision, or a smaller network",
    "other": "cheaper rewards, resets and logging",
}
"""How to make an added environment cheaper in each phase. `lean` becomes `LEAN` for an arm without lean frames."""


def headline_statement(arm: ArmVerdict, headline: Headline) -> str:
    """Return the recommendation in one sentence."""
    ranks = arm.ranks
    parts = [
        f"run {headline.num_envs:,} environments{each(ranks)}, {series_words(headline.as_run)}:"
        f" {headline.fps:,.0f} FPS{together(ranks)}, {headline.fps_share_of_best:.0%} of the best seen"
    ]
    if arm.recommended is not None and arm.recommended.point(headline.num_envs).is_composed:
        parts.append(NO_TRIAL)
    if headline.memory_peak_gb is not None:
        share = ""
        if headline.memory_share is not None:
            share = f", {headline.memory_share:.0%} of the memory{each(ranks)}"
        parts.append(f"{headline.memory_peak_gb:.2f} GB{share}")
    if arm.soonest is not None:
        parts.append(f"soonest to the target: {soonest_at(*arm.soonest)}")
    return "; ".join(parts)


def why_there(arm: ArmVerdict, headline: Headline) -> str:
    """Return why this point is recommended."""
    if headline.num_envs < headline.wanted_num_envs:
        return (
            f"{headline.wanted_num_envs:,} environments{each(arm.ranks)} would leave less memory free than the study asks for,"
            " or failed in some repeats"
        )
    if headline.threshold_num_envs is None:
        why = "doubling still pays there" if headline.state == "still pays" else "a threshold is undecided"
        return f"the num_envs with the largest measured FPS; {why}"
    limit = arm.recommended
    again = ""
    if limit is not None and limit.resumes_at:
        again = f", though doubling gains again from {listed(limit.resumes_at)}"
    return f"the throughput threshold of the fastest series{again}"


def hours_saved(saved: HoursSaved, ranks: Ranks) -> str:
    """Return the GPU-hours (on a CPU, CPU-hours) that a point spends to the target, beside the next larger point."""
    least = "at least " if saved.other_is_lower_bound else ""
    most = "at most " if saved.other_is_lower_bound else ""
    share = f"{least}{saved.saved:.0%} less" if saved.saved >= 0.0 else f"{most}{-saved.saved:.0%} more"
    return (
        f"{saved.num_envs:,} environments{each(ranks)} spend {saved.hours:.3g} {saved.device}-hours to the target,"
        f" {share} than {saved.other_num_envs:,} with {least}{saved.other_hours:.3g}"
    )


def what_would_move_it(arm: ArmVerdict, headline: Headline) -> str:
    """Return what to change or measure to move the limit, in the recommended series and from its recommended point on."""
    limit = arm.recommended
    assert limit is not None, "a recommended point is in a series"
    sentences = [_first_advice(arm, headline, limit)]
    if headline.waits is not None:
        sentences.append(_waits(headline.num_envs, headline.waits, arm.ranks))
    measured = any(lever.verdict != "not measured" for lever in headline.levers)
    if measured and (headline.waits is not None or headline.binds == "memory"):
        sentences.append(levers_sentence(headline.levers))
    return " ".join(sentences)


def _first_advice(arm: ArmVerdict, headline: Headline, limit: ThroughputLimit) -> str:
    lean = "" if headline.is_lean else LEAN
    if headline.next_measurement is not None:
        return next_measurement(headline.next_measurement, limit)
    if headline.binds == "memory":
        another = "a second one" if arm.world_size == 1 else "more of them"
        return f"A shorter horizon, {lean}a lower resolution, a device with more memory or {another} make room for more environments."
    if headline.binds == "learning":
        return (
            "More environments stop shortening the time to the target before they stop adding FPS:"
            " try another batch size, learning rate or horizon, more seeds, or a harder task."
        )
    return f"{_bound(limit)} {_cheaper(arm.recommended_phases, lean)}"


def _bound(limit: ThroughputLimit) -> str:
    """Return what more environments still bring beyond the threshold."""
    law, ranks = limit.law, limit.ranks
    if law is not None and law.used and law.asymptote_fps:
        of_each = f" of each {ranks.word}" if ranks.world_size > 1 else ""
        return (
            f"An iteration costs {law.s_per_env * 1e3:.3g} ms per environment{of_each},"
            f" so no number of them exceeds about {law.asymptote_fps:,.0f} FPS{together(ranks)}:"
        )
    if limit.resumes_at:
        return (
            f"Doubling {listed(limit.resumes_at)} environments{each(ranks)} gains again: measure more repeats there, and beyond."
            " Short of that,"
        )
    return "More environments no longer help:"


def _cheaper(laws: PhaseLaws | None, lean: str) -> str:
    """Return how to make each environment cheaper."""
    if laws is None or laws.sets_the_knee is None:
        return "make each one cheaper (lower resolution, leaner observations, faster learning), or add a device."
    phase = laws.sets_the_knee
    share = laws.law(phase).share_of_slope or 0.0
    return f"{phase} takes {share:.0%} of what each one adds. Try {CHEAPER[phase].format(lean=lean)}; or add a device."


def _waits(num_envs: int, waits: Waits, ranks: Ranks) -> str:
    # Learning runs once per iteration, so that a longer horizon spreads its fixed cost. The other phases run once per step.
    cure = ", or a longer horizon, spread it" if waits.phase == "learning" else " spread it"
    return (
        f"At {num_envs:,} environments{each(ranks)} {waits.share:.0%} of an iteration does not grow with their number,"
        f" {waits.phase_share:.0%} of that in {waits.phase}: more environments{cure}."
    )
