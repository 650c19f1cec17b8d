"""Composed horizons: which points are measured, what is composed from them, and what the verdict makes of it."""

import math
from dataclasses import replace
from typing import Any

import pytest
from asked import dice, measured, play
from envknee.ask.ask import ask_again
from envknee.ask.clear import clear_points
from envknee.base.parts import Parts, parts_of
from envknee.base.point import Point
from envknee.record.reasons import Composed, LargeRollout
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.value_types import ASK_VERSION
from envknee.verdict import throughput
from envknee.verdict.composed import compose
from envknee.verdict.measurements import measurements_of
from envknee.verdict.rule.contrasts import Contrast
from envknee.verdict.rule.looks import once
from envknee.verdict.rule.union import decide
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.words.throughput import throughput_notes
from records import CPU, GPU, Device, Trial, a_study, known

SIZES, HORIZONS = [64, 128, 256, 512, 1024], [8, 16, 32]

TESTS = {Point(128, 32, None), Point(1024, 16, None)}
"""Points that test the law in the first repeat."""


def study(arms: Any = None, **changes: Any) -> Study:
    section = {
        "num_envs": SIZES, "horizon": HORIZONS, "batch_size": "library", "repeats": 3, "block": "all", "compose_horizons": True,
    }  # fmt: skip
    decide = {"delta": changes.get("until_decided", {}).get("delta", 0.13)}
    return a_study(
        ask_version=ASK_VERSION, window=1, arms=arms or {"stock": {}}, throughput=section | changes, decide=decide
    )


def law(noise: float = 0.0, bend: float = 0.0, most_transitions: float = math.inf, device: Device = CPU):
    """Return what measures a trial: a step takes 10 ms and 0.1 ms for each environment, learning 0.1 s and 20 us for each transition.

    `bend` makes steps of longer horizons slower, by this share for each doubling, which the law of the parts misses.
    """

    def measure(request: Request) -> Trial:
        n, h = request.num_envs, request.horizon
        if n * h > most_transitions:
            return measured(request, status="oom")
        factor = math.exp(dice(request.block, "noise").gauss(0, noise) + dice(request.number).gauss(0, noise / 4))
        collects_s = h * (0.01 + 1e-4 * n) * factor * (1 + bend * math.log2(h / 8))
        learns_s = (0.1 + 2e-5 * n * h) * factor
        trial = measured(request, fps=n * h / (collects_s + learns_s), device=device)
        return trial.with_rows(1, fps_env_step_inference=n * h / collects_s)

    return measure


def ran(requests: list[Request], repeat: int) -> set[Point]:
    return {request.point for request in requests if request.repeat == repeat and request.skip is None}


def limits(records: dict[int, Record], of: Study) -> dict[int, ThroughputLimit]:
    measured = [record for record in records.values() if record.request.skip is None]
    return {limit.horizon: limit for limit in throughput.analyse(measurements_of(measured), of.decide)}


def test_a_point_follows_from_the_steps_of_its_num_envs_and_from_rollouts_like_its_own():
    points = [Point(n, h, None) for n in SIZES for h in HORIZONS]
    parts = parts_of(points)
    assert parts[Point(512, 16, None)] == Parts(Point(512, 8, None), {Point(1024, 8, None): 1.0})
    twice = {Point(512, 8, None): -2.0, Point(1024, 8, None): 3.0}
    assert parts[Point(512, 32, None)] == Parts(Point(512, 8, None), twice), "on a line through the two largest"
    four_times_the_largest = Point(1024, 32, None)
    assert {*points} - parts.keys() == {Point(n, 8, None) for n in SIZES} | {four_times_the_largest}
    (between,) = parts_of([Point(64, 8, 32), Point(128, 8, 32), Point(64, 12, 32)]).values()
    assert between == Parts(Point(64, 8, 32), {Point(64, 8, 32): 0.5, Point(128, 8, 32): 0.5})
    assert not between.extrapolate
    other_batch_size = Point(128, 8, 64)
    assert parts_of([Point(64, 8, 32), Point(64, 16, 32), other_batch_size]) == {}


def test_a_first_repeat_measures_one_horizon_and_tests_each_larger_rollout_and_each_horizon_without_one():
    composed = study()
    requests, records = play(composed, law())
    alone = {Point(n, 8, None) for n in SIZES}
    assert ran(requests, 0) == alone | TESTS
    assert ran(requests, 1) == ran(requests, 2) == alone | {Point(1024, 32, None)}
    skips = {request.point: request.skip for request in requests if request.repeat == 0 and request.skip}
    assert skips[Point(512, 32, None)] == Composed(horizon=8, collects_num_envs=512, learns_num_envs=(512, 1024))
    assert skips[Point(1024, 32, None)] == LargeRollout(times=2.0)
    assert not any(request.again for request in requests)
    assert ask_again(composed, requests, records) == requests


