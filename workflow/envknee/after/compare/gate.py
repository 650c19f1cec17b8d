"""Whether B may replace A: a non-inferiority test with three answers. Pure.

    pass           the one-sided bound of the loss lies below the margin, for every gating measure
    fail           a loss is shown (two-sided, Holm-corrected) and its estimate exceeds the margin, or fewer trials succeed
    inconclusive   neither: too few pairs, or no machine ran both sides

At most 1 - confidence of all comparisons pass wrongly, for any number of gating measures, because each of them must pass.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from envknee.record.schema import Frozen
from envknee.verdict.power import ENOUGH, MOST_REPEATS, enough_repeats
from envknee.verdict.rule.doublings import half_width


class Bound(Frozen):
    """The loss in one measure, with its bound."""

    measure: str
    loss: float
    """Estimate: 0.02 is 2% worse, negative is better."""
    loss_upper: float | None
    """One-sided bound; None for a single pair, whose noise is unknown."""
    passes: bool
    pairs_for_power: int | None
    """Pairs with which 80% of comparisons would pass if there is no difference; None: over 50, or unknown."""


class Gate(Frozen):
    """The answer, with its reasons."""

    answer: Literal["pass", "fail", "inconclusive"]
    bounds: list[Bound]
    reasons: list[str]
    """Why the answer is fail or inconclusive."""


class Estimate(NamedTuple):
    """A mean of ln(B / A), with its variance."""

    mean: float
    variance: float | None
    """None if unknown."""
    degrees: float
    """Degrees of freedom of the variance."""


def bound(measure: str, log: Estimate, pairs: int, confidence: float, margin: float, *, more_is_better: bool) -> Bound:
    """Return the bound of the loss in one measure. `margin` is a share of A."""
    sign = -1.0 if more_is_better else 1.0
    limit = -math.log1p(-margin) if more_is_better else math.log1p(margin)
    share = (lambda loss: -math.expm1(-loss)) if more_is_better else math.expm1
    loss = sign * log.mean
    if log.variance is None:
        return Bound(measure=measure, loss=share(loss), loss_upper=None, passes=False, pairs_for_power=None)
    upper = loss + half_width(log.variance, log.degrees, 1.0 - confidence)
    cv = math.sqrt(pairs * log.variance / 2.0)  # of each side: a pair's variance is that of both
    return Bound(
        measure=measure,
        loss=share(loss),
        loss_upper=share(min(upper, 700.0)),
        passes=upper < limit,
        # `power` leaves half of its error on either side; here one side has all of it.
        pairs_for_power=enough_repeats(cv, math.expm1(limit), 2.0 * confidence - 1.0, paired=True) if cv else pairs,
    )


def gate(bounds: Sequence[Bound], losses: Sequence[str], same_machine: bool, margin: float) -> Gate:
    """Return the answer. `losses` are those that are shown, a sentence each; `same_machine` tells whether any ran both sides."""
    if losses:
        return Gate(answer="fail", bounds=list(bounds), reasons=list(losses))
    reasons = [] if same_machine else ["no machine ran both sides: what differs may be the machines'"]
    reasons += [_why(bound, margin) for bound in bounds if not bound.passes]
    if not bounds:
        reasons.append("nothing to compare")
    return Gate(answer="inconclusive" if reasons else "pass", bounds=list(bounds), reasons=reasons)


def _why(bound: Bound, margin: float) -> str:
    if bound.loss_upper is None:
        return f"{bound.measure}: one pair tells no noise"
    enough = f"over {MOST_REPEATS}" if bound.pairs_for_power is None else bound.pairs_for_power
    return (
        f"{bound.measure} may be up to {bound.loss_upper:.1%} worse, and {margin:.0%} is accepted; without any difference"
        f" {enough} pairs would pass in {ENOUGH:.0%} of comparisons"
    )
