"""What the report's charts say of a value at which a reader points: its setting, the value, the evidence. Pure."""

from collections.abc import Sequence

from envknee.verdict.schema.joint import ConfirmedSetting, ExpectedSetting, LikelySetting
from envknee.verdict.schema.learning import Cost, LearningPoint
from envknee.verdict.schema.limit import Gain
from envknee.verdict.schema.throughput import InfeasiblePoint, ThroughputPoint
from envknee.words.joint_costs import cost_words, short_setting
from envknee.words.numbers import counted, percent, span

SHOWN_GAIN = {
    "pays": "pays: shown to gain the cut-off or more",
    "stopped": "stops paying: shown to gain less than the cut-off",
    "undecided": "undecided: neither is shown",
}
"""What is shown of a doubling."""


def fps_lines(name: str, point: ThroughputPoint, confidence: float) -> list[str]:
    """Return what a mark of FPS says."""
    said = [f"{name}: {point.num_envs:,} environments", f"{point.fps:,.0f} FPS"]
    said += _interval(point.fps_lower, point.fps_upper, confidence, ",.0f")
    repeats = counted(len(point.fps_repeats), "repeat")
    return [*said, f"{repeats}, put together from other horizons" if point.composed else repeats]


def no_fps(point: InfeasiblePoint) -> str:
    """Return why a size has no FPS: `16,384: out of memory`."""
    return f"{point.num_envs:,}: {'out of memory' if point.lacks_memory else 'crashed'}"


def gain_lines(name: str, gain: Gain, delta: float, confidence: float) -> list[str]:
    """Return what a mark of a doubling says."""
    said = [f"{name}: {gain.num_envs:,} to {gain.doubled:,} environments", f"gains {percent(gain.gain)}"]
    ends = span(gain.gain_lower, gain.gain_upper)
    if ends:
        said.append(f"{confidence:.0%} interval: {ends}")
    return [*said, counted(gain.repeats, "repeat"), f"{SHOWN_GAIN[gain.shown(delta)]} ({percent(delta)})"]


def cost_lines(name: str, point: LearningPoint, cost: Cost, unit: str, confidence: float) -> list[str]:
    """Return what a mark of the cost of a target says; `unit` is `s` or `environment steps`."""
    at_least = "more than " if cost.lower_bound else ""
    form = ",.1f" if unit == "s" else ",.0f"
    said = [f"{name}: {point.num_envs:,} environments", f"{at_least}{cost.value:{form}} {unit} to the target"]
    said += _interval(cost.interval_lower, cost.interval_upper, confidence, form)
    return [*said, f"{point.reached} of {counted(point.seeds, 'seed')} reached it"]


def cell_lines(
    at: ExpectedSetting,
    shown: tuple[str, str],
    likely: LikelySetting | None,
    confirmed: ConfirmedSetting | None,
    tried: Sequence[bool],
    is_planned: bool = False,
) -> list[str]:
    """Return what a cell of a map says.

    Args:
        at: the setting
        shown: its expected value, and the interval of that or ""
        likely: the setting among those that may be the best, by the model
        confirmed: the setting with its fresh seeds
        tried: whether each trial there missed its target
        is_planned: whether another arm's search planned the value, and no trial of this arm
    """
    value, interval = shown
    source = "the plan" if is_planned else "the model"
    said = [short_setting(at), f"{value} by {source}" + (f" ({interval})" if interval else "")]
    if likely is not None:
        said.append(f"may be the best, with a chance of {percent(likely.chance, 0)}, by {source}")
    if is_planned and confirmed is not None and confirmed.cost is not None:
        said.append(f"{cost_words('learning', confirmed.cost)} by its fresh seeds")
    if confirmed is not None:
        fresh = "not shown slower than the best" if confirmed.may_be_best else "shown slower than the best"
        said.append(f"{fresh}, by {counted(confirmed.seeds, 'fresh trial')}")
    missed = sum(tried)
    trials = counted(len(tried), "trial") if tried else f"no trial: {source}'s word alone"
    return [*said, trials + (f", {missed} of them did not reach the target" if missed else "")]


def importance_lines(axis: str, best: int, worst: int, times: float) -> list[str]:
    """Return what a bar of importance says."""
    return [
        f"{axis}: the worst value costs {times:.2f} times the best",
        f"best at {best:,}, worst at {worst:,}",
        "the other axes at their best for each value, by the model of all trials",
    ]


def _interval(lower: float | None, upper: float | None, confidence: float, form: str) -> list[str]:
    ends = span(lower, upper, lambda value: format(value, form))
    return [f"{confidence:.0%} interval: {ends}"] if ends else ["no interval"]
