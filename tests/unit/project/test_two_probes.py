"""How knees of published curves are predicted from two sizes: the curves, that nothing leaks, and what is claimed."""

import math

import pytest
from envknee.verdict.probes import PRIOR

from benchmarks import probes
from benchmarks.curves import Bracket, Curve, bracket_of, curves, fixtures, posted, thinned


def test_the_knee_is_the_first_size_from_which_no_doubling_gains_10_percent():
    saturates = {64: 100.0, 128: 150.0, 256: 180.0, 512: 190.0, 1024: 195.0}  # +50%, +20%, +6%, +3%
    assert bracket_of(saturates) == Bracket(128.0, 256.0) and bracket_of(saturates).is_measured
    assert bracket_of(saturates | {2048: 250.0}) == Bracket(1024.0, math.inf), "it rises again"
    assert bracket_of({64: 100.0, 128: 105.0, 256: 90.0}) == Bracket(0.0, 64.0)
    assert bracket_of({64: 100.0, 256: 125.0, 512: 130.0}) == Bracket(64.0, 256.0), "+12% a doubling"


def test_small_and_crowded_sizes_are_left_out():
    assert thinned({30: 1.0, 300: 2.0, 3000: 3.0, 15000: 4.0, 17000: 5.0, 24000: 6.0}, 64) == {
        300: 2.0, 3000: 3.0, 15000: 4.0, 24000: 6.0,
    }  # fmt: skip


def test_every_posted_curve_is_whole_and_none_is_there_twice():
    every = [*posted(), *fixtures()]
    assert all(list(curve.fps) == sorted(curve.fps) and min(curve.fps.values()) > 0.0 for curve in every)
    assert all(len(curve.fps) >= 4 for curve in posted())
    figures = [tuple(curve.fps.items()) for curve in every]
    assert len(set(figures)) == len(figures)


def test_a_curve_of_the_same_task_and_gpu_does_not_inform_a_prediction():
    every = curves()
    one = next(curve for curve in every if curve.gpu == "H100" and bracket_of(curve.fps).is_measured)
    flat = Curve(one.task, one.gpu, "made up", dict.fromkeys((64, 128, 256, 512), 1000.0))
    assert one in every and flat.group == one.group
    before, after = (probes.left_out(found, probes.next_size) for found in (every, [*every, *[flat] * 50]))
    own = [[seen for seen in found if seen.curve == one] for found in (before, after)]
    assert own[0] == own[1]
    assert [seen.upper for seen in before] != [seen.upper for seen in after[: len(before)]], "others were informed"


def test_an_interval_holds_where_it_overlaps_the_knee_and_an_error_counts_doublings():
    curve = Curve("task", "GPU", "", {64: 100.0, 128: 150.0, 256: 180.0, 512: 190.0})  # the knee is 256
    for knee, lower, upper, held, error in (
        (256, 256, 256, True, 0.0),
        (512, 256, 1024, True, 1.0),
        (1024, 512, 4096, False, 2.0),
        (64, 64, 128, False, 2.0),
    ):
        seen = probes.Predicted(curve, bracket_of(curve.fps), {}, knee, lower, upper)
        assert (seen.held, seen.error) == (held, error)


def test_what_a_climb_says_reaches_the_targets_on_knees_that_were_measured():
    found = probes.left_out(curves(), probes.next_size)
    got = probes.score(probes.measured(found))
    assert got.curves >= 30
    assert got.coverage >= probes.TARGET_COVERAGE and got.error <= probes.TARGET_ERROR, got
    assert probes.score(found).coverage >= probes.TARGET_COVERAGE


def test_the_prior_of_a_climb_is_that_of_all_curves():
    """Further curves may move it a little. If this fails, put what `envknee probes --each` prints into verdict/probes.py."""
    fitted = probes.prior_of(probes.likelihoods_of(curves(), probes.next_size))
    assert PRIOR.shift == pytest.approx(fitted.shift, abs=0.5)
    assert PRIOR.slope == pytest.approx(fitted.slope, abs=0.2)
    assert PRIOR.spread == pytest.approx(fitted.spread, rel=0.2)
