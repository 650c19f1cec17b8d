"""Longer horizon, larger batch, more GPUs: what the measurements support, and what they leave open."""

import math
import statistics
from collections.abc import Mapping, Sequence

import pytest
from envknee.base.fields import KINDS, Kind
from envknee.decide.settings import arm_settings
from envknee.study.model import Decide
from envknee.verdict import gpu_scaling, levers
from envknee.verdict.measurements import measurements_of
from envknee.verdict.rule.schedule import EVERY_REPEAT, ONCE, Schedule
from envknee.verdict.schema.levers import Lever
from envknee.verdict.series import Series
from envknee.words.levers import lever_evidence, levers_sentence
from records import GPU, Trial, a_study, fps_trials, known, learning_trials, records_of
from scipy.special import stdtrit

HERE = Series("stock", 16, 128)


ALWAYS_ONCE: dict[Kind, Schedule] = dict.fromkeys(KINDS, ONCE)


def analyse(
    trials: list[Trial], num_envs: int = 64, series: Series = HERE, schedules: Mapping[Kind, Schedule] = ALWAYS_ONCE
) -> dict[str, Lever]:
    return {
        lever.name: lever
        for lever in levers.analyse(measurements_of(records_of(trials)), series, num_envs, [], Decide(), schedules)
    }


def two_horizons(shorter: Sequence[float], longer: Sequence[float]) -> list[Trial]:
    """Return FPS of 64 environments at horizon 8 and 16."""
    return [*fps_trials({64: shorter}, horizon=8), *fps_trials({64: longer}, horizon=16, first=10)]


GAINING = two_horizons([100, 101, 102], [120, 121, 122])


def test_a_longer_horizon_that_lifts_fps_is_supported_with_its_numbers():
    lever, fps = analyse(GAINING)["longer horizon"], known(analyse(GAINING)["longer horizon"].fps)
    assert lever.verdict == "supported"
    assert fps.value == pytest.approx((120 * 121 * 122 / (100 * 101 * 102)) ** (1 / 3) - 1)
    assert 0.0 < known(fps.lower) < fps.value
    assert lever_evidence(lever).startswith("8 to 16 at 64 environments: +20% FPS, ")


def test_intervals_of_a_study_that_may_end_after_any_repeat_hold_at_every_look():
    # By hand: three repeats a side. Each FPS interval leaves 2.5% x 0.8 / 3 beyond either end instead of 2.5%.
    once, looked = (
        known(analyse(GAINING, schedules=dict.fromkeys(KINDS, schedule))["longer horizon"].fps)
        for schedule in (ONCE, EVERY_REPEAT)
    )
    logs = [[math.log(fps) for fps in side] for side in ((100, 101, 102), (120, 121, 122))]
    variances = [statistics.variance(side) / 3 for side in logs]
    degrees = sum(variances) ** 2 / sum(variance**2 / 2 for variance in variances)
    gain = statistics.fmean(logs[1]) - statistics.fmean(logs[0])
    for change, tail in ((once, 0.025), (looked, 0.025 * 0.8 / 3)):
        half = -float(stdtrit(degrees, tail)) * math.sqrt(sum(variances))
        assert (change.lower, change.upper) == pytest.approx((math.expm1(gain - half), math.expm1(gain + half)))
    assert once.value == looked.value


def test_a_change_that_one_look_among_many_shows_may_be_chance():
    just_shown = two_horizons([100, 101, 102], [103, 104, 105])
    assert analyse(just_shown)["longer horizon"].verdict == "supported"
    every = dict.fromkeys(KINDS, EVERY_REPEAT)
    assert analyse(just_shown, schedules=every)["longer horizon"].verdict == "not shown"
    slower = [
        *learning_trials({64: [10.0, 10.1, 10.2]}, horizon=8),
        *learning_trials({64: [20.0, 20.1, 20.2]}, horizon=16, first=10),
    ]
    assert analyse(slower, schedules=every)["longer horizon"].verdict == "not supported"


def test_one_repeat_shows_nothing_and_a_loss_is_not_supported():
    single = analyse(two_horizons([100.0], [150.0]))["longer horizon"]
    assert single.verdict == "not shown" and "one repeat" in lever_evidence(single)
    loss = two_horizons([100, 101, 102], [80, 81, 82])
    assert analyse(loss)["longer horizon"].verdict == "not supported"


def test_fps_that_cost_time_to_the_target_are_not_supported():
    trials = [
        *fps_trials({64: [100, 101, 102]}, horizon=16, batch_size=64),
        *fps_trials({64: [120, 121, 122]}, horizon=16, batch_size=128, first=10),
        *learning_trials({64: [10.0, 10.1, 10.2]}, horizon=16, batch_size=64, first=20),
        *learning_trials({64: [20.0, 20.1, 20.2]}, horizon=16, batch_size=128, first=30),
    ]
    lever = analyse(trials)["larger batch"]
    assert lever.verdict == "not supported"
    assert known(lever.seconds_to_target).value == pytest.approx(1.0, rel=0.02)
    assert "64 to 128 at 64 environments: +20% FPS" in lever_evidence(
        lever
    ) and "+99% seconds to target" in lever_evidence(lever)
    sooner = analyse([trial for trial in trials if trial.request.kind == "throughput"])["larger batch"]
    assert sooner.verdict == "supported"


def test_censored_seconds_are_no_evidence():
    trials = [
        *learning_trials({64: [10.0, 10.1, 10.2]}, horizon=8, first=20),
        *learning_trials({64: [None, 9.1, 9.2]}, horizon=16, first=30),
    ]
    assert analyse(trials)["longer horizon"].verdict == "not measured"


def test_the_pair_at_the_point_in_question_comes_first_else_the_largest():
    trials = [
        trial
        for i, (size, horizon, fps) in enumerate([(32, 8, 50.0), (32, 16, 60.0), (64, 8, 90.0), (64, 16, 91.0)])
        for trial in fps_trials({size: [fps, fps * 1.01]}, horizon=horizon, first=10 * i)
    ]
    assert "at 32 environments: +20%" in lever_evidence(analyse(trials, num_envs=32)["longer horizon"])
    assert "at 64 environments: +1%" in lever_evidence(analyse(trials, num_envs=256)["longer horizon"])


def test_more_gpus_rest_on_the_scaling_of_either_partner():
    study = a_study(arms={"one": {"gpus": 1}, "two": {"gpus": 2}})
    trials = [
        *fps_trials({64: [100, 101, 102]}, arm="one", gpus=1, device=GPU),
        *fps_trials({64: [190, 191, 192]}, arm="two", gpus=2, device=GPU, first=10),
    ]
    arms = {name: arm_settings(arm) for name, arm in study.arms.items()}
    scalings = gpu_scaling.analyse(measurements_of(records_of(trials)), arms, study.decide)
    for arm in study.arms:
        lever = levers.analyse(measurements_of([]), Series(arm, 8, 128), 64, scalings, study.decide, ALWAYS_ONCE)[2]
        assert lever.verdict == "supported" and lever_evidence(lever).startswith(
            "1 to 2 at 64 environments each: +89% FPS"
        )
    assert analyse(trials)["more GPUs"].verdict == "not measured"


def test_one_sentence_says_what_is_supported_and_what_is_not():
    words = levers_sentence(list(analyse(GAINING).values()))
    assert words.startswith("The data support longer horizon (8 to 16 at 64 environments: +20% FPS, ")
    assert words.endswith("; not measured: larger batch and more GPUs.")
    assert levers_sentence(list(analyse([]).values())) == "Not measured: longer horizon and larger batch and more GPUs."
