"""docs/learning-rules.md: limits, losses and costs of four rules (results-published/cartpole-learning-rules)."""

import math
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import NamedTuple

from envknee.verdict.schema.learning import Cost, RuleLimit, RulePoint, Rules

from benchmarks.pages.cells import table, threshold
from benchmarks.pages.published import target_of, verdict_of

STUDY = "cartpole-learning-rules"
BASE = 1024
"""The number of environments at which every rule is the same training."""


def rules() -> Rules:
    """Return the rules of the study, side by side."""
    found = verdict_of(STUDY).rules
    assert found is not None
    return found


def point_at(rule: RuleLimit, num_envs: int) -> RulePoint:
    """Return a rule's point, which must have been measured."""
    return next(point for point in rule.points if point.num_envs == num_envs)


def cost(given: Cost | None, unit: float, decimals: int) -> str:
    """Return `12.3 (11.0 to 13.7)`, or `over 12.3` for a lower bound."""
    assert given is not None
    value = f"{given.value / unit:.{decimals}f}"
    if given.lower_bound or given.interval_lower is None or given.interval_upper is None:
        return f"over {value}"
    return f"{value} ({given.interval_lower / unit:.{decimals}f} to {given.interval_upper / unit:.{decimals}f})"


def seconds(point: RulePoint) -> str:
    """Return seconds to the target."""
    return cost(point.seconds_to_target, 1.0, 1)


def frames(point: RulePoint) -> str:
    """Return environment steps to the target in millions."""
    return cost(point.frames_to_target, 1e6, 2)


def limits() -> str:
    """Return by rule the learning limit, and which sizes learn soonest."""
    by_arm = {arm.arm: arm.learning[0] for arm in verdict_of(STUDY).arms}
    rows = []
    for rule in rules().rules:
        size = rule.soonest_num_envs
        assert size is not None
        rows.append(
            (
                f"`{rule.arm}`",
                threshold(by_arm[rule.arm]),
                f"{size:,}: {seconds(point_at(rule, size))} s",
                f"{rule.soonest_lowest:,} to {rule.soonest_highest:,}",
            )
        )
    return table(("rule", "learning limit (95% interval)", "soonest (95% interval)", "not shown to be slower"), rows)


def costs() -> str:
    """Return by rule and size the values of the rule and what the target costs."""
    heads = (
        "rule", "environments", "horizon", "batch", "learning rate, 10⁻⁴", f"seconds to reward {target_of(STUDY):g}",
        "environment steps, millions", "seconds per million", "arrived",
    )  # fmt: skip
    rows = []
    for rule in rules().rules:
        for point in rule.points:
            values = [f"{point.horizon}", f"{point.batch_size:,}", f"{(point.learning_rate or 0.0) * 1e4:.2g}"]
            target = [seconds(point), frames(point), f"{point.seconds_per_million_frames:.1f}"]
            arrived = f"{point.reached} of {point.seeds}"
            rows.append([f"`{rule.arm}`", f"{point.num_envs:,}", *values, *target, arrived])
    return table(heads, rows)


def spread_at_base() -> float:
    """Return how far seconds per environment step are apart where all rules are the same training, as a ratio."""
    own = [point_at(rule, BASE).seconds_per_million_frames or 0.0 for rule in rules().rules]
    return max(own) / min(own)


class Loss(NamedTuple):
    """What twice the environments lose."""

    frames_ratio: float
    """Environment steps to the target, of the smaller size's: 1 without a loss."""
    seconds_ratio: float
    """Seconds per environment step, of the smaller size's: 0.5 without a loss."""
    is_bound: bool
    """Whether some seeds of the larger size miss the target, so that the ratio of environment steps is a lower bound."""

    @property
    def limit(self) -> str:
        """What loses more; `both` within the spread that the same training has."""
        if self.is_bound:
            return "rule"
        of_frames, of_seconds = math.log(self.frames_ratio), math.log(2 * self.seconds_ratio)
        if abs(of_frames - of_seconds) < math.log(spread_at_base()):
            return "both"
        return "PPO" if of_frames > of_seconds else "simulator"


