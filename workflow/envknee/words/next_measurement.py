"""What to measure next, in a sentence or two. Pure."""

from envknee.record.status import Status
from envknee.verdict.schema.headline import NextMeasurement
from envknee.verdict.schema.limit import Gain
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.words.numbers import counted, percent
from envknee.words.ranks import each

AGAIN: dict[Status | None, str] = {
    "nan": " again, once they no longer become NaN or infinite (record.json names the tensor)",
    "crashed": " again, once the program no longer crashes there (record.json says where)",
    "diverged": " again, once learning no longer diverges there (record.json names what grew)",
    "invalid": " again, once its simulation is valid there (record.json says what was not)",
    "timeout": " again, with a larger throughput.limit_s (their time ran out)",
}
"""When to measure trials without FPS again, by their status."""


def next_measurement(found: NextMeasurement, limit: ThroughputLimit) -> str:
    """Return the measurements that would decide a threshold; `limit` is the one that is open."""
    num_envs, ranks = found.num_envs, limit.ranks
    if num_envs is None:
        return "Measure a num_envs that fits the memory, and twice as many."
    if found.kind == "doubling":
        return (
            f"Measure {num_envs:,} and {2 * num_envs:,} environments, {limit.least_repeats} times each in separate processes: fewer"
            " cannot tell a gain from noise."
        )
    if found.kind == "same_machine":
        return (
            f"Measure {num_envs:,} and {2 * num_envs:,} environments{each(ranks)} on the same machine: none ran both."
        )
    if found.kind in ("repeats", "either_size"):
        gain = next(gain for gain in limit.gains if gain.num_envs == num_envs)
        if found.kind == "repeats":
            return f"Measure more repeats (about {limit.more_repeats} more): {_open(gain)}"
        return f"Either size will do: {_open(gain)} Over 200 repeats would be needed to tell it from the cut-off."
    why, few = _why(found, limit), _too_few(limit)
    if found.failed is not None and found.ended == "crashed":
        return (
            f"Crashes end the curve: {found.failed:,} crashed, and {why}. Mend what crashed there, and run the sweep again with another"
            f" study name{few}."
        )
    if found.failed is not None:
        return (
            f"Memory ends the curve: {found.failed:,} did not fit, and {why}. More memory, or less per environment, would show where it"
            f" stops paying{few}."
        )
    again = AGAIN.get(found.ended, "")
    repeated = f", or {counted(limit.more_repeats, 'more repeat')}" if limit.more_repeats else ""
    return f"Measure {num_envs:,} environments{each(ranks)}{again}{repeated}: {why}{few}."


def _open(gain: Gain) -> str:
    """Return what is known of a doubling that is not shown to stop paying."""
    bound = "unknown with one repeat" if gain.gain_upper_one_sided is None else percent(gain.gain_upper_one_sided)
    return f"doubling {gain.num_envs:,} gains {percent(gain.gain)}, but its upper bound is {bound}."


def _why(found: NextMeasurement, limit: ThroughputLimit) -> str:
    if found.after == "no_doubling":
        return "no doubling is measured yet"
    if found.after == "no_doubling_with_largest":
        return f"{limit.largest_num_envs:,} is in no doubling yet"
    last = limit.gains[-1]
    return f"doubling {last.num_envs:,} still gained {percent(last.gain)}"


def _too_few(limit: ThroughputLimit) -> str:
    if limit.fewest_repeats >= limit.least_repeats:
        return ""
    return f", and at least {limit.least_repeats} repeats of each point (now {limit.fewest_repeats})"
