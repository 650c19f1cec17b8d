"""Do two arms need as many frames to the target? An equivalence test between their fresh seeds at the same settings. Pure.

That no difference is seen shows nothing: few seeds never show one. So the ratio of frames must be shown to lie within 15%: its interval, at
1 - 2 alpha, must lie between 0.85 and 1.15 (two one-sided tests, Schuirmann 1987, J. Pharmacokinet. Biopharm. 15:657). Then a true ratio of
0.85 or 1.15 passes with a chance of alpha at most.

The ratio is the geometric mean over all settings that both arms confirmed, of which there must be four or more. It must be the same at
each: where an F test says with p <= 0.10 that settings differ, nothing is shown. Its level is high because it has little power with few
seeds. It can only take away what the first test shows.

Seeds that missed the target count by maximum likelihood (`fresh.levels_of`). A setting with too many of them leaves the whole question
open: to leave the setting out would leave out the seeds that took longest.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import fdtrc, stdtrit

from envknee.base.point import Point
from envknee.verdict.joint.fresh import Levels, levels_of
from envknee.verdict.joint.prior import Array
from envknee.verdict.joint.rounds import Rounds
from envknee.verdict.learning_cost import frames_of
from envknee.verdict.rule.doublings import Seeds
from envknee.verdict.schema.joint import Likeness, LikenessState, SettingRatio

MARGIN = 0.15
"""The ratio of frames may differ from 1 by this much."""

LEAST_SETTINGS = 4

VARIES = 0.10
"""Settings differ in their ratio if the F test has at most this p-value."""


def compared(arm: str, own: Rounds, others: Rounds | None, alpha: float) -> Likeness | None:
    """Return how many times the frames of another arm one needs; None before both have the planned seeds.

    Args:
        arm: the name of the other one
        own: fresh seeds of the first one
        others: fresh seeds of the other one, with the same number planned; None without any
        alpha: chance of error of this claim, over all looks together
    """
    settings = [setting for setting in own.settings if others is not None and setting in others.settings]
    if others is None or not settings:
        return _untold(arm, alpha)
    pairs = [
        (own.rounds[own.settings.index(setting)], others.rounds[others.settings.index(setting)]) for setting in settings
    ]
    look = own.schedule.last_look(min(len(of_arm) for pair in pairs for of_arm in pair))
    if look is None:
        return None
    before = [[[record for number, record in of_arm.items() if number < look] for of_arm in pair] for pair in pairs]
    seeds = [(frames_of(first), frames_of(second)) for first, second in before]
    return likeness(arm, settings, seeds, alpha / own.schedule.factor(look))


def likeness(arm: str, settings: Sequence[Point], seeds: Sequence[tuple[Seeds, Seeds]], alpha: float) -> Likeness:
    """Return the ratio of frames at some settings, from seeds of both arms at each; `alpha` is the chance of error at this look."""
    ran = [(setting, *both) for setting, both in zip(settings, seeds, strict=True) if all(own.count for own in both)]
    count = len(ran)
    levels = levels_of([own for _, own, _ in ran] + [other for _, _, other in ran])
    places = [place for place in range(count) if {place, place + count} <= {*levels.comparable}]
    if not places:
        return _untold(arm, alpha)
    # Of each setting: its own ln frames less those of the other arm.
    contrasts = np.zeros((len(places), 2 * count))
    for row, place in enumerate(places):
        contrasts[row, place], contrasts[row, place + count] = 1.0, -1.0
    logs = contrasts @ np.nan_to_num(levels.means)
    covariance = contrasts @ levels.covariance @ contrasts.T
    quantile = -float(stdtrit(levels.degrees, alpha))
    ratio, lower, upper = _interval(float(logs.mean()), float(covariance.mean()), quantile)
    state = _state(count, len(places), lower, upper, _same(logs, covariance, levels))
    return Likeness(
        arm=arm,
        state=state,
        margin=MARGIN,
        least_settings=LEAST_SETTINGS,
        error=alpha,
        ratio=ratio,
        ratio_lower=lower,
        ratio_upper=upper,
        at=[
            _at(ran[place][0], float(logs[row]), float(covariance[row, row]), quantile)
            for row, place in enumerate(places)
        ],
    )


def _untold(arm: str, alpha: float) -> Likeness:
    """Return that no setting can be compared."""
    unknown = dict.fromkeys(("ratio", "ratio_lower", "ratio_upper"))
    return Likeness(
        arm=arm, state="too few settings", margin=MARGIN, least_settings=LEAST_SETTINGS, error=alpha, at=[], **unknown
    )


def _state(ran: int, comparable: int, lower: float, upper: float, same: float) -> LikenessState:
    if ran < LEAST_SETTINGS:
        return "too few settings"
    if comparable < ran:
        return "seeds missed the target"
    if upper < 1.0 - MARGIN or lower > 1.0 + MARGIN:
        return "differs"
    if lower < 1.0 - MARGIN or upper > 1.0 + MARGIN:
        return "not shown"
    return "varies" if same <= VARIES else "shown"


def _same(logs: Array, covariance: Array, levels: Levels) -> float:
    """Return the p-value of the F test that all settings have one ratio; 1 of a single setting."""
    others = len(logs) - 1
    if not others:
        return 1.0
    steps = np.diff(np.eye(others + 1), axis=0)
    differences = steps @ logs
    squares = float(differences @ np.linalg.solve(steps @ covariance @ steps.T, differences))
    return float(fdtrc(others, levels.degrees, squares / others))


def _interval(log: float, variance: float, quantile: float) -> tuple[float, float, float]:
    half = quantile * math.sqrt(max(variance, 0.0))
    return math.exp(log), math.exp(log - half), math.exp(log + half)


def _at(setting: Point, log: float, variance: float, quantile: float) -> SettingRatio:
    ratio, lower, upper = _interval(log, variance, quantile)
    return SettingRatio(**vars(setting), ratio=ratio, ratio_lower=lower, ratio_upper=upper)
