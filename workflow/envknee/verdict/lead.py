"""Arms by rank: each at its own recommended setting, by FPS or by the seconds to the target. Pure.

Input: a verdict and its card. Output: the arms in order, and a `Lead`. It compares what each arm reached; whether settings of two arms
differ is the business of `remedies`, `rules` and `compare`.
"""

from envknee.base.fields import Kind
from envknee.verdict.schema.card import ArmRatio, Card
from envknee.verdict.schema.joint import JointAnswer
from envknee.verdict.schema.lead import Behind, Lead, Order, Standing
from envknee.verdict.schema.study import ArmVerdict, Verdict


def in_order(verdict: Verdict) -> Verdict:
    """Return the verdict with its best arm first: arms with FPS, then those with seconds, then those without a result."""
    return verdict.model_copy(update={"arms": sorted(verdict.arms, key=_rank)})


def _rank(arm: ArmVerdict) -> tuple[int, float]:
    standing = standing_of(arm)
    if standing is None:
        return 2, 0.0
    return (0, -standing.value) if standing.kind == "throughput" else (1, standing.value)


def lead_of(verdict: Verdict, card: Card) -> Lead | None:
    """Return which arm is ahead, and how far the others are behind; None without any result.

    Whether an order is shown is the card's business, so that all of a page says the same.
    """
    standings = [standing for arm in in_order(verdict).arms if (standing := standing_of(arm)) is not None]
    if not standings:
        return None
    first = standings[0]
    ratios = dict[str, ArmRatio]()
    for entry in card.entries:
        if (entry.kind, entry.arm) == (first.kind, first.arm):
            for ratio in entry.ratios:
                ratios.setdefault(ratio.other, ratio)  # the first one is at both arms' best settings
    comparable = [other for other in standings[1:] if other.kind == first.kind]
    return Lead(
        first=first,
        behind=[_behind(first, other, ratios.get(other.arm)) for other in comparable],
        beside=[other for other in standings[1:] if other.kind != first.kind],
    )


def _behind(first: Standing, other: Standing, ratio: ArmRatio | None) -> Behind:
    larger, smaller = (first, other) if first.kind == "throughput" else (other, first)
    return Behind(standing=other, times=larger.value / smaller.value, order=_order(ratio))


def _order(ratio: ArmRatio | None) -> Order:
    if ratio is None or ratio.lower is None or ratio.upper is None:
        return "no interval"
    return "open" if ratio.lower <= 1.0 <= ratio.upper else "shown"


def standing_of(arm: ArmVerdict) -> Standing | None:
    """Return what an arm reached at its recommended setting; None without a recommendation."""
    if arm.joint:
        return _of_joint(arm, max(arm.joint, key=lambda found: found.kind == "learning"))
    headline = arm.headline
    if headline is not None and arm.recommended is not None:
        return _standing(arm, "throughput", headline.num_envs, headline.fps)
    if arm.soonest is None:
        return None
    cost = arm.soonest[1].seconds_to_target
    assert cost is not None, "its seeds reached the target"
    return _standing(arm, "learning", arm.soonest[1].num_envs, cost.value)


def _of_joint(arm: ArmVerdict, found: JointAnswer) -> Standing | None:
    """Return the soonest confirmed setting; for throughput costs are seconds per frame, one over FPS."""
    if found.soonest is None:
        return None
    setting = found.confirmed[found.soonest]
    assert setting.cost is not None, "it is compared with others"
    value = 1.0 / setting.cost if found.kind == "throughput" else setting.cost
    return _standing(arm, found.kind, setting.num_envs, value)


def _standing(arm: ArmVerdict, kind: Kind, num_envs: int, value: float) -> Standing:
    return Standing(
        arm=arm.arm, world_size=arm.world_size, rank_word=arm.rank_word, kind=kind, num_envs=num_envs, value=value
    )
