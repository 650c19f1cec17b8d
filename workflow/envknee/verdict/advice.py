"""Advice on the limit of an arm: which phase to make cheaper, which setting to change, or what to measure.

Input: the arm's limits, phase laws and levers. Output: sentences. Pure.
"""

from collections.abc import Sequence

from envknee.record.schema import Phase
from envknee.record.status import Status
from envknee.verdict import levers
from envknee.verdict.schema.levers import Lever
from envknee.verdict.schema.phases import PhaseLaws
from envknee.verdict.schema.study import Binds
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Ranks
from envknee.verdict.words.numbers import counted, listed, percent

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

ONCE_PER_ITERATION = frozenset({"learning"})
"""Phases that run once per iteration, whose fixed cost a longer horizon spreads. The others run once per step."""

MEASURE_AGAIN: dict[Status, str] = {
    "nan": "once they no longer become NaN or infinite (record.json names the tensor)",
    "diverged": "once learning no longer diverges there (record.json names what grew)",
    "invalid": "once its simulation is valid there (record.json says what was not)",
    "timeout": "with a larger throughput.limit_s (their time ran out)",
}
"""When to measure trials without FPS again, by their status."""

MOST = 0.5
"""Smallest fixed share of an iteration that is reported as the limit."""


def what_would_move_it(
    limit: ThroughputLimit,
    num_envs: int,
    binds: Binds,
    ranks: Ranks,
    laws: PhaseLaws | None,
    turned: Sequence[Lever],
    is_lean: bool,
    doubled_ended: Status | None,
) -> str:
    """Return what to change or measure to move the limit, in the recommended series and from its recommended point on.

    `doubled_ended` is the status of the last trial at twice the largest num_envs, of which none was timed; None without a trial.
    """
    sentences = [_first_of_all(limit, binds, ranks, laws, is_lean, doubled_ended)]
    waits = _waits(num_envs, ranks, laws)
    if waits:
        sentences.append(waits)
    if (waits or binds == "memory") and any(lever.verdict != "not measured" for lever in turned):
        sentences.append(levers.in_words(turned))
    return " ".join(sentences)


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
    cure = "or a longer horizon, spread it" if phase in ONCE_PER_ITERATION else "spread it"
    return (
        f"At {num_envs:,} environments{ranks.each} {share:.0%} of an iteration does not grow with their number,"
        f" {part:.0%} of that in {phase}: more environments{',' if phase in ONCE_PER_ITERATION else ''} {cure}."
    )


def _first_of_all(
    limit: ThroughputLimit,
    binds: Binds,
    ranks: Ranks,
    laws: PhaseLaws | None,
    is_lean: bool,
    doubled_ended: Status | None,
) -> str:
    largest = limit.points[-1].num_envs
    lean = "" if is_lean else LEAN
    if binds == "memory":
        return (
            f"A shorter horizon, {lean}a lower resolution, a device with"
            f" more memory or {'a second one' if ranks.world_size == 1 else 'more of them'} make room for more environments."
        )
    if binds == "learning":
        return (
            "More environments stop shortening the time to the target before they stop adding FPS:"
            " try another batch size, learning rate or horizon, more seeds, or a harder task."
        )
    if binds == "throughput":
        law = limit.law
        of_each = f" of each {ranks.word}" if ranks.world_size > 1 else ""
        if law is not None and law.used and law.asymptote_fps:
            bound = (
                f"An iteration costs {law.s_per_env * 1e3:.3g} ms per environment{of_each},"
                f" so no number of them exceeds about {law.asymptote_fps:,.0f} FPS{ranks.together}:"
            )
        elif limit.resumes_at:
            bound = (
                f"Doubling {listed(limit.resumes_at)} environments{ranks.each} gains again: measure more repeats there, and beyond."
                " Short of that,"
            )
        else:
            bound = "More environments no longer help:"
        if laws is not None and laws.sets_the_knee is not None:
            phase = laws.sets_the_knee
            share = laws.law(phase).share_of_slope or 0.0
            cure = CHEAPER[phase].format(lean=lean)
            return f"{bound} {phase} takes {share:.0%} of what each one adds. Try {cure}; or add a device."
        return (
            f"{bound} make each one cheaper (lower resolution, leaner observations, faster learning), or add a device."
        )
    if binds == "none yet: measure more repeats":
        gain = limit.unsure
        assert gain is not None, "more repeats are asked for because of one"
        last = limit.gains[-1]
        if not last.machines:
            return f"Measure {last.num_envs:,} and {last.doubled:,} environments{ranks.each} on the same machine: none ran both."
        bound = "unknown with one repeat" if gain.gain_upper_one_sided is None else percent(gain.gain_upper_one_sided)
        said = f"doubling {gain.num_envs:,} gains {percent(gain.gain)}, but its upper bound is {bound}."
        if limit.more_repeats is None:
            return f"Either size will do: {said} Over 200 repeats would be needed to tell it from the cut-off."
        return f"Measure more repeats (about {limit.more_repeats} more): {said}"
    why = "no doubling is measured yet"
    if limit.gains:
        last = limit.gains[-1]
        why = f"doubling {last.num_envs:,} still gained {percent(last.gain)}"
    again = f" again, {MEASURE_AGAIN[doubled_ended]}" if doubled_ended in MEASURE_AGAIN else ""
    repeated = f", or {counted(limit.more_repeats, 'more repeat')}" if limit.more_repeats else ""
    more = f"Measure {2 * largest:,} environments{ranks.each}{again}{repeated}: {why}"
    repeats = limit.fewest_repeats
    few = "" if repeats >= 3 else f", and at least 3 repeats of each point (now {repeats})"
    return f"{more}{few}."
