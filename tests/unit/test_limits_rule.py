"""The decision's parts by hand: contrasts within blocks, the fixed sequence beside Holm, and seeds that did not arrive."""

import math

import numpy as np
import pytest
from envknee.verdict.rule import censored, union
from envknee.verdict.rule.contrasts import Blocks, Contrast, within_blocks
from scipy.stats import ttest_ind, ttest_rel

LIMIT = math.log1p(0.10)


def test_one_value_of_each_end_in_each_block_is_a_paired_t():
    one, two = [1.0, 3.0, 2.5], [1.2, 3.1, 2.9]
    contrast = within_blocks(16, {j: [v] for j, v in enumerate(one)}, {j: [v] for j, v in enumerate(two)})
    statistic, _ = np.asarray(ttest_rel(two, one))
    assert contrast.variance is not None
    assert contrast.log_gain / math.sqrt(contrast.variance) == pytest.approx(float(statistic))
    assert (contrast.degrees, contrast.blocks, contrast.repeats) == (2, 3, 3)


def test_blocks_with_one_end_alone_are_left_out_and_weights_are_those_of_sizes():
    one: Blocks = {"a": [0.0, 0.2], "b": [5.0, 5.2, 5.4], "c": [99.0]}
    two: Blocks = {"a": [1.0, 1.2], "b": [7.0, 7.2, 7.4], "d": [-99.0]}
    contrast = within_blocks(16, one, two)
    # Gains 1 and 2 with weights 2 x 2 / 4 = 1 and 3 x 3 / 6 = 1.5.
    assert contrast.log_gain == pytest.approx((1.0 * 1 + 1.5 * 2) / 2.5)
    # Pooled within blocks at either end: (0.02 + 0.08) / 3; each end: that times ((1 / 2.5)^2 / 2 + (1.5 / 2.5)^2 / 3).
    assert contrast.variance == pytest.approx(2 * 0.1 / 3 * (0.16 / 2 + 0.36 / 3))
    assert contrast.degrees == pytest.approx(6) and contrast.blocks == 2
    assert contrast.disagreement is not None and contrast.disagreement < 0.05 and len(contrast.parts) == 2


def test_no_common_block_decides_nothing():
    contrast = within_blocks(16, {"a": [0.0, 0.1, 0.2]}, {"b": [1.0, 1.1, 1.2]})
    assert (contrast.variance, contrast.blocks, contrast.log_gain) == (None, 0, pytest.approx(1.0))


def contrast(num_envs: int, log_gain: float, error: float) -> Contrast:
    return Contrast(num_envs, log_gain, error**2, 1e9, 3)


def test_the_fixed_sequence_needs_no_correction_and_stops_at_its_first_failure():
    # z = (0.0953 - 0.045) / 0.0246 = 2.05: p = 2.0%, below 2.5% alone, and not below 2.5% / 3 by Holm.
    plateau = [contrast(size, 0.045, 0.0246) for size in (16, 32, 64)]
    decision = union.decide(plateau, [16, 32, 64, 128], LIMIT, 0.95)
    assert (decision.state, decision.threshold) == ("reached", 16)
    assert all(one.p_holm is not None and one.p_holm > 0.025 for one in decision.doublings)
    broken = [plateau[0], contrast(32, 0.2, 0.0246), plateau[2]]
    assert union.decide(broken, [16, 32, 64, 128], LIMIT, 0.95).threshold == 64, "beyond the failure Holm alone counts"


def test_holm_finds_a_threshold_below_a_rise():
    decision = union.decide([contrast(16, 0.0, 0.01), contrast(32, 0.5, 0.01)], [16, 32, 64], LIMIT, 0.95)
    assert (decision.threshold, decision.resumes_at) == (16, (32,))


def test_without_censored_seeds_spreads_are_pooled():
    seeds = {16: [10.0, 11.0, 12.0], 32: [9.0, 10.0, 11.5]}
    (found,) = censored.contrasts({size: (values, ()) for size, values in seeds.items()})
    logs = [np.log(values) for values in seeds.values()]
    statistic, _ = np.asarray(ttest_ind(logs[0], logs[1]))
    assert found.variance is not None and found.degrees == 4
    assert found.log_gain / math.sqrt(found.variance) == pytest.approx(float(statistic))


def test_censoring_recovers_what_all_seeds_would_have_told():
    """A third of 3,000 seeds at either end spend their budget: means and errors are those of the whole sample, or a little wider."""
    rng = np.random.default_rng(1)
    whole = {16: np.exp(2.0 + 0.3 * rng.standard_normal(3000)), 32: np.exp(1.9 + 0.3 * rng.standard_normal(3000))}
    budgets = {size: float(np.quantile(values, 2 / 3)) for size, values in whole.items()}
    cut = {
        size: (values[values < budgets[size]].tolist(), [budgets[size]] * int((values >= budgets[size]).sum()))
        for size, values in whole.items()
    }
    (found,) = censored.contrasts(cut)
    assert found.variance is not None and found.log_gain == pytest.approx(0.1, abs=3 * math.sqrt(found.variance))
    assert 0.3 * math.sqrt(2 / 3000) < math.sqrt(found.variance) < 1.5 * 0.3 * math.sqrt(2 / 3000)