def losses() -> dict[tuple[str, int], Loss]:
    """Return by rule and size what the next size loses."""
    found = {}
    for rule in rules().rules:
        for first, then in pairwise(rule.points):
            assert first.seconds_per_million_frames and then.seconds_per_million_frames
            assert first.frames_to_target and then.frames_to_target and then.num_envs == 2 * first.num_envs
            found[rule.arm, first.num_envs] = Loss(
                then.frames_to_target.value / first.frames_to_target.value,
                then.seconds_per_million_frames / first.seconds_per_million_frames,
                then.reached < then.seeds,
            )
    return found


def losses_table() -> str:
    """Return by doubling and rule the ratios and the limit that follows."""
    found, names = losses(), [rule.arm for rule in rules().rules]
    rows = []
    for first in sorted({size for _, size in found}):
        cells = [f"{first:,}, {2 * first:,}"]
        for name in names:
            loss = found[name, first]
            least = "over " if loss.is_bound else ""
            cells.append(f"{least}{loss.frames_ratio:.2f}, {loss.seconds_ratio:.2f}: {loss.limit}")
        rows.append(cells)
    return table(("from, to", *(f"`{name}`" for name in names)), rows)


def apart(one: Cost | None, other: Cost | None) -> bool:
    """Return whether two intervals do not meet; a lower bound has no upper end."""
    assert one is not None and other is not None
    (low, high), (other_low, other_high) = _ends(one), _ends(other)
    return high < other_low or other_high < low


def _ends(cost: Cost) -> tuple[float, float]:
    if cost.lower_bound or cost.interval_lower is None or cost.interval_upper is None:
        return cost.value, math.inf
    return cost.interval_lower, cost.interval_upper


class Case(NamedTuple):
    """Two rules at one size, by one cost."""

    num_envs: int
    one: str
    other: str
    what: str
    is_apart: bool


def cases() -> Iterator[Case]:
    """Yield every pair of rules at every size, by seconds and by environment steps to the target."""
    for one, other in combinations(rules().rules, 2):
        for first, second in zip(one.points, other.points, strict=True):
            by_seconds = apart(first.seconds_to_target, second.seconds_to_target)
            yield Case(first.num_envs, one.arm, other.arm, "seconds", by_seconds)
            by_frames = apart(first.frames_to_target, second.frames_to_target)
            yield Case(first.num_envs, one.arm, other.arm, "environment steps", by_frames)


def meeting() -> str:
    """Return in how many cases the intervals of two rules meet: `62 of 72`."""
    found = list(cases())
    return f"{sum(not case.is_apart for case in found)} of {len(found)}"


def differences() -> str:
    """Return the pairs of rules whose intervals do not meet."""
    by_pair: dict[tuple[int, str, str], list[str]] = {}
    for case in cases():
        if case.is_apart:
            by_pair.setdefault((case.num_envs, case.one, case.other), []).append(case.what)
    rows = [
        (f"{num_envs:,}", f"`{one}`, `{other}`", " and ".join(what))
        for (num_envs, one, other), what in sorted(by_pair.items())
    ]
    return table(("environments", "rules", "differ in"), rows)


def base_seconds() -> str:
    """Return the least and the most seconds that the same training took: `10.5 to 12.1`."""
    points = [point_at(rule, BASE).seconds_to_target for rule in rules().rules]
    values = [own.value for own in points if own is not None]
    return f"{min(values):.1f} to {max(values):.1f}"


BLOCKS = {
    "rules-limits": limits,
    "rules-losses": losses_table,
    "rules-costs": costs,
    "rules-spread": lambda: f"{spread_at_base() - 1:.0%}",
    "rules-base-seconds": base_seconds,
    "rules-meeting": meeting,
    "rules-differences": differences,
}
