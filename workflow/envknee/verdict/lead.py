"""Arms by rank: each at its own recommended setting, by FPS or by the seconds to the target. Pure.

Input: a verdict. Output: its arms in order, and a `Lead`. It compares what each arm reached; whether settings of two arms differ is the
business of `remedies`, `rules` and `compare`.
"""

from envknee.verdict.schema.joint import JointAnswer
from envknee.verdict.schema.lead import Behind, Lead, Standing
from envknee.verdict.schema.study import ArmVerdict, Verdict


def in_order(verdict: Verdict) -> Verdict:
    """Return the verdict with its best arm first: arms with FPS, then those with seconds, then those without a result."""
    return verdict.model_copy(update={"arms": sorted(verdict.arms, key=_rank)})


def _rank(arm: ArmVerdict) -> tuple[int, float]:
    standing = standing_of(arm)
    if standing is None:
        return 2, 0.0
    return (0, -standing.value) if standing.kind == "throughput" else (1, standing.value)


def lead_of(verdict: Verdict) -> Lead | None:
    """Return which arm is ahead, and how far the others are behind; None without any result."""
    standings = [standing for arm in in_order(verdict).arms if (standing := standing_of(arm)) is not None]
    if not standings:
        return None
    first = standings[0]
    comparable = [other for other in standings[1:] if other.kind == first.kind]
    return Lead(first=first, behind=[_behind(first, other) for other in comparable])


def _behind(first: Standing, other: Standing) -> Behind:
    larger, smaller = (first, other) if first.kind == "throughput" else (other, first)
    known = larger.lower is not None and smaller.upper is not None
    overlaps = not known or (larger.lower or 0.0) <= (smaller.upper or 0.0)
    return Behind(standing=other, times=larger.value / smaller.value, overlaps=overlaps)


def standing_of(arm: ArmVerdict) -> Standing | None:
    """Return what an arm reached at its recommended setting; None without a recommendation."""
    if arm.joint:
        return _of_joint(arm, max(arm.joint, key=lambda found: found.kind == "learning"))
    headline, limit = arm.headline, arm.recommended
    if headline is not None and limit is not None:
        repeats = limit.point(headline.num_envs).fps_repeats
        several = len(repeats) > 1
        return Standing(
            arm=arm.arm, world_size=arm.world_size, rank_word=arm.rank_word, kind="throughput", num_envs=headline.num_envs,
            value=headline.fps, lower=min(repeats) if several else None, upper=max(repeats) if several else None,
        )  # fmt: skip
    if arm.soonest is None:
        return None
    cost = arm.soonest[1].seconds_to_target
    assert cost is not None, "its seeds reached the target"
    return Standing(
        arm=arm.arm, world_size=arm.world_size, rank_word=arm.rank_word, kind="learning", num_envs=arm.soonest[1].num_envs,
        value=cost.value, lower=cost.interval_lower, upper=cost.interval_upper,
    )  # fmt: skip


def _of_joint(arm: ArmVerdict, found: JointAnswer) -> Standing | None:
    """Return the soonest confirmed setting; for throughput costs are seconds per frame, one over FPS."""
    if found.soonest is None:
        return None
    setting = found.confirmed[found.soonest]
    assert setting.cost is not None, "it is compared with others"
    value, lower, upper = setting.cost, setting.cost_lower, setting.cost_upper
    if found.kind == "throughput":
        value, lower, upper = 1.0 / value, _inverse(upper), _inverse(lower)
    return Standing(
        arm=arm.arm, world_size=arm.world_size, rank_word=arm.rank_word, kind=found.kind, num_envs=setting.num_envs,
        value=value, lower=lower, upper=upper,
    )  # fmt: skip


def _inverse(cost: float | None) -> float | None:
    return 1.0 / cost if cost else None
