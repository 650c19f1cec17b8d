"""What a study can show before it is measured, and which noise is assumed where nothing was repeated."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from envknee.verdict.noise import assumed_cv, gain_interval, measured_cv
from envknee.verdict.power import enough_repeats, power
from records import known
from scipy.stats import ttest_ind, ttest_rel


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("cv", "repeats"), [(0.05, 3), (0.10, 8)])
def test_power_is_the_share_of_simulated_studies_that_show_a_plateau(cv: float, repeats: int, paired: bool):
    rng = np.random.default_rng(1)
    smaller, larger = cv * rng.standard_normal((2, 4000, repeats))
    test = ttest_rel if paired else ttest_ind
    _, p_values = np.asarray(test(larger, smaller + math.log1p(0.15), axis=1, alternative="less"))
    shown = p_values <= 0.025
    assert power(repeats, cv, 0.15, 0.95, paired) == pytest.approx(float(shown.mean()), abs=0.03)


def test_two_repeats_decide_nothing_and_enough_is_the_first_number_that_does():
    assert power(2, 0.05, 0.15, 0.95) == 0.0
    enough = known(enough_repeats(0.05, 0.15, 0.95))
    assert power(enough - 1, 0.05, 0.15, 0.95) < 0.8 <= power(enough, 0.05, 0.15, 0.95)
    assert enough_repeats(0.5, 0.10, 0.95) is None


def test_noise_falls_where_environments_fill_the_iteration():
    assert assumed_cv(1e9, 500.0) == pytest.approx(0.011, abs=1e-4)
    # Half of the time is fixed: 14% of it, and 1.1%.
    assert assumed_cv(500.0, 500.0) == pytest.approx(math.hypot(0.07, 0.011))
    assert assumed_cv(500.0, None) == pytest.approx(math.hypot(0.14, 0.011))


def test_an_interval_of_one_ratio_by_hand_and_noise_from_repeats():
    # Student's t on 8 degrees of freedom at 97.5% is 2.306.
    lower, upper = gain_interval(0.1, [0.03, 0.04], 0.95)
    assert (lower, upper) == pytest.approx((0.1 - 2.306 * 0.05, 0.1 + 2.306 * 0.05), abs=1e-4)
    assert measured_cv([[1.0], [2.0]]) is None
    assert measured_cv([[1.0, math.exp(0.02)], [5.0]]) == pytest.approx(0.02 / math.sqrt(2))


def test_the_documented_power_is_what_the_program_computes():
    """docs/verdicts.md: noise, power of 3, 5 and 8 repeats and the repeats for 80%, unpaired and then paired."""
    text = (Path(__file__).parents[2] / "docs/verdicts.md").read_text(encoding="utf-8")
    rows = [re.findall(r"\d+", line) for line in text.splitlines() if re.match(r"\| \d+% \| \d+% \|", line)]
    assert len(rows) == 4
    for row in rows:
        noise, *shown = map(int, row)
        wanted = []
        for paired in (False, True):
            wanted += [round(100 * power(repeats, noise / 100, 0.10, 0.95, paired)) for repeats in (3, 5, 8)]
            wanted.append(enough_repeats(noise / 100, 0.10, 0.95, paired))
        assert shown == wanted
