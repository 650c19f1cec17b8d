"""Learning limit: interquartile means by hand, censored and failed seeds."""

from typing import Any

import numpy as np
import pytest
from envknee.record.schema import Status
from envknee.study.model import Decide
from envknee.verdict import learning
from envknee.verdict.learning_cost import Seeds, cost, interquartile_mean
from envknee.verdict.measurements import measurements_of
from envknee.verdict.schema.learning import LearningLimit, best_of
from envknee.words.learning import learning_notes, learning_statement, seconds_told
from records import GPU, Trial, a_trial, known, learning_trials, records_of
from scipy.stats import trim_mean

LACKED: tuple[Status, ...] = ("oom", "refused")
"""How trials end that had no memory."""


def analyse(trials: list[Trial], **settings: Any) -> LearningLimit:
    (limit,) = learning.analyse(measurements_of(records_of(trials)), Decide(**settings))
    return limit


def test_interquartile_mean_is_the_published_one_for_multiples_of_four_and_others_by_hand():
    values = np.random.default_rng(1).lognormal(size=(5, 8))
    assert interquartile_mean(values) == pytest.approx(trim_mean(values, 0.25, axis=1))
    # Each seed is a third; of the outer two the twelfth inside the quartiles counts: (1/12, 1/3, 1/12) / (1/2).
    assert interquartile_mean(np.array([9.0, 1.0, 3.0])) == pytest.approx(1 / 6 + 2 * 3 / 3 + 9 / 6)
    assert interquartile_mean(np.array([7.0])) == 7.0
    assert interquartile_mean(np.array([3.0, 5.0])) == 4.0


def test_cost_of_one_seed_has_no_interval_and_of_more_has():
    assert (cost(Seeds((7.0,)), 0.95).interval_lower, cost(Seeds((7.0,)), 0.95).value) == (None, 7.0)
    three = cost(Seeds((9.0, 10.0, 11.0)), 0.95)
    assert three.interval_lower < 10.0 < three.interval_upper
    assert not three.lower_bound


def test_a_point_counts_its_seeds_by_how_they_ended():
    failed = [a_trial(32, number=3 + i, kind="learning", status=status) for i, status in enumerate(("nan", *LACKED))]
    (point,) = analyse([*learning_trials({32: [10.0, 14.0, None]}), *failed]).points
    assert (point.seeds, point.reached, point.timeout, point.failed, point.oom, point.refused) == (4, 2, 1, 1, 1, 1)
    assert (point.without_memory, point.trials) == (2, 6)
    # Four seeds: the middle two of 10, 14, 60 (budget spent), 60 (NaN, the whole budget at least).
    cost = known(point.seconds_to_target)
    assert cost.value == pytest.approx((14 + 60) / 2) and cost.lower_bound and cost.interval_upper is None


def test_a_run_that_broke_early_costs_the_whole_budget_at_least():
    trial = a_trial(16, kind="learning", status="diverged", budget_s=60.0)
    broken = Trial(trial.request, trial.rows[:2], trial.outcome)
    assert broken.record.train_s == pytest.approx(5.0)
    assert known(analyse([broken]).points[0].seconds_to_target).value == 60.0


def test_frames_and_gpu_seconds():
    (point,) = analyse(learning_trials({32: [10.0, 10.0, 10.0]}, device=GPU)).points
    assert known(point.gpu_seconds_to_target).value == pytest.approx(10.0)
    assert known(point.frames_to_target).value == 24 * 32 * 8  # the factory's 24 iterations
    (on_cpu,) = analyse(learning_trials({32: [10.0]})).points
    assert on_cpu.gpu_seconds_to_target is None


def test_seconds_of_several_gpus_are_paid_for_each():
    limit = analyse(learning_trials({32: [10.0, 10.0, None]}, device=GPU, gpus=2, budget_s=30.0))
    (point,) = limit.points
    # The budget of the third counts twice as well.
    assert known(point.gpu_seconds_to_target).value == pytest.approx(2 * known(point.seconds_to_target).value)
    assert known(point.gpu_seconds_to_target).lower_bound
    assert "undecided up to 32 environments per GPU" in learning_statement(limit)
    (ranks_of_a_cpu,) = analyse(learning_trials({32: [10.0]}, gpus=0, cpu_ranks=2)).points
    assert ranks_of_a_cpu.gpu_seconds_to_target is None


def test_reached_by_hand():
    limit = analyse(learning_trials({16: [40.0, 40.4, 40.8], 32: [20.0, 20.2, 20.4], 64: [19.8, 20.0, 20.2]}))
    assert (limit.state, limit.threshold_num_envs, limit.threshold_lowest) == ("reached", 32, 32)
    assert limit.gains[0].gain == pytest.approx(0.5)  # geometric means: every seed costs half
    assert limit.gains[1].gain == pytest.approx(1 - (19.8 * 20.0 * 20.2 / (20.0 * 20.2 * 20.4)) ** (1 / 3))
    assert limit.best is not None and limit.best.num_envs == 64
    assert learning_statement(limit).startswith(
        "reached at 32 environments: doubling to 64 saves 1.0% of the seconds to target"
    )


