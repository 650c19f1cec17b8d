"""Two sizes predict the knee: what the law says of them, and when nothing is said."""

import math

import pytest
from envknee.verdict.probes import LAW_DISTANCE, MOST_ODDS, PRIOR, Prior, fps_at, knee_ahead, knee_of, log_odds

LAW = Prior(shift=0.0, slope=1.0, spread=1.0)


def fps_of(num_envs: int) -> float:
    """FPS of t0 = 20 ms and 0.2 ms an environment: half of the most at 100 environments, the knee at 450."""
    return num_envs / (0.02 + 0.0002 * num_envs)


@pytest.mark.parametrize("sizes", [(32, 64), (64, 128), (64, 512), (128, 256)])
def test_two_sizes_of_the_law_give_its_knee_wherever_they_lie(sizes: tuple[int, int]):
    seen = knee_of({size: fps_of(size) for size in sizes}, LAW)
    assert (seen.lower, seen.num_envs, seen.upper) == (256, 512, 1024)
    before, after = (fps_of(2 * size) / fps_of(size) - 1.0 for size in (256, 512))
    assert before >= 0.10 > after, "512 is the first size whose doubling gains less than 10%"


def test_the_odds_halve_with_each_doubling():
    odds = [log_odds({size: fps_of(size), 2 * size: fps_of(2 * size)}) for size in (32, 64, 128)]
    assert odds[0] - odds[1] == pytest.approx(1.0) and odds[1] - odds[2] == pytest.approx(1.0)
    assert odds[0] + LAW_DISTANCE == pytest.approx(math.log2(450 / 64))


def test_a_prior_moves_the_knee_and_widens_its_interval():
    seen = knee_of({64: fps_of(64), 128: fps_of(128)}, Prior(shift=1.0, slope=1.0, spread=2.0))
    assert (seen.lower, seen.num_envs, seen.upper) == (256, 1024, 4096)


@pytest.mark.parametrize("second", [1000.0, 900.0])
def test_fps_that_do_not_grow_have_their_knee_at_the_smaller_size(second: float):
    seen = knee_of({256: 1000.0, 512: second}, LAW)
    assert (seen.lower, seen.num_envs) == (256, 256) and not seen.in_proportion


@pytest.mark.parametrize("second", [1995.0, 2000.0, 3800.0])
def test_fps_that_double_bound_the_knee_from_below_alone(second: float):
    fps = {256: 1000.0, 512: second}
    assert log_odds(fps) == MOST_ODDS
    seen = knee_of(fps, LAW)
    assert seen.in_proportion and seen.lower > 512


def test_fps_by_the_knee_are_those_of_the_law():
    known = {64: fps_of(64), 128: fps_of(128)}
    assert fps_at(128, known, 450.0) == pytest.approx(known[128])
    assert fps_at(4096, known, 450.0) == pytest.approx(fps_of(4096))


def test_a_climb_is_told_after_two_sizes_alone_and_for_a_cut_off_of_10_percent():
    fps = {size: [fps_of(size)] for size in (64, 128, 256)}
    first_two = {size: fps[size] for size in (64, 128)}
    seen = knee_ahead(first_two, 0.10)
    assert seen == knee_of({size: fps_of(size) for size in (64, 128)}, PRIOR)
    assert knee_ahead({64: fps[64]}, 0.10) is None and knee_ahead(fps, 0.10) is None
    assert knee_ahead(first_two, 0.05) is None
    assert knee_ahead({64: [fps_of(64) * 0.9, fps_of(64) / 0.9], 128: fps[128]}, 0.10) == seen, "repeats count once"
