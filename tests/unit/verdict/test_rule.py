"""The decision's parts by hand: contrasts within blocks, the fixed sequence beside Holm, bounds, gaps, and seeds that did not arrive."""

import math

import numpy as np
import pytest
from envknee.verdict.rule import censored, union
from envknee.verdict.rule.contrasts import Blocks, Contrast, Process, independent, of_levels, within_blocks
from envknee.verdict.rule.doublings import Level, Seeds, holm
from envknee.verdict.rule.looks import once
from records import known
from scipy import stats
from scipy.stats import f_oneway, ttest_ind, ttest_rel

LIMIT = math.log1p(0.10)


def t_of(contrast: Contrast) -> float:
    return contrast.log_gain / math.sqrt(known(contrast.variance))


def test_one_value_of_each_end_in_each_block_is_a_paired_t():
    smaller, larger = [1.0, 3.0, 2.5], [1.2, 3.1, 2.9]
    contrast = within_blocks(16, {j: [v] for j, v in enumerate(smaller)}, {j: [v] for j, v in enumerate(larger)})
    assert t_of(contrast) == pytest.approx(ttest_rel(larger, smaller).statistic)
    assert (contrast.degrees, contrast.blocks, contrast.repeats) == (2, 3, 3)


def test_blocks_with_one_end_alone_are_left_out_and_weights_are_those_of_sizes():
    smaller: Blocks = {"a": [0.0, 0.2], "b": [5.0, 5.2, 5.4], "c": [99.0]}
    larger: Blocks = {"a": [1.0, 1.2], "b": [7.0, 7.2, 7.4], "d": [-99.0]}
    contrast = within_blocks(16, smaller, larger)
    # Gains 1 and 2 with weights 2 x 2 / 4 = 1 and 3 x 3 / 6 = 1.5.
    assert contrast.log_gain == pytest.approx((1.0 * 1 + 1.5 * 2) / 2.5)
    # Pooled within blocks at either end: (0.02 + 0.08) / 3; each end: that times ((1 / 2.5)^2 / 2 + (1.5 / 2.5)^2 / 3).
    assert contrast.variance == pytest.approx(2 * 0.1 / 3 * (0.16 / 2 + 0.36 / 3))
    assert contrast.degrees == pytest.approx(6) and contrast.blocks == 2
    assert contrast.disagreement is not None and contrast.disagreement < 0.05 and len(contrast.parts) == 2


def test_no_common_block_decides_nothing():
    contrast = within_blocks(16, {"a": [0.0, 0.1, 0.2]}, {"b": [1.0, 1.1, 1.2]})
    assert (contrast.variance, contrast.blocks, contrast.log_gain) == (None, 0, pytest.approx(1.0))


def in_processes(ends: dict[int, list[float]], machine: str = "m") -> Blocks:
    return {Process(machine, number): values for number, values in ends.items()}


def test_processes_with_both_ends_are_pairs_and_what_one_measured_twice_is_averaged():
    smaller = in_processes({0: [1.0, 1.4], 1: [3.0], 2: [2.5, 2.7]})
    larger = in_processes({0: [1.3], 1: [3.1, 3.3], 2: [2.9, 2.9], 3: [9.0]})
    contrast = within_blocks(16, smaller, larger)
    assert t_of(contrast) == pytest.approx(ttest_rel([1.3, 3.2, 2.9], [1.2, 3.0, 2.6]).statistic)
    assert (contrast.degrees, contrast.repeats, contrast.processes, contrast.blocks) == (2, 3, 3, 1)


def test_processes_on_other_machines_cancel_their_speed():
    gains = [0.10, 0.12, 0.09, 0.11]
    speeds = {0: ("a", 5.0), 1: ("b", 1.0), 2: ("a", 5.2), 3: ("b", 0.9)}
    smaller: Blocks = {Process(machine, j): [speed] for j, (machine, speed) in speeds.items()}
    larger: Blocks = {Process(machine, j): [speed + gains[j]] for j, (machine, speed) in speeds.items()}
    contrast = within_blocks(16, smaller, larger)
    assert contrast.log_gain == pytest.approx(np.mean(gains))
    assert contrast.variance == pytest.approx(np.var(gains, ddof=1) / 4)
    assert (contrast.degrees, contrast.blocks, contrast.processes) == (3, 2, 4)
    assert contrast.disagreement == pytest.approx(float(f_oneway([0.10, 0.09], [0.12, 0.11]).pvalue))
    assert contrast.parts == ()


def test_machines_whose_processes_gain_differently_must_each_show_it():
    gains = {"a": [0.00, 0.01, 0.02], "b": [0.20, 0.21, 0.22]}
    own = [Process(machine, 10 * i + j) for i, machine in enumerate("ab") for j in range(3)]
    smaller: Blocks = {block: [1.0] for block in own}
    larger: Blocks = {block: [1.0 + gains[str(block.machine)][block.number % 10]] for block in own}
    contrast = within_blocks(16, smaller, larger)
    assert contrast.disagreement is not None and contrast.disagreement < 0.01
    assert [part.log_gain for part in contrast.parts] == [pytest.approx(0.01), pytest.approx(0.21)]
    assert [(part.degrees, part.variance) for part in contrast.parts] == [(4, pytest.approx(1e-4 / 3))] * 2
    assert not union.decide(once([contrast]), [16, 32], LIMIT, 0.95).doublings[0].shown_below