def test_a_doubling_that_costs_time_is_told_as_such():
    limit = analyse(learning_trials({16: [20.0, 20.1, 20.2], 32: [25.0, 25.2, 25.4]}))
    assert (limit.state, limit.threshold_num_envs) == ("reached", 16)
    assert "doubling to 32 takes 25.4% more of the seconds to target (takes at least 2" in learning_statement(limit)
    assert learning_statement(limit).endswith("% more, 3 seeds, pays from 25% saved)")


def test_fewer_than_three_seeds_never_decide():
    limit = analyse(learning_trials({16: [20.0, 20.1], 32: [20.0, 20.1]}))
    assert (limit.state, limit.threshold_num_envs, limit.more_repeats) == ("undecided", None, 1)
    assert "about 1 more seed of each point would decide" in learning_statement(limit)
    assert learning_notes(limit) == ["2 seeds at 16, 32: too few to decide (3 at least)"]
    assert limit.gains[0].gain_upper is not None


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ({16: [20.0, 20.1, 20.2], 32: [None, None, None]}, 16),
        ({16: [None, None, None], 32: [58.0, 58.5, 59.0]}, 32),
    ],
)
def test_a_doubling_to_or_from_a_point_that_misses_the_target_is_not_decided_on(
    seconds: dict[int, list[float | None]], best: int
):
    limit = analyse(learning_trials(seconds, budget_s=60.0))
    (gain,) = limit.gains
    assert (limit.state, gain.decides, gain.gain_lower, gain.p_holm) == ("undecided", False, None, None)
    assert "too few seeds reached the target to decide" in learning_statement(limit)
    assert known(limit.best).num_envs == best


def test_no_seed_reaches_the_target():
    limit = analyse(learning_trials({16: [None] * 3, 32: [None] * 3}))
    assert (limit.state, limit.best, limit.gains[0].decides) == ("undecided", None, False)
    assert "0 of 6 trials reached the target" in learning_statement(limit)
    assert learning_notes(limit) == [
        "of 6 trials 6 spent the budget first: costs with them are lower bounds, and a doubling with them stays undecided below six seeds"
    ]


def test_six_seeds_of_which_one_did_not_arrive_decide():
    """The censored seed counts as one that takes at least its budget: the doubling saves less than without it."""
    fast = [20.0, 20.1, 20.2, 20.3, 20.4, 20.5]
    limit = analyse(learning_trials({16: fast, 32: [*fast[:5], None]}, budget_s=22.0))
    assert (limit.state, limit.threshold_num_envs) == ("reached", 16)
    assert limit.gains[0].decides and limit.gains[0].gain is not None and limit.gains[0].gain < 0.0
    few = analyse(learning_trials({16: fast[:5], 32: [*fast[:4], None]}, budget_s=22.0))
    assert few.state == "undecided" and not few.gains[0].decides


def test_expected_running_time_pays_for_what_failed():
    (point,) = analyse(learning_trials({16: [10.0, 20.0, None]}, budget_s=60.0)).points
    assert point.expected_running_time_s == pytest.approx((10 + 20 + 60) / 2)


def test_empty_and_all_out_of_memory():
    assert learning.analyse(measurements_of([]), Decide()) == []
    refused = a_trial(32, kind="learning", status="refused", number=1)
    limit = analyse([a_trial(16, kind="learning", status="oom"), refused])
    assert (limit.state, limit.best, limit.gains) == ("no data", None, [])
    assert limit.points[0].seconds_to_target is None
    assert learning_notes(limit) == ["infeasible (out of memory or refused): 16, 32 environments"]


def test_best_point_over_all_series():
    longer = learning_trials({16: [9.0], 32: [None]}, horizon=16, first=9)
    limits = learning.analyse(
        measurements_of(records_of([*learning_trials({16: [20.0], 32: [15.0]}), *longer])), Decide()
    )
    limit, best = known(best_of(limits))
    assert (best.num_envs, limit.horizon, seconds_told(best)) == (16, 16, "9.0 s")
    assert best_of([]) is None


def test_a_point_where_some_trials_had_no_memory_is_told_and_named_soonest_only_alone():
    no_memory = [a_trial(64, number=90 + i, kind="learning", status=status) for i, status in enumerate(LACKED)]
    partly = [*learning_trials({64: [20.0]}, first=95), *no_memory]
    limit = analyse([*learning_trials({16: [50.0, 51.0, 52.0], 32: [40.0, 41.0, 42.0]}), *partly])
    assert limit.best is not None and (limit.best.num_envs, seconds_told(limit.best)) == (32, "41.0 s")
    assert limit.points[-1].without_memory == 2
    note = "2 of 3 trials at 64 environments ran out of memory or were refused: seconds there are of the others"
    assert note in learning_notes(limit) and not any(note.startswith("infeasible") for note in learning_notes(limit))
    alone = analyse(partly).best
    assert alone is not None and alone.num_envs == 64
    assert seconds_told(alone) == "20.0 s (though 2 of 3 trials there ran out of memory or were refused)"
    elsewhere = learning.analyse(
        measurements_of(records_of([*learning_trials({16: [50.0]}, horizon=16), *partly])), Decide()
    )
    whole, best = known(best_of(elsewhere))
    assert (best.num_envs, whole.horizon) == (16, 16)
