"""Advice on the limit of an arm: which phase to make cheaper, which setting to change, or what to measure.

Input: the arm's limits, phase laws and levers. Output: sentences. Pure.
"""

from envknee.record.schema import Phase
from envknee.record.status import Status
from envknee.verdict import levers
from envknee.verdict.measure_next import measure_next
from envknee.verdict.schema.phases import PhaseLaws
from envknee.verdict.schema.study import ArmVerdict, Headline
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Ranks
from envknee.words.numbers import listed
from envknee.words.ranks import each, together

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

MOST = 0.5
"""Smallest fixed share of an iteration that is reported as the limit."""


def what_would_move_it(
    headline: Headline, limit: ThroughputLimit, arm: ArmVerdict, is_lean: bool, doubled_ended: Status | None
) -> str:
    """Return what to change or measure to move the limit, in the recommended series and from its recommended point on.

    `doubled_ended` is as in `measure_next`.
    """
    ranks, binds, lean = arm.ranks, headline.binds, "" if is_lean else LEAN
    laws = next((own for own in arm.phases if own.series == limit.series), None)
    if binds == "memory":
        first = (
            f"A shorter horizon, {lean}a lower resolution, a device with"
            f" more memory or {'a second one' if ranks.world_size == 1 else 'more of them'} make room for more environments."
        )
    elif binds == "learning":
        first = (
            "More environments stop shortening the time to the target before they stop adding FPS:"
            " try another batch size, learning rate or horizon, more seeds, or a harder task."
        )
    elif binds == "throughput":
        first = f"{_bound(limit, ranks)} {_cheaper(laws, lean)}"
    else:
        first = measure_next(limit, ranks, doubled_ended=doubled_ended)
    waits = _waits(headline.num_envs, ranks, laws)
    has_levers = (waits or binds == "memory") and any(lever.verdict != "not measured" for lever in headline.levers)
    return " ".join(filter(None, (first, waits, levers.in_words(headline.levers) if has_levers else None)))


def _bound(limit: ThroughputLimit, ranks: Ranks) -> str:
    """Return what more environments still bring beyond the threshold."""
    law = limit.law
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


def _waits(num_envs: int, ranks: Ranks, laws: PhaseLaws | None) -> str | None:
    """Return what an iteration mostly waits for at `num_envs`, if that does not grow with num_envs; else None."""
    if laws is None or laws.few_wait_for is None:
        return None
    if not all(law.used for law in laws.laws if (law.share_of_t0 or 0) > 0.1):
        return None
    fixed = sum(law.t0_s for law in laws.laws)
    share = fixed / (fixed + num_envs * sum(law.s_per_env for law in laws.laws))
    if share < MOST:
        return None
    phase = laws.few_wait_for
    part = laws.law(phase).share_of_t0 or 0.0
    # Learning runs once per iteration, so that a longer horizon spreads its fixed cost. The other phases run once per step.
    cure = ", or a longer horizon, spread it" if phase == "learning" else " spread it"
    return (
        f"At {num_envs:,} environments{each(ranks)} {share:.0%} of an iteration does not grow with their number,"
        f" {part:.0%} of that in {phase}: more environments{cure}."
    )
