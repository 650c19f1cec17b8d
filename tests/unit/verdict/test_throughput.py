"""Throughput limit: edge cases by hand, and the law."""

from typing import Any

import pytest
from envknee.record.schema import Status
from envknee.study.files import canonical_json
from envknee.study.model import Decide
from envknee.verdict import throughput
from envknee.verdict.measurements import measurements_of
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.throughput import fit_law
from envknee.words.throughput import throughput_notes, throughput_statement
from fps_data import fps_of
from records import GPU, Trial, a_trial, fps_trials, known, records_of

from benchmarks.prove import DELTA, SIZES

OTHER = GPU.model_copy(update={"uuid": "GPU-2"})


def analyse(trials: list[Trial], **settings: Any) -> ThroughputLimit:
    (limit,) = throughput.analyse(measurements_of(records_of(trials)), Decide(**settings))
    return limit


def test_reached_by_hand():
    limit = analyse(fps_trials({16: [100, 101, 102], 32: [200, 201, 202], 64: [202, 203, 204]}))
    assert (limit.state, limit.threshold_num_envs) == ("reached", 32)
    assert (limit.threshold_lowest, limit.threshold_highest) == (32, 32)
    assert limit.gains[1].gain == pytest.approx((202 * 203 * 204 / (200 * 201 * 202)) ** (1 / 3) - 1)
    assert limit.points[0].fps == pytest.approx((100 * 101 * 102) ** (1 / 3))
    assert limit.points[0].fps_repeats == pytest.approx([100, 101, 102])
    assert throughput_statement(limit).startswith(
        "reached at 32 environments: doubling to 64 gains 1.0% (95% upper bound "
    )


def test_one_point():
    limit = analyse(fps_trials({64: [100, 101, 102]}))
    assert (limit.state, limit.largest_num_envs, limit.gains, limit.law) == ("undecided", 64, [], None)
    assert (
        throughput_statement(limit)
        == "undecided up to 64 environments: one point (64 environments): a doubling needs two"
    )
    assert (limit.threshold_lowest, limit.threshold_highest) == (None, None)


def test_one_repeat_among_more_decides_nothing_there():
    limit = analyse(fps_trials({16: [100, 101, 102], 32: [100.0], 64: [100, 101, 102], 128: [100, 101, 102]}))
    assert [gain.p_value is None for gain in limit.gains] == [True, True, False]
    assert limit.threshold_num_envs == 64
    assert limit.threshold_lowest == 16
    assert (limit.too_few, limit.least_repeats) == ([32], 3)
    assert "fewer than 3 repeats at 32" in throughput_notes(limit)[0]


def test_all_out_of_memory_is_a_result():
    tried: list[tuple[int, Status]] = [(64, "oom"), (64, "refused"), (128, "oom")]
    limit = analyse([a_trial(n, number=i, status=status) for i, (n, status) in enumerate(tried)])
    assert (limit.state, limit.points, limit.largest_num_envs) == ("no data", [], None)
    assert [(point.num_envs, point.oom, point.refused) for point in limit.infeasible] == [(64, 1, 1), (128, 1, 0)]
    assert throughput_notes(limit) == ["infeasible (out of memory or refused): 64, 128 environments"]


def test_failed_repeats_are_counted_at_their_point_and_others_are_named():
    failed = [a_trial(32, number=8, status="oom"), a_trial(16, number=9, status="nan")]
    limit = analyse([*fps_trials({16: [100, 101], 32: [150, 151]}), *failed])
    assert [point.failed for point in limit.points] == [0, 1]
    assert (limit.infeasible, limit.not_counted) == ([], {"nan": 1})
    assert "not counted: 1 NaN" in throughput_notes(limit)
    assert len(limit.point(16).fps_repeats) == 2