def test_a_process_with_one_end_is_a_repeat_of_its_machine():
    ends = {0: 1.0, 1: 1.2, 2: 1.1}, {3: 1.15, 4: 1.3, 5: 1.2}
    split = [in_processes({number: [value] for number, value in end.items()}) for end in ends]
    fresh: list[Blocks] = [{"m": list(end.values())} for end in ends]
    assert within_blocks(16, split[0], split[1]) == within_blocks(16, fresh[0], fresh[1])


def test_pairs_and_fresh_processes_are_weighted_by_their_number():
    fresh: tuple[Blocks, Blocks] = {"m": [1.0, 1.2]}, {"m": [1.3, 1.1]}
    pairs = in_processes({0: [1.0], 1: [2.0], 2: [3.0]}), in_processes({0: [1.1], 1: [2.2], 2: [3.3]})
    contrast = within_blocks(16, {**fresh[0], **pairs[0]}, {**fresh[1], **pairs[1]})
    # Weights 3 / 2 and 2 x 2 / 4 = 1; variances 0.01 / 3 of three gains, and 0.02 / 2 + 0.02 / 2 of the fresh ones.
    assert contrast.log_gain == pytest.approx(0.6 * 0.2 + 0.4 * 0.1)
    assert contrast.variance == pytest.approx(0.36 * 0.01 / 3 + 0.16 * 0.02)
    spread = (0.36 * 0.01 / 3) ** 2 / 2 + (0.16 * 0.02) ** 2 / 2
    assert contrast.degrees == pytest.approx((0.36 * 0.01 / 3 + 0.16 * 0.02) ** 2 / spread)
    assert (contrast.repeats, contrast.processes, contrast.blocks) == (5, 3, 1)


def test_repeats_within_one_process_are_one_repeat():
    blocks = [Process("m", 0), "m", Process("m", 0), "m", Process("m", 1)]
    assert independent([1.0, 2.0, 4.0, 8.0, 16.0], blocks) == pytest.approx([2.0, 2.0, 8.0, 16.0])


def test_pairs_need_more_repeats_than_their_variance_alone_says():
    """Three pairs leave two degrees of freedom where fresh processes of the same variance leave four."""
    fresh, pairs = Contrast(16, 0.03, 0.03**2, 4, 3), Contrast(16, 0.03, 0.03**2, 2, 3, processes=3)
    needed = [known(union.decide(once([own]), [16, 32], LIMIT, 0.95).more_repeats) for own in (fresh, pairs)]
    assert needed[0] < needed[1]


def contrast(num_envs: int, log_gain: float, error: float) -> Contrast:
    return Contrast(num_envs, log_gain, error**2, 1e9, 3)


def test_the_fixed_sequence_needs_no_correction_and_stops_at_its_first_failure():
    # z = (0.0953 - 0.045) / 0.0246 = 2.05: p = 2.0%, below 2.5% alone, and not below 2.5% / 3 by Holm.
    plateau = [contrast(size, 0.045, 0.0246) for size in (16, 32, 64)]
    decision = union.decide(once(plateau), [16, 32, 64, 128], LIMIT, 0.95)
    assert (decision.state, decision.threshold) == ("reached", 16)
    assert all(doubling.p_holm is not None and doubling.p_holm > 0.025 for doubling in decision.doublings)
    broken = [plateau[0], contrast(32, 0.2, 0.0246), plateau[2]]
    assert union.decide(once(broken), [16, 32, 64, 128], LIMIT, 0.95).threshold == 64, (
        "beyond the failure Holm alone counts"
    )


def test_holm_finds_a_threshold_below_a_rise():
    decision = union.decide(once([contrast(16, 0.0, 0.01), contrast(32, 0.5, 0.01)]), [16, 32, 64], LIMIT, 0.95)
    assert (decision.threshold, decision.resumes_at) == (16, (32,))


def ladder(*log_gains: float, variance: float | None = 1e-6, repeats: int = 3) -> dict[int, Level]:
    """Return levels at 16, 32, 64, ... that gain `log_gains` in turn."""
    values = [sum(log_gains[:doublings]) for doublings in range(len(log_gains) + 1)]
    return {16 * 2**i: Level(value, variance, repeats) for i, value in enumerate(values)}


def decided(levels: dict[int, Level]) -> union.Decision:
    contrasts = [of_levels(n, level, levels[2 * n]) for n, level in levels.items() if 2 * n in levels]
    return union.decide(once(contrasts), levels, LIMIT, 0.95)


