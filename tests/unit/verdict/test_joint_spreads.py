"""Spreads of settings with few seeds each: what they have in common, and how often intervals from them hold."""

import numpy as np
import pytest
from envknee.verdict.joint import spreads
from scipy.special import polygamma, stdtrit


@pytest.mark.parametrize("value", [1e-5, 0.02, 1.0, 7.0, 1e5])
def test_the_inverse_of_trigamma(value: float):
    assert float(polygamma(1, spreads.inverse_trigamma(value))) == pytest.approx(value)


def test_alike_spreads_are_pooled_with_all_their_degrees():
    found = spreads.shared(np.array([0.09, 0.1, 0.11]), np.array([3.0, 5.0, 3.0]))
    assert found.are_equal and found.variances == pytest.approx([0.1] * 3) and list(found.degrees) == [11.0] * 3


def test_a_spread_lies_between_its_own_and_the_common_one_nearer_with_more_seeds():
    own = np.array([0.001, 0.5, 0.01, 0.2, 0.05, 0.9])
    few, many = (spreads.shared(own, np.full(6, degrees)) for degrees in (3.0, 30.0))
    assert not few.are_equal and (few.degrees > 3.0).all() and (many.degrees > 30.0).all()
    assert (np.abs(np.log(many.variances / own)) < np.abs(np.log(few.variances / own))).all()


def test_a_spread_of_nothing_is_no_certainty():
    found = spreads.shared(np.array([0.0, 0.5, 0.01, 0.2, 0.05, 0.9]), np.full(6, 3.0))
    assert found.variances[0] > 0.0


@pytest.mark.parametrize(
    "sds", [[0.3] * 6, [0.15, 0.6] * 3, [0.9, *[0.2] * 5]], ids=["alike", "two kinds", "one of six"]
)
def test_an_interval_of_the_least_mean_holds(sds: list[float]):
    random, count, seeds, held, studies = np.random.default_rng(1), len(sds), 8, 0, 1000
    for _ in range(studies):
        values = np.array(sds)[:, None] * random.standard_normal((count, seeds))
        found = spreads.shared(values.var(axis=1, ddof=1), np.full(count, seeds - 1.0))
        place = int(values.mean(axis=1).argmin())
        half_width = -stdtrit(found.degrees[place], 0.05 / (2 * count)) * np.sqrt(found.variances[place] / seeds)
        held += abs(values[place].mean()) <= half_width
    assert held / studies > 0.95