def test_gains_after_the_threshold_are_not_hidden():
    # Falls like Madrona's cart-pole 256 x 256 on an RTX 4090 and then rises again.
    fps = {128: 20.0, 256: 47.8, 512: 42.4, 1024: 60.0}
    limit = analyse(fps_trials({n: [value, value * 1.01, value * 0.99] for n, value in fps.items()}))
    assert (limit.threshold_num_envs, limit.resumes_at) == (256, [512])
    assert "not the end: 512 to 1,024 gains 41.5%, more than delta (10%) again" in throughput_notes(limit)


def test_noise_keeps_a_small_gain_undecided():
    limit = analyse(fps_trials({16: [100, 140, 70], 32: [101, 60, 130]}))
    assert (limit.state, limit.threshold_lowest, limit.threshold_highest) == ("undecided", 16, None)
    assert limit.gains[0].gain < DELTA
    assert limit.gains[0].gain_upper_one_sided is not None and limit.gains[0].gain_upper_one_sided > DELTA


def test_delta_and_confidence_move_the_decision():
    trials = fps_trials({16: [100, 101, 102], 32: [115, 116, 117]})
    assert analyse(trials, delta=0.10).state == "still pays"
    assert analyse(trials, delta=0.20).state == "reached"
    close = fps_trials({16: [100, 102, 104], 32: [107, 108.5, 111]})
    assert analyse(close, confidence=0.80).state == "reached"
    assert analyse(close, confidence=0.99).state == "undecided"


def test_still_pays_needs_a_lower_bound_of_at_least_delta():
    limit = analyse(fps_trials({16: [100, 101, 102], 32: [130, 131, 132]}))
    # Welch on three repeats each: the lower end of 29.7% lies about 2% below it.
    assert limit.state == "still pays" and 0.26 < known(limit.still_gains) < 0.297
    said = "still pays at 32 environments: the last doubling, 16 to 32, gains 29.7% (at least 2"
    assert throughput_statement(limit).startswith(said)


def test_two_repeats_decide_nothing_and_an_undecided_series_says_how_many_would():
    limit = analyse(fps_trials({16: [100, 101], 32: [100, 101]}))
    assert (limit.state, limit.more_repeats) == ("undecided", 1)
    assert throughput_statement(limit).endswith("about 1 more repeat of each point would decide")
    near = analyse(fps_trials({16: [100, 110, 120], 32: [120, 110, 131]}))
    assert near.state == "undecided" and (near.more_repeats is None or near.more_repeats > 50)


def test_a_doubling_whose_ends_ran_on_different_machines_decides_nothing():
    trials = [*fps_trials({16: [100, 101, 102]}, device=GPU), *fps_trials({32: [101, 102, 103]}, first=9, device=OTHER)]
    limit = analyse(trials)
    assert (limit.state, limit.gains[0].machines, limit.gains[0].gain_upper) == ("undecided", 0, None)
    assert any(note.startswith("no machine ran both 16 and 32") for note in throughput_notes(limit))
    assert throughput_statement(limit).endswith("measure both ends of each doubling on the same machine")


def test_a_faster_machine_is_no_gain():
    slow = fps_trials({16: [100, 101, 102], 32: [102, 103, 104]}, device=GPU)
    fast = fps_trials({16: [150], 32: [153, 154, 155]}, first=20, device=OTHER)
    limit = analyse([*slow, *fast])
    assert (limit.state, limit.gains[0].machines) == ("reached", 2)
    assert limit.gains[0].gain == pytest.approx(0.02, abs=0.01), "and not the 25% that pooling would see"


def test_machines_that_disagree_must_each_show_it():
    here = fps_trials({16: [100, 100.2, 100.4], 32: [112, 112.2, 112.4]}, device=GPU)
    there = fps_trials({16: [100, 100.2, 100.4], 32: [104, 104.2, 104.4]}, first=20, device=OTHER)
    limit = analyse([*here, *there])
    assert limit.state == "undecided", "8% on average, and 12% on one of them"
    disagreement = known(limit.gains[0].disagreement)
    assert disagreement.gains == pytest.approx([0.1198, 0.0399], abs=1e-3) and disagreement.p_value < 0.05
    said = throughput_notes(limit)
    assert any("machines disagree about doubling 16" in note and "12.0%" in note for note in said)