def test_bounds_are_welch_intervals():
    # Variances of the means 4e-4 and 1e-4 with 3 and 5 repeats:
    # df = (5e-4)^2 / ((4e-4)^2 / 2 + (1e-4)^2 / 4) = 25 / (8 + 0.25) = 3.0303
    levels = {16: Level(0.0, 4e-4, 3), 32: Level(0.2, 1e-4, 5)}
    (doubling,) = decided(levels).doublings
    width = stats.t.ppf(0.975, 25 / 8.25) * math.sqrt(5e-4)
    assert (doubling.lower, doubling.upper) == (pytest.approx(0.2 - width), pytest.approx(0.2 + width))
    assert doubling.upper_one_sided == pytest.approx(0.2 + stats.t.ppf(0.95, 25 / 8.25) * math.sqrt(5e-4))
    assert doubling.p_value == pytest.approx(stats.t.cdf((0.2 - LIMIT) / math.sqrt(5e-4), 25 / 8.25))
    assert doubling.contrast.repeats == 3


def test_a_bound_exactly_at_the_limit_does_not_qualify():
    assert decided(ladder(LIMIT, variance=0.0)).threshold is None
    assert decided(ladder(LIMIT - 1e-9, variance=0.0)).threshold == 16


def test_several_tests_need_more_evidence_than_one():
    # One doubling below the limit at p just under 0.025 decides alone, and by Holm not beside three that gain.
    se = float((LIMIT - 0.05) / stats.t.ppf(0.98, 4))
    alone = ladder(0.05, variance=se**2 / 2)
    among = ladder(0.05, 0.6, 0.6, 0.6, variance=se**2 / 2)
    assert decided(alone).threshold == 16
    decision = decided(among)
    assert decision.doublings[0].p_value == pytest.approx(0.02)
    assert decision.doublings[0].p_holm == pytest.approx(0.08)
    assert decision.threshold is None


def test_holm_by_hand():
    # Sorted: 0.01 x 3 = 0.03, 0.02 x 2 = 0.04, 0.5 x 1; a later one is never below an earlier one.
    assert holm([0.5, 0.01, None, 0.02]) == pytest.approx([0.5, 0.03, None, 0.04])
    assert holm([0.02, 0.03, 0.03]) == pytest.approx([0.06, 0.06, 0.06])
    assert holm([None]) == [None]


def test_the_interval_begins_where_a_gap_is_open_or_at_the_largest_that_gains():
    # 16 -> 32 gains, 64 was not measured: the threshold may be 32 as well as 256.
    levels = {16: Level(0.0, 1e-6, 3), 32: Level(0.6, 1e-6, 3), 256: Level(2.0, 1e-6, 3), 512: Level(2.0, 1e-6, 3)}
    decision = decided(levels)
    assert (decision.threshold, decision.lowest, decision.highest) == (256, 32, 256)
    assert decided(ladder(0.6, 0.6)).lowest == 64


def test_without_censored_seeds_spreads_are_pooled():
    seeds = {16: [10.0, 11.0, 12.0], 32: [9.0, 10.0, 11.5]}
    (contrast,) = censored.contrasts({size: Seeds(tuple(values)) for size, values in seeds.items()})
    assert contrast.degrees == 4
    assert t_of(contrast) == pytest.approx(np.asarray(ttest_ind(np.log(seeds[16]), np.log(seeds[32])))[0])


def test_censoring_recovers_what_all_seeds_would_have_told():
    """A third of 3,000 seeds at either end spend their budget: means and errors are those of the whole sample, or a little wider."""
    rng = np.random.default_rng(1)
    whole = {16: np.exp(2.0 + 0.3 * rng.standard_normal(3000)), 32: np.exp(1.9 + 0.3 * rng.standard_normal(3000))}
    budgets = {size: float(np.quantile(values, 2 / 3)) for size, values in whole.items()}
    cut = {
        size: Seeds(
            tuple(values[values < budgets[size]].tolist()), (budgets[size],) * int((values >= budgets[size]).sum())
        )
        for size, values in whole.items()
    }
    (contrast,) = censored.contrasts(cut)
    error = math.sqrt(known(contrast.variance))
    assert contrast.log_gain == pytest.approx(0.1, abs=3 * error)
    assert 0.3 * math.sqrt(2 / 3000) < error < 1.5 * 0.3 * math.sqrt(2 / 3000)


def test_the_censored_fit_is_that_of_lifelines():
    """Means and covariance of LogNormalAFTFitter(fit_intercept=False), lifelines 0.30.3, with a column of 0 and 1 for each num_envs."""
    seeds = {
        16: Seeds((31.2, 35.5, 38.9, 39.7), (40.0, 40.0)),
        32: Seeds((24.1, 27.3, 30.2, 33.8, 38.4, 29.0)),
        64: Seeds((20.5, 22.1, 24.9, 26.6, 30.1, 33.3)),
    }
    means, variances = (3.658395, 3.405459, 3.253644), (4.328535e-3, 3.806927e-3, 3.806927e-3)
    # 18 seeds and three means: the variance of maximum likelihood counts 18 / 15 times, with 16 - 3 degrees of freedom.
    for place, contrast in zip((0, 1), censored.contrasts(seeds), strict=True):
        assert contrast.log_gain == pytest.approx(means[place] - means[place + 1], abs=2e-6)
        assert contrast.variance == pytest.approx(1.2 * (variances[place] + variances[place + 1]), rel=1e-5)
        assert contrast.degrees == 13
