"""How long a foreign command is timed after a long start: `timed_share`, `precision` and the most."""

from collections.abc import Sequence

import pytest
from envknee.measure.rows import MOST_TIMES, TrialDone, end_if_done
from envknee.record.schema import Request
from foreign_commands import a_request, an_arm
from records import a_trial

ITERATIONS = 4


def is_done(fps: Sequence[float], start_s: float, row_s: float = 1.0, **asked: object) -> bool:
    """Tell whether a trial ends with a row of these FPS, after as many seconds of start. A rollout takes a second, and a row `row_s`."""
    request: Request = a_request(an_arm(), **{"timed_share": 0.5, "precision": None} | asked)
    assert request.iterations == ITERATIONS
    row = a_trial(64).rows[0]
    rows = [row.model_copy(update={"fps_total": None, "wall_s": 0.0})]
    for number, value in enumerate(fps, start=1):
        rows.append(row.model_copy(update={"fps_total": value, "iteration_s": 1.0, "wall_s": number * row_s}))
    try:
        end_if_done(rows, request, start_s=start_s)
    except TrialDone as done:
        return done.status == "ok"
    return False


NOISY = [1000.0, 500.0]


def test_timing_goes_on_until_it_took_its_share_of_the_start():
    assert not is_done(NOISY * 4, start_s=20.0) and is_done(NOISY * 5, start_s=20.0)


def test_a_row_of_ten_rollouts_counts_with_all_its_seconds():
    assert is_done(NOISY * 2, start_s=80.0, row_s=10.0) and not is_done(NOISY * 2, start_s=81.0, row_s=10.0)


def test_a_short_start_needs_no_more_than_the_iterations():
    assert not is_done(NOISY, start_s=0.1) and is_done(NOISY * 2, start_s=0.1)


@pytest.mark.parametrize(("precision", "done"), [(0.015, True), (0.0001, False), (None, False)])
def test_a_median_that_is_known_ends_it(precision: float | None, done: bool):
    assert is_done([1000.0, 1001.0, 999.0, 1000.0], start_s=300.0, precision=precision) is done


def test_a_median_is_not_known_before_all_iterations():
    assert not is_done([1000.0] * (ITERATIONS - 1), start_s=300.0, precision=0.015)


def test_a_start_of_minutes_is_not_followed_by_more_than_the_most():
    most = MOST_TIMES * ITERATIONS
    assert not is_done(NOISY * (most // 2 - 1), start_s=1e6) and is_done(NOISY * (most // 2), start_s=1e6)


def test_without_a_share_only_iterations_count():
    assert is_done(NOISY * 2, start_s=1e6, timed_share=None)
    assert "timed_share" not in a_request(an_arm()).model_dump_json(), "recorded requests stay the same"
