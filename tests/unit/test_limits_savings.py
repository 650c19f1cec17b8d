"""GPU-hours to the target beside larger num_envs: from measured trials alone, with intervals, bounds and seeds."""

import pytest
from envknee.study.model import Decide
from envknee.verdict import savings
from envknee.verdict.schema.savings import Saving
from envknee.verdict.series import Series
from records import CPU, GPU, Trial, a_trial, learning_trials, records_of

HERE = Series("stock", 8, 128)


def analyse(trials: list[Trial], num_envs: int = 512, series: Series = HERE) -> list[Saving]:
    return savings.analyse(records_of(trials), series, num_envs, Decide())


def on_gpu(seconds: dict[int, list[float | None]], first: int = 0, **fields: int) -> list[Trial]:
    return learning_trials(seconds, first=first, device=GPU, gpus=fields.get("gpus", 1))


def test_hours_beside_twice_as_many_environments_by_hand():
    (saving,) = analyse(on_gpu({512: [36.0, 36.0, 36.0], 1024: [72.0, 72.0, 72.0]}))
    # More environments also collect faster in these trials: both comparisons are one point.
    assert (saving.hours, saving.against_hours) == (pytest.approx(0.01), pytest.approx(0.02))
    assert (saving.saved, saving.against_num_envs, saving.device, saving.seeds) == (pytest.approx(0.5), 1024, "GPU", 3)
    assert saving.statement.startswith("512 environments spend 0.01 GPU-hours to the target, 50% less than 1,024")


def test_the_point_with_the_most_fps_is_named_even_when_it_is_not_the_double():
    doubled, fastest = analyse(on_gpu({512: [36.0, 40.0], 1024: [60.0, 62.0], 4096: [90.0, 99.0]}))
    assert (doubled.against, doubled.against_num_envs) == ("twice as many environments", 1024)
    assert (fastest.against, fastest.against_num_envs) == ("largest FPS", 4096)
    assert "than 4,096 (the most FPS of these trials) with" in fastest.statement
    for saving in (doubled, fastest):
        assert saving.saved_lower is not None and saving.saved_upper is not None
        assert saving.saved_lower < saving.saved < saving.saved_upper


def test_spending_more_is_said_so():
    (saving,) = analyse(on_gpu({512: [90.0, 91.0], 1024: [60.0, 61.0]}))
    assert saving.saved < 0.0 and "50% more than 1,024" in saving.statement


def test_hours_are_those_of_every_gpu():
    (saving,) = analyse(on_gpu({512: [36.0], 1024: [72.0]}, gpus=4))
    assert saving.hours == pytest.approx(0.04)
    assert (saving.saved_lower, saving.saved_upper) == (None, None)
    assert "(1 seed)" in saving.statement and "512 environments per GPU" in saving.statement


def test_a_cpu_has_hours_of_its_own():
    (saving,) = analyse(learning_trials({512: [36.0], 1024: [72.0]}, device=CPU))
    assert (saving.device, saving.hours) == ("CPU", pytest.approx(0.01))


def test_a_censored_other_point_makes_the_saving_a_lower_bound_and_an_own_one_none_at_all():
    (saving,) = analyse(on_gpu({512: [36.0, 36.0], 1024: [50.0, None]}))
    assert saving.at_least and (saving.saved_lower, saving.saved_upper) == (None, None)
    assert "at least 35% less than 1,024" in saving.statement and "with at least 0.0153" in saving.statement
    assert analyse(on_gpu({512: [36.0, None], 1024: [50.0, 50.0]})) == []


def test_a_censored_other_point_that_spends_less_bounds_what_more_is_spent_from_above():
    (saving,) = analyse(on_gpu({512: [68.0, 68.0, 68.0], 1024: [50.0, 50.0, None]}))
    assert saving.at_least and saving.saved < 0.0
    # The interquartile mean of 50, 50 and the budget of 60 s is 51.7 s at least.
    assert "at most 32% more than 1,024" in saving.statement and "with at least" in saving.statement


def test_nothing_is_said_without_measurements_of_the_same_series():
    assert analyse([]) == []
    assert analyse(on_gpu({512: [36.0]})) == []
    assert analyse([*on_gpu({512: [36.0]}), *learning_trials({1024: [50.0]}, horizon=16, first=9, device=GPU)]) == []
    assert analyse([*on_gpu({512: [36.0]}), a_trial(1024, number=9, kind="learning", status="oom", device=GPU)]) == []
