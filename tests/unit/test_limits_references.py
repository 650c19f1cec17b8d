"""What other methods say: kneed's dependence on its settings, and the Universal Scalability Law by hand."""

import math

import pytest
from envknee.limits.references import AXES, SENSITIVITIES, fit_scalability, knee, knees, references

RTX_4090 = {128: 13_900.0, 256: 22_300.0, 512: 33_900.0, 1024: 40_600.0}
"""Isaac Lab's cart-pole, RGB 128 x 128 (tests/fixtures/published/isaac-lab-rtx-4090.csv)."""


def test_kneed_names_another_num_envs_for_another_sensitivity_and_axis():
    answers = {(axis, s): knee(RTX_4090, s, axis) for axis in AXES for s in SENSITIVITIES}
    assert set(answers.values()) == {512, 128, None}
    # The same curve and axis, and only the sensitivity differs; the default of 1 finds nothing.
    assert [answers["num_envs", s] for s in (0.0, 0.5, 1.0)] == [512, 512, None]
    # The same sensitivity, and only the axis differs.
    assert (answers["num_envs", 0.0], answers["log2(num_envs)", 0.0]) == (512, 128)


def test_kneed_moves_with_how_far_the_curve_was_measured():
    fps = {n: n / (1 + n / 256) for n in (16, 32, 64, 128, 256, 512, 1024, 2048, 4096)}
    shorter = {n: value for n, value in fps.items() if n <= 1024}
    assert knee(fps, 1.0, "num_envs") != knee(shorter, 1.0, "num_envs")


def test_kneed_in_a_sentence():
    said = knees(RTX_4090)
    assert said is not None
    assert said.package.startswith("kneed ")
    assert said.default.num_envs is None
    assert said.statement.endswith("128 or 512 or nothing")


def test_kneed_without_a_curve():
    assert knees({16: 1.0, 32: 2.0}) is None
    assert knee({16: 5.0, 32: 5.0, 64: 5.0}, 1.0, "num_envs") is None


def usl(n: int, one: float, sigma: float, kappa: float) -> float:
    return one * n / (1 + sigma * (n - 1) + kappa * n * (n - 1))


@pytest.mark.parametrize(("sigma", "kappa"), [(0.02, 1e-6), (0.5, 1e-4), (0.0, 1e-5)])
def test_scalability_law_recovers_what_made_the_data(sigma: float, kappa: float):
    law = fit_scalability({n: usl(n, 100.0, sigma, kappa) for n in (16, 32, 64, 128, 256, 512)})
    assert law is not None
    assert (law.fps_of_one, law.contention, law.coherency) == (
        pytest.approx(100.0),
        pytest.approx(sigma, abs=1e-9),
        pytest.approx(kappa),
    )
    peak = math.sqrt((1 - sigma) / kappa)
    assert law.peak_num_envs == pytest.approx(peak)
    assert law.peak_fps == pytest.approx(100.0 * peak / (1 + sigma * (peak - 1) + kappa * peak * (peak - 1)))
    assert law.largest_relative_error == pytest.approx(0.0, abs=1e-9)


def test_scalability_law_without_coherency_has_no_peak():
    law = fit_scalability({n: usl(n, 100.0, 0.1, 0.0) for n in (16, 32, 64, 128)})
    assert law is not None and (law.coherency, law.peak_num_envs, law.peak_fps) == (0.0, None, None)
    assert "no peak" in law.statement


def test_scalability_coefficients_are_never_negative():
    # Superlinear: an unconstrained fit would make sigma negative.
    law = fit_scalability({16: 10.0, 32: 25.0, 64: 60.0, 128: 150.0})
    assert law is not None
    assert law.contention >= 0.0 and law.coherency >= 0.0 and law.fps_of_one > 0.0


def test_three_parameters_need_more_than_three_points():
    assert fit_scalability({16: 1.0, 32: 2.0, 64: 3.0}) is None
    assert references({16: 1.0}).scalability is None and references({16: 1.0}).kneed is None