def test_composed_fps_are_those_of_the_law_and_the_verdict_has_every_size_of_each_horizon():
    composed = study()
    _, records = play(composed, law())
    by_horizon = limits(records, composed)
    for horizon in HORIZONS:
        assert [point.num_envs for point in by_horizon[horizon].points] == SIZES
        for point in by_horizon[horizon].points:
            n, h = point.num_envs, horizon
            truth = n * h / (h * (0.01 + 1e-4 * n) + 0.1 + 2e-5 * n * h)
            assert point.fps == pytest.approx(truth, rel=1e-9)
            assert len(point.fps_repeats) == (2 if (n, h) == (1024, 32) else 3)
    assert [point.composed for point in by_horizon[8].points] == [0] * 5
    assert [point.composed for point in by_horizon[32].points] == [3, 2, 3, 3, 0]
    found = known(by_horizon[32].composed)
    assert (found.num_envs, found.horizon, found.used) == ([64, 128, 256, 512], 8, True)
    assert found.error == pytest.approx(0.0, abs=1e-9) and found.margin == pytest.approx(math.expm1(0.02))
    assert [(test.num_envs, test.horizon) for test in found.tests] == [(128, 32), (1024, 16)]
    (note,) = [note for note in throughput_notes(by_horizon[32]) if "composed" in note]
    assert note.startswith("64, 128, 256, 512 environments: FPS composed from times at horizon 8")
    assert "at most 0.0% off where measured, too (128 × 32, 1,024 × 16). Every bound allows for 2.0%" in note
    assert by_horizon[8].composed is None


@pytest.mark.parametrize(("bend", "least", "most"), [(0.0, 0.02, 0.02), (0.03, 0.021, 0.05)])
def test_what_a_test_is_off_by_widens_every_bound_of_a_composed_gain(bend, least, most):
    _, records = play(study(), law(bend=bend))
    margin = compose([*records.values()]).margin
    assert least <= margin <= most
    by_horizon = limits(records, study())
    for horizon, off in ((8, 0.0), (32, margin)):
        # Of 256 and 512 environments at horizon 32 all repeats are composed.
        gain = by_horizon[horizon].gains[2]
        assert math.log1p(known(gain.gain_upper_one_sided)) - math.log1p(gain.gain) == pytest.approx(off, abs=1e-9)


def test_where_the_law_misses_twice_later_repeats_measure_every_point():
    missed = study()
    requests, records = play(missed, law(bend=0.2))
    tests, every = TESTS - {Point(1024, 16, None)}, {Point(n, h, None) for n in SIZES for h in HORIZONS}
    assert tests < ran(requests, 0) and tests < ran(requests, 1) != every and ran(requests, 2) == every
    limit = limits(records, missed)[32]
    assert [(point.num_envs, len(point.fps_repeats)) for point in limit.points] == [
        (64, 1), (128, 3), (256, 1), (512, 1), (1024, 2),
    ]  # fmt: skip
    assert not known(limit.composed).used
    assert any("composed FPS are not used, for one is" in note for note in throughput_notes(limit))


def test_a_test_that_met_a_busy_moment_is_repeated_and_its_median_counts():
    once, exact = study(until_decided={"delta": 0.13}), law(noise=0.001, device=GPU)

    def disturbed(request: Request) -> Trial:
        trial = exact(request)
        if (request.point, request.repeat) != (Point(128, 32, None), 0):
            return trial
        return trial.with_rows(1, fps_total=trial.rows[1].fps_total * 0.93)

    requests, records = play(once, disturbed)
    assert [Point(128, 32, None) in ran(requests, repeat) for repeat in range(3)] == [True, True, True]
    assert Point(1024, 16, None) not in ran(requests, 1), "it was not far off"
    composition = compose([*records.values()])
    assert composition.error is not None and composition.error < 0.004 and composition.used
    (note,) = [note for note in throughput_notes(limits(records, once)[32]) if "composed" in note]
    assert "off, by the median of several tests, where measured, too (128 × 32, 1,024 × 16)" in note


def test_points_that_are_measured_for_the_first_time_count_in_what_a_repeat_will_take():
    def took(request: Request) -> Trial:
        trial = law(bend=0.2)(request)
        seconds = 0.0 if request.skip else request.num_envs * request.horizon / 512
        return trial.ended(total_s=seconds)

    # Two repeats take 222 s. The third measures every point, which takes 217 s: 143 s of points that ran before, and 74 s of others.
    for limit_s, repeats in ((400.0, 2), (440.0, 3)):
        requests, _ = play(study(time_limit_s=limit_s), took)
        assert {request.repeat for request in requests if request.skip is None} == {*range(repeats)}


