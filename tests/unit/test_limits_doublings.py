"""The decision rule on its own: bounds worked out by hand, the correction for several tests, gaps in a ladder."""

import math

import pytest
from envknee.verdict.rule import union
from envknee.verdict.rule.contrasts import of_levels
from envknee.verdict.rule.doublings import Level, half_width, holm
from scipy import stats

LIMIT = math.log1p(0.10)


def ladder(*log_gains: float, variance: float | None = 1e-6, repeats: int = 3) -> dict[int, Level]:
    """Return levels at 16, 32, 64, ... that gain `log_gains` in turn."""
    values = [sum(log_gains[:doublings]) for doublings in range(len(log_gains) + 1)]
    return {16 * 2**i: Level(value, variance, repeats) for i, value in enumerate(values)}


def decide(levels: dict[int, Level], log_limit: float, confidence: float, least_repeats: int) -> union.Decision:
    contrasts = [of_levels(n, level, levels[2 * n]) for n, level in levels.items() if 2 * n in levels]
    return union.decide(contrasts, levels, log_limit, confidence, least_repeats)


def test_bounds_are_welch_intervals():
    # Variances of the means 4e-4 and 1e-4 with 3 and 5 repeats:
    # df = (5e-4)^2 / ((4e-4)^2 / 2 + (1e-4)^2 / 4) = 25 / (8 + 0.25) = 3.0303
    levels = {16: Level(0.0, 4e-4, 3), 32: Level(0.2, 1e-4, 5)}
    (doubling,) = decide(levels, LIMIT, 0.95, 2).doublings
    width = stats.t.ppf(0.975, 25 / 8.25) * math.sqrt(5e-4)
    assert (doubling.lower, doubling.upper) == (pytest.approx(0.2 - width), pytest.approx(0.2 + width))
    assert doubling.upper_one_sided == pytest.approx(0.2 + stats.t.ppf(0.95, 25 / 8.25) * math.sqrt(5e-4))
    assert doubling.p_value == pytest.approx(stats.t.cdf((0.2 - LIMIT) / math.sqrt(5e-4), 25 / 8.25))
    assert doubling.contrast.repeats == 3


def test_a_bound_exactly_at_the_limit_does_not_qualify():
    assert decide(ladder(LIMIT, variance=0.0), LIMIT, 0.95, 2).threshold is None
    assert decide(ladder(LIMIT - 1e-9, variance=0.0), LIMIT, 0.95, 2).threshold == 16


def test_several_tests_need_more_evidence_than_one():
    # One doubling below the limit at p just under 0.025 decides alone, and by Holm not beside three that gain.
    se = float((LIMIT - 0.05) / stats.t.ppf(0.98, 4))
    alone = ladder(0.05, variance=se**2 / 2)
    among = ladder(0.05, 0.6, 0.6, 0.6, variance=se**2 / 2)
    assert decide(alone, LIMIT, 0.95, 2).threshold == 16
    decision = decide(among, LIMIT, 0.95, 2)
    assert decision.doublings[0].p_value == pytest.approx(0.02)
    assert decision.doublings[0].p_holm == pytest.approx(0.08)
    assert decision.threshold is None


def test_holm_by_hand():
    # Sorted: 0.01 x 3 = 0.03, 0.02 x 2 = 0.04, 0.5 x 1; a later one is never below an earlier one.
    assert holm([0.5, 0.01, None, 0.02]) == pytest.approx([0.5, 0.03, None, 0.04])
    assert holm([0.02, 0.03, 0.03]) == pytest.approx([0.06, 0.06, 0.06])
    assert holm([None]) == [None]


def test_a_gap_in_the_ladder_keeps_the_interval_open_there():
    # 16 -> 32 gains, 64 was not measured: the threshold may be 32 as well as 256.
    levels = {16: Level(0.0, 1e-6, 3), 32: Level(0.6, 1e-6, 3), 256: Level(2.0, 1e-6, 3), 512: Level(2.0, 1e-6, 3)}
    decision = decide(levels, LIMIT, 0.95, 2)
    assert (decision.threshold, decision.lowest, decision.highest) == (256, 32, 256)


def test_everything_shown_to_gain_leaves_the_largest_as_the_smallest_possible_threshold():
    assert decide(ladder(0.6, 0.6), LIMIT, 0.95, 2).lowest == 64


def test_half_width_of_no_noise_is_nothing():
    assert half_width(0.0, math.inf, 0.025) == 0.0
    assert half_width(4.0, 2.0, 0.025) == pytest.approx(2 * stats.t.ppf(0.975, 2))
