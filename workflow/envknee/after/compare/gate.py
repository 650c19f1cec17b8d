"""Whether B may replace A: a non-inferiority test with three answers. Pure.

    pass           the one-sided bound of the loss lies below the margin, for every gating measure
    fail           a loss is shown (two-sided, Holm-corrected) and its estimate exceeds the margin, or fewer trials succeed
    inconclusive   neither: too few pairs, or no machine ran both sides

At most 1 - confidence of all comparisons pass wrongly, for any number of gating measures, because each of them must pass.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from envknee.verdict.power import enough_repeats
from envknee.verdict.rule.doublings import half_width
from envknee.verdict.schema.comparison import Bound, Gate, MeasureName, Outcome, Ratio


class Estimate(NamedTuple):
    """A mean of ln(B / A), with its variance."""

    mean: float
    variance: float | None
    """None if unknown."""
    degrees: float
    """Degrees of freedom of the variance."""


def bound(
    measure: MeasureName, log: Estimate, pairs: int, confidence: float, margin: float, *, more_is_better: bool
) -> Bound:
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


def gate(
    bounds: Sequence[Bound], losses: Sequence[Ratio], fewer_succeeded: Sequence[Outcome], one_machine: bool
) -> Gate:
    """Return the answer. `losses` are shown and beyond the margin; `one_machine` tells whether any machine ran both sides."""
    if losses or fewer_succeeded:
        answer = "fail"
    elif one_machine and bounds and all(bound.passes for bound in bounds):
        answer = "pass"
    else:
        answer = "inconclusive"
    return Gate(
        answer=answer,
        bounds=list(bounds),
        losses=list(losses),
        fewer_succeeded=list(fewer_succeeded),
        one_machine=one_machine,
    )
