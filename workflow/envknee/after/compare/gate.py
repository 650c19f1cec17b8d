"""Whether B may replace A: a non-inferiority test with three answers. Pure.

    pass           the one-sided bound of the loss lies below the margin, for every gating measure
    fail           a loss is shown (two-sided, Holm-corrected) and its estimate exceeds the margin, or fewer trials succeed
    inconclusive   neither: too few pairs, or no machine ran both sides

At most 1 - confidence of all comparisons pass wrongly, for any number of gating measures, because each of them must pass.
"""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from scipy.special import stdtr

from envknee.record.schema import Frozen
from envknee.verdict.rule.doublings import half_width

ENOUGH = 0.8
MOST_PAIRS = 500


class Bound(Frozen):
    """The loss in one measure, with its bound."""

    measure: str
    loss: float
    """Estimate: 0.02 is 2% worse, negative is better."""
    loss_upper: float | None
    """One-sided bound; None for a single pair, whose noise is unknown."""
    passes: bool
    pairs_for_power: int | None
    """Pairs with which 80% of comparisons would pass if there is no difference; None: over 500, or unknown."""


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
    of_one = pairs * log.variance
    powers = ((n, _power(of_one / n, n - 1.0, confidence, limit)) for n in range(2, MOST_PAIRS + 1))
    return Bound(
        measure=measure,
        loss=share(loss),
        loss_upper=share(min(upper, 700.0)),
        passes=upper < limit,
        pairs_for_power=next((n for n, power in powers if power >= ENOUGH), None),
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


def _power(variance: float, degrees: float, confidence: float, limit: float) -> float:
    if variance == 0.0:
        return 1.0
    return float(stdtr(degrees, (limit - half_width(variance, degrees, 1.0 - confidence)) / math.sqrt(variance)))


def _why(bound: Bound, margin: float) -> str:
    if bound.loss_upper is None:
        return f"{bound.measure}: one pair tells no noise"
    enough = f"over {MOST_PAIRS}" if bound.pairs_for_power is None else bound.pairs_for_power
    return (
        f"{bound.measure} may be up to {bound.loss_upper:.1%} worse, and {margin:.0%} is accepted; without any difference"
        f" {enough} pairs would pass in {ENOUGH:.0%} of comparisons"
    )