def test_of_a_rollout_that_does_not_fit_nothing_is_composed():
    requests, records = play(study(), law(most_transitions=1024 * 8))
    # 1,024 x 16 did not fit: 512 x 32 learns from as many, and is tried by itself.
    assert Point(1024, 16, None) in ran(requests, 0)
    assert Point(512, 32, None) not in ran(requests, 0) and Point(512, 32, None) in ran(requests, 1)
    assert Point(512, 16, None) not in ran(requests, 1)
    assert [point.num_envs for point in limits(records, study())[32].points] == [64, 128, 256]


def test_points_follow_from_those_that_fit_at_the_smallest_horizon():
    small, records = play(study(), law(most_transitions=512 * 8))
    assert Point(512, 16, None) in ran(small, 1), "1,024 x 8 did not fit, so that nothing tells of it"
    assert {request.point for request in small if request.repeat == 2 and isinstance(request.skip, Composed)} >= {
        Point(64, 16, None), Point(256, 16, None), Point(64, 32, None),
    }  # fmt: skip
    assert all(point.fps > 0 for limit in limits(records, study()).values() for point in limit.points)


def test_a_part_of_a_point_that_may_not_pay_is_measured_though_its_own_doublings_clearly_pay():
    composed = study(repeats=5, until_decided={"delta": 0.10})
    requests, records = play(composed, law(noise=0.004, device=GPU))
    first = [record for record in records.values() if record.request.repeat == 0 and record.request.skip is None]
    rule = known(known(composed.throughput).until_decided)
    clear, later = clear_points(first, rule), ran(requests, 1)
    assert Point(64, 8, None) in clear - later, "nothing needs it"
    assert Point(128, 8, None) in clear & later, "doubling 128 at horizon 32 is less clear, and 128 x 8 is a part of it"


def test_composed_horizons_take_less_time_and_decide_the_same():
    noise, whole = law(noise=0.004), study(compose_horizons=False, until_decided={"delta": 0.145}, repeats=5)
    composed = study(until_decided={"delta": 0.145}, repeats=5)
    (asked, grid), (few, parts) = play(whole, noise), play(composed, noise)
    said = [
        {h: (limit.state, limit.threshold_num_envs) for h, limit in limits(records, of).items()}
        for records, of in ((grid, whole), (parts, composed))
    ]
    assert said[0] == said[1] and [state for state, _ in said[0].values()] == ["still pays", "reached", "reached"]
    assert sum(request.skip is None for request in few) < 0.7 * sum(request.skip is None for request in asked)


def test_a_margin_shifts_p_values_bounds_and_what_more_repeats_could_show():
    plain = [Contrast(64, math.log(1.05), 1e-5, 4, 5, processes=5)]
    shifted = [replace(plain[0], margin=0.04)]
    decided, undecided = (decide(once(own), [64, 128], math.log(1.10), 0.95) for own in (plain, shifted))
    assert decided.state == "reached" and undecided.state == "undecided"
    first, second = decided.doublings[0], undecided.doublings[0]
    for side in ("lower", "upper", "lower_one_sided", "upper_one_sided", "band_lower", "band_upper"):
        sign = 1 if "upper" in side else -1
        assert getattr(second, side) == pytest.approx(getattr(first, side) + sign * 0.04)
    assert first.p_value is not None and second.p_value is not None and second.p_value > first.p_value
    hopeless = decide(once([replace(plain[0], margin=0.06)]), [64, 128], math.log(1.10), 0.95)
    assert undecided.more_repeats is not None and hopeless.more_repeats is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"block": 3}, "compose_horizons: times are put together within a process that measures every point"),
        ({"fresh_below": 128}, "take fresh_below and points out"),
        ({"points": 4}, "take fresh_below and points out"),
        ({"horizon": 8}, "compose_horizons: horizon 8 is the only one"),
        ({"arms": {"a": {"nodes": 2, "gpus": 1}}}, "arm 'a': compose_horizons is for arms that collect and then learn"),
        ({"arms": {"a": {"trainer": "skrl_sac"}}}, "no off-policy trainer, scaling, command, compiled networks, or"),
        (
            {"arms": {"a": {"overrides": {"agent.torch_compile_mode": "default"}}}},
            "compiled networks, or several nodes",
        ),
    ],
)
def test_where_horizons_cannot_be_composed_is_said(changes, said):
    with pytest.raises(UserError, match=said):
        space.plan(study(**changes))