def test_series_are_kept_apart_and_learning_trials_out():
    trials = [
        *fps_trials({16: [1.0], 32: [2.0]}, horizon=8),
        *fps_trials({16: [1.0]}, horizon=16, first=10),
        *fps_trials({16: [1.0]}, batch_size=None, first=20),
        *fps_trials({16: [1.0]}, arm="lean", first=30),
        a_trial(16, kind="learning", number=40),
    ]
    limits = throughput.analyse(measurements_of(records_of(trials)), Decide())
    assert [(limit.arm, limit.horizon, limit.batch_size, len(limit.points)) for limit in limits] == [
        ("lean", 8, 128, 1), ("stock", 8, None, 1), ("stock", 8, 128, 2), ("stock", 16, 128, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("ranks", [1, 2])
def test_law_recovers_what_made_the_data(ranks: int):
    # Two ranks that iterate in the time of one: the same t0 and c, twice the FPS.
    law = known(fit_law({n: [fps_of(n, ranks)] * 2 for n in SIZES}, 8, 0.95, world_size=ranks))
    assert (law.t0_s, law.s_per_env) == (pytest.approx(0.1), pytest.approx(0.001))
    assert (law.asymptote_fps, law.half_saturation_num_envs) == (pytest.approx(8000 * ranks), pytest.approx(100))
    assert (law.largest_relative_error, law.used) == (pytest.approx(0, abs=1e-9), True)
    assert law.asymptote_fps_lower == pytest.approx(8000 * ranks) == law.asymptote_fps_upper


def test_law_that_misses_is_flagged_and_two_points_have_none():
    bent = fit_law({16: [100.0], 32: [400.0], 64: [100.0], 128: [400.0]}, 8, 0.95)
    assert bent is not None and bent.largest_relative_error > 0.10 and not bent.used
    assert fit_law({16: [100.0, 101.0], 32: [200.0, 201.0]}, 8, 0.95) is None


@pytest.mark.filterwarnings("error")
def test_law_of_absurd_numbers_is_finite_and_not_used():
    law = fit_law({1: [1e-9], 2: [1e15], 4: [1.0], 8: [1.0]}, 1, 0.95)
    assert law is not None and not law.used
    canonical_json(law)


def test_law_without_saturation_has_no_asymptote_and_without_a_fixed_cost_starts_at_zero():
    law = known(fit_law({n: [n * 1.0] * 2 for n in SIZES}, 8, 0.95))
    assert (law.s_per_env, law.asymptote_fps, law.half_saturation_num_envs) == (pytest.approx(0, abs=1e-12), None, None)
    # FPS falls with N: the unconstrained line would start below zero.
    law = fit_law({16: [100.0] * 2, 32: [90.0] * 2, 64: [80.0] * 2}, 8, 0.95)
    assert law is not None and law.t0_s == 0.0 and law.half_saturation_num_envs == 0.0


def test_several_gpus_are_told_per_gpu():
    fps = {n: [fps_of(n, 2)] for n in (16, 32, 64)}
    limit = analyse(fps_trials(fps, gpus=2, device=GPU))
    assert (limit.world_size, known(limit.law).asymptote_fps) == (2, pytest.approx(16_000))
    assert throughput_statement(limit).startswith("undecided up to 64 environments per GPU: ")
    on_cpu = analyse([*fps_trials(fps, gpus=0, cpu_ranks=2), a_trial(128, number=9, gpus=0, cpu_ranks=2, status="oom")])
    assert throughput_statement(on_cpu).startswith("undecided up to 64 environments per rank: ")
    assert "infeasible (out of memory or refused): 128 environments per rank" in throughput_notes(on_cpu)
