"""What to measure next to decide an open throughput threshold. Pure."""

from envknee.record.status import Status
from envknee.verdict.estimate import Estimate
from envknee.verdict.rule.union import LEAST_REPEATS
from envknee.verdict.schema.limit import Gain
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import ONE_GPU, Ranks
from envknee.words.numbers import counted, percent
from envknee.words.ranks import each

AGAIN: dict[Status | None, str] = {
    "nan": " again, once they no longer become NaN or infinite (record.json names the tensor)",
    "diverged": " again, once learning no longer diverges there (record.json names what grew)",
    "invalid": " again, once its simulation is valid there (record.json says what was not)",
    "timeout": " again, with a larger throughput.limit_s (their time ran out)",
}
"""When to measure trials without FPS again, by their status."""


def measure_next(
    limit: ThroughputLimit, ranks: Ranks = ONE_GPU, best: Estimate | None = None, doubled_ended: Status | None = None
) -> str:
    """Return the measurements that would decide a threshold: a doubling needs N and 2N.

    `best` is the estimate without repeats, if there is one. `doubled_ended` is the status of the last trial at twice the largest num_envs,
    of which none was timed; None without a trial.
    """
    if not limit.points:
        return "Measure a num_envs that fits the memory, and twice as many."
    largest, repeats = limit.points[-1].num_envs, limit.fewest_repeats
    failed = min((point.num_envs for point in limit.infeasible), default=None)
    if best is not None and (best.num_envs is not None or failed is None):
        smaller = _of_a_doubling(best.num_envs or largest, failed)
        return (
            f"Measure {smaller:,} and {2 * smaller:,} environments, {LEAST_REPEATS} times each in separate processes: fewer"
            " cannot tell a gain from noise."
        )
    if limit.state == "undecided" and limit.unsure is not None:
        return _more_repeats(limit, limit.unsure, ranks)
    last = limit.gains[-1] if limit.gains else None
    wanted = 2 * largest
    if last is None or last.doubled != largest:
        smaller = _of_a_doubling(largest, failed)
        wanted = 2 * smaller if smaller == largest else smaller
        why = f"{largest:,} is in no doubling yet" if last else "no doubling is measured yet"
    else:
        why = f"doubling {last.num_envs:,} still gained {percent(last.gain)}"
    few = "" if repeats >= LEAST_REPEATS else f", and at least {LEAST_REPEATS} repeats of each point (now {repeats})"
    if failed is not None and failed <= wanted:
        return (
            f"Memory ends the curve: {failed:,} did not fit, and {why}. More memory, or less per environment, would show where it"
            f" stops paying{few}."
        )
    again = AGAIN.get(doubled_ended, "")
    repeated = f", or {counted(limit.more_repeats, 'more repeat')}" if limit.more_repeats else ""
    return f"Measure {wanted:,} environments{each(ranks)}{again}{repeated}: {why}{few}."


def _more_repeats(limit: ThroughputLimit, gain: Gain, ranks: Ranks) -> str:
    last = limit.gains[-1]
    if not last.machines:
        return f"Measure {last.num_envs:,} and {last.doubled:,} environments{each(ranks)} on the same machine: none ran both."
    bound = "unknown with one repeat" if gain.gain_upper_one_sided is None else percent(gain.gain_upper_one_sided)
    said = f"doubling {gain.num_envs:,} gains {percent(gain.gain)}, but its upper bound is {bound}."
    if limit.more_repeats is None:
        return f"Either size will do: {said} Over 200 repeats would be needed to tell it from the cut-off."
    return f"Measure more repeats (about {limit.more_repeats} more): {said}"


def _of_a_doubling(size: int, failed: int | None) -> int:
    """Return the smaller end of a doubling with `size`: its half if twice as many cannot fit."""
    return size // 2 if failed is not None and failed <= 2 * size and size % 2 == 0 else size
