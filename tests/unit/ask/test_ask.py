"""What is asked next: legal, new, the same in every process, and knowing no more than the window shows."""

import difflib
import shutil
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest
from asked import ENVIRONMENT, a_study, any_outcome, block, digest, learning_section, measured, play, replay_study
from envknee.after import replay
from envknee.ask import ask as asking
from envknee.ask.ask import ask
from envknee.ask.question import Observation, censored_seconds, observe
from envknee.ask.refusals import KnownMemory
from envknee.ask.samplers.points import _optuna, gp, sobol, tpe
from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.reasons import FailedBefore, RolloutTooLarge
from envknee.record.schema import Device, Request
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.load import parse_study, read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.value_types import ASK_VERSION
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import PROGRAMS
from programs import python, run_main
from records import GPU, Trial, a_trial, write_study

ROLLOUT_GB = 221_184e-9  # one transition of 96 x 96 RGB, two frames, float32, as records.a_trial has it

# Every sampler, every history

sizes = st.lists(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24, 32]), min_size=1, max_size=4, unique=True)


@st.composite
def small_studies(draw: st.DrawFn, names: Sequence[str] = ("grid", "random", "sobol", "tpe")) -> Study:
    def section() -> dict[str, Any]:
        return {
            "num_envs": draw(sizes),
            "horizon": draw(sizes),
            # 1 divides everything, so that no section is without a legal point
            "batch_size": draw(st.just("library") | sizes.map(lambda values: sorted({1, *values}))),
            "sampler": draw(st.sampled_from(names)),
            "points": draw(st.integers(1, 9)),
            "repeats": draw(st.integers(1, 3)),
        }

    data: dict[str, Any] = {"study": "s", "ask_version": draw(st.integers(1, ASK_VERSION))}
    data |= {"seed": draw(st.integers(0, 99)), "window": draw(st.integers(1, 6))}
    data["arms"] = {name: {} for name in draw(st.sampled_from([["stock"], ["stock", "lean"], ["c", "b", "a"]]))}
    data["throughput"] = section()
    if draw(st.booleans()):
        data["learning"] = section() | {"target_reward": draw(st.sampled_from([4.0, 0.0, -10.0])), "budget_s": 60}
    return parse_study(data)


def check_plan_and_blocks(study: Study, requests: Sequence[Request]) -> None:
    """Check all that holds for every study, whatever was measured."""
    slots = space.plan(study)
    of_requests, of_slots = ([(of.number, of.arm, of.kind, of.repeat) for of in made] for made in (requests, slots))
    assert of_requests == of_slots
    seeds: dict[tuple[object, ...], set[int]] = {}
    for request in requests:
        seeds.setdefault((request.kind, request.repeat, request.point), set()).add(request.seed)
        assert 0 <= request.seed < 2**31
    assert all(len(of_point) == 1 for of_point in seeds.values()), "a seed is that of its kind, repeat and point"
    assert len({min(of_point) for of_point in seeds.values()}) == len(seeds), "and of no other"
    for kind, sweep in study.sections.items():
        for arm in study.arms:
            first = block(requests, arm, kind)
            assert len(set(first)) == len(first) == space.points_asked(sweep, {1})
            assert set(first) <= set(space.legal_points(sweep))
            for repeat in range(1, sweep.repeats):
                assert sorted(block(requests, arm, kind, repeat)) == sorted(first)
        if sweep.sampler in ("sobol", "tpe"):
            assert sorted(sobol.order(study, kind), key=str) == sorted(space.legal_points(sweep), key=str)
        if sweep.sampler in ("grid", "random", "sobol"):
            assert len({tuple(block(requests, arm, kind)) for arm in study.arms}) == 1, "arms are compared pair by pair"


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(study=small_studies())
def test_every_request_is_legal_and_every_block_complete(study: Study) -> None:
    requests, _ = play(study)
    check_plan_and_blocks(study, requests)


def test_the_same_holds_for_gp() -> None:
    for window, batch_size in ((1, [128, 256]), (4, "library")):
        section = learning_section(sampler="gp", batch_size=batch_size, repeats=1)
        study = a_study(throughput=None, learning=section, window=window)
        check_plan_and_blocks(study, play(study)[0])


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(study=small_studies(names=("tpe", "grid")), data=st.data())
def test_nothing_but_the_visible_past_has_a_say(study: Study, data: st.DataObject) -> None:
    requests, known = play(study)
    number = data.draw(st.integers(0, len(requests) - 1))
    expected = canonical_json(requests[number])
    visible = {n: record for n, record in known.items() if n <= number - study.window}
    assert canonical_json(ask(study, number, requests[:number], visible)) == expected
    # Records of the window and of the future: changed, and in any order.
    lies = {n: measured(requests[n], fps=1e9, memory_gb=0.001).record for n in known if n not in visible}
    order = data.draw(st.permutations(list(known)))
    shuffled = {n: (visible | lies)[n] for n in order}
    assert canonical_json(ask(study, number, requests[:number], shuffled)) == expected
    # Arms in another order, as after a round trip through JSON.
    turned = study.model_copy(update={"arms": dict(reversed(study.arms.items()))})
    assert canonical_json(ask(turned, number, requests[:number], known)) == expected


def test_the_newest_visible_record_has_a_say_and_the_next_one_has_none() -> None:
    study = a_study(throughput=CARD | {"sampler": "tpe", "points": 24}, window=3)
    requests, known = play(study, peak)
    answers = {"visible": 0, "hidden": 0}
    for number in range(8 + 3, len(requests)):
        for name, newest in (("visible", number - 3), ("hidden", number - 2)):
            changed = known | {newest: measured(requests[newest], fps=1e6, device=GPU).record}
            answers[name] += ask(study, number, requests[:number], changed) != requests[number]
    assert answers["hidden"] == 0
    assert answers["visible"] >= 5


def test_a_trial_without_a_record_is_shown_as_running() -> None:
    study = a_study(throughput__sampler="tpe", throughput__repeats=1, window=1)
    requests, known = play(study, peak, until=12)
    some = {n: record for n, record in known.items() if n not in (3, 10, 11)}
    shown = observe(study.sections["throughput"], requests, some)
    assert [o.point for o in shown] == [r.point for r in requests]
    assert [n for n, o in enumerate(shown) if o.value is None] == [3, 10, 11]
    assert ask(study, 12, requests, some) == ask(study, 12, requests, dict(reversed(some.items())))


def peak(request: Request) -> Trial:
    """Return a trial on a synthetic card: FPS saturates, long rollouts and odd batches cost, memory ends at 80 GB."""
    fps = 60_000 * request.num_envs / (request.num_envs + 700)
    fps *= 1 / (1 + 0.35 * abs(request.horizon.bit_length() - 6))
    fps *= 1 / (1 + 0.5 * abs((request.batch_size or 4096).bit_length() - 14))
    memory_gb = 1.0 + 2.6 * ROLLOUT_GB * request.num_envs * request.horizon
    if memory_gb > 80:
        return measured(request, status="oom", device=GPU)
    return measured(request, fps=fps, memory_gb=memory_gb, device=GPU)


CARD = {
    "num_envs": {"from": 64, "to": 16384},
    "horizon": {"from": 8, "to": 256},
    "batch_size": {"from": 512, "to": 65536},
    "repeats": 1,
}


# Histories full of trials that did not fit


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
@pytest.mark.parametrize("kind", ["throughput", "learning"])
def test_nothing_but_failures_still_gives_new_points(sampler: str, kind: Kind) -> None:
    section = learning_section(sampler=sampler, points=9, repeats=1)
    if kind == "throughput":
        del section["target_reward"], section["budget_s"]
    study = a_study(**{"throughput": None, kind: section}, window=2)
    for status in ("oom", "nan"):
        requests, _ = play(study, lambda request, status=status: measured(request, status=status))
        check_plan_and_blocks(study, requests)


def large_proposals(study: Study, kind: Kind, value: float, memory_excess: float) -> int:
    """Count how many of 4 proposals have 1024 environments or more, after a history over the whole space.

    Args:
        value: what num_envs is multiplied with, or divided by when it is negative
        memory_excess: of every trial with 1024 environments or more
    """
    sweep = study.sections[kind]
    points = [point for point in space.legal_points(sweep) if point.batch_size in (2048, 16384)]
    history = [
        Observation(
            p, value * p.num_envs if value > 0 else -value / p.num_envs, memory_excess if p.num_envs >= 1024 else -0.5
        )
        for p in points
    ]
    new = set(space.legal_points(sweep)) - set(points)
    sampler = {"tpe": tpe, "gp": gp}[sweep.sampler]
    chosen = [sampler.propose(sweep, history, new, 8, seed) for seed in range(4)]
    assert set(chosen) <= new
    return sum(point is not None and point.num_envs >= 1024 for point in chosen)


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_samplers_turn_to_more_fps_and_fewer_seconds_and_away_from_memory_that_ran_out(sampler: str) -> None:
    section = CARD | {"sampler": sampler, "horizon": [32]}
    study = a_study(throughput=section, learning=section | {"target_reward": 4, "budget_s": 60})
    assert large_proposals(study, "throughput", 1000.0, -0.5) >= 3
    assert large_proposals(study, "throughput", 1000.0, 0.5) <= 1
    assert large_proposals(study, "throughput", -1e6, -0.5) <= 1
    assert large_proposals(study, "learning", -1e6, -0.5) >= 3
    assert large_proposals(study, "learning", 1.0, -0.5) <= 1


# What a sampler is told


def told(study: Study, trials: Sequence[Trial | None], kind: Kind = "throughput") -> list[Observation]:
    sweep = study.sections[kind]
    requests = [trial.request if trial else a_trial(16, number=n, kind=kind).request for n, trial in enumerate(trials)]
    return observe(sweep, requests, {n: trial.record for n, trial in enumerate(trials) if trial})


def test_throughput_is_told_as_median_fps_and_share_of_memory() -> None:
    # usable memory: 85.0 x 0.95 = 80.75 GB; 40.375 GB is half of it, 84 GB is 4% too much
    fits, tight = told(
        a_study(),
        [a_trial(16, number=0, fps=900, memory_gb=40.375, device=GPU), a_trial(32, number=1, fps=1500, memory_gb=83.98, device=GPU)],
    )  # fmt: skip
    assert (fits.point, tight.point) == (Point(16, 8, 128), Point(32, 8, 128))
    assert (fits.value, fits.memory_excess) == (pytest.approx(900), pytest.approx(-0.5))
    assert (tight.value, tight.memory_excess) == (pytest.approx(1500), pytest.approx(0.04))


def test_what_did_not_fit_is_infeasible_and_as_bad_as_the_worst_seen() -> None:
    trials = [
        a_trial(16, number=0, fps=900),
        a_trial(32, number=1, status="oom"),
        a_trial(64, number=2, fps=700),
        a_trial(128, number=3, status="refused"),
        None,
    ]
    shown = told(a_study(), trials)
    assert [o.value for o in shown] == [*map(pytest.approx, (900, 700, 700, 700)), None]
    assert [o.memory_excess > 0 for o in shown] == [False, True, False, True, False]


def test_a_trial_without_a_value_is_as_bad_as_the_worst_but_not_infeasible() -> None:
    broken = a_trial(32, number=1, status="nan")
    shown = told(a_study(), [a_trial(16, number=0, fps=900), replace(broken, rows=[])])
    assert shown[1].value == pytest.approx(900)
    assert shown[1].memory_excess == 0
    # Without any value: no FPS, or twice the budget.
    assert told(a_study(), [a_trial(16, status="oom")])[0].value == 0.0
    study = a_study(throughput=None, learning=learning_section(budget_s=60))
    assert told(study, [a_trial(16, kind="learning", status="oom")], "learning")[0].value == 120.0


def test_learning_is_told_as_seconds_and_what_was_censored_as_more_than_the_budget() -> None:
    study = a_study(throughput=None, learning=learning_section(target_reward=4.0, budget_s=60))
    trials = [
        a_trial(16, number=0, kind="learning", seconds=20.0),
        a_trial(32, number=1, kind="learning"),  # stands at 60% of 4.0: 2.4
        a_trial(64, number=2, kind="learning", status="nan"),
        a_trial(16, number=3, kind="learning", status="oom"),
    ]
    shown = [o.value for o in told(study, trials, "learning")]
    best = trials[1].record.best_reward
    # shortfall 4.0 - 2.4 = 1.6; progress 4 / (4 + 1.6) = 0.714; 60 x (2 - 0.714) = 77.1
    assert best == pytest.approx(2.4)
    assert shown == [20.0, pytest.approx(77.142857), 120.0, 120.0]


def test_censored_seconds_by_hand() -> None:
    assert censored_seconds(5.0, 5.0, 60) == 60  # on the brink
    assert censored_seconds(0.0, 5.0, 60) == 90  # shortfall as large as the target: halfway
    assert censored_seconds(-1000.0, -200.0, 60) == 108  # 200 / (200 + 800) = 0.2
    assert censored_seconds(-3.0, 0.0, 60) == 105  # 1 / (1 + 3) = 0.25
    assert censored_seconds(-1e300, 5.0, 60) == 120


@pytest.mark.parametrize(("points", "expected"), [(1, 1), (2, 1), (5, 2), (15, 7), (16, 8), (None, 8)])
def test_startup_is_eight_points_or_half_of_all(points: int | None, expected: int) -> None:
    study = a_study(throughput__points=points)
    assert _optuna.startup_points(study, study.sections["throughput"]) == expected  # 20 legal points in all


def test_startup_leaves_points_to_choose_where_ranks_make_few_of_them_legal() -> None:
    sweep = {"num_envs": [8, 16, 32, 64], "horizon": [4, 8], "batch_size": [1, 2, 4, 8], "sampler": "tpe", "repeats": 1}
    study = a_study(arms={"eight": {"gpus": 8}}, throughput=sweep, window=1)
    assert len(space.legal_points(study.sections["throughput"], study.world_sizes)) == 8
    assert _optuna.startup_points(study, study.sections["throughput"]) == 4
    asked = block(play(study, lambda request: measured(request, fps=request.num_envs))[0], "eight", "throughput")
    order = sobol.order(study, "throughput")
    assert asked[:4] == order[:4] and asked != order


@pytest.mark.parametrize(("window", "start"), [(1, 8), (4, 11), (30, 20)])
def test_sobol_order_goes_on_until_eight_results_are_known(window: int, start: int) -> None:
    study = a_study(throughput__sampler="tpe", throughput__repeats=1, window=window)
    order = sobol.order(study, "throughput")
    asked = block(play(study, lambda request: measured(request, fps=request.num_envs))[0], "stock", "throughput")
    assert asked[:start] == order[:start]
    assert (asked == order) is (start == len(order))


# Fixed designs


def test_arms_and_kinds_share_no_more_than_they_should() -> None:
    study = a_study(arms={"stock": {}, "lean": {}}, throughput__repeats=3)
    requests, _ = play(study)
    orders = {(arm, repeat): block(requests, arm, "throughput", repeat) for arm in study.arms for repeat in range(3)}
    assert orders["stock", 0] == orders["lean", 0]
    assert len({tuple(order) for order in orders.values()}) == 5, "every later block has an order of its own"
    other_seed, _ = play(study.model_copy(update={"seed": 2}))
    assert block(other_seed, "stock", "throughput") != orders["stock", 0]


@pytest.mark.parametrize("sampler", ["grid", "random", "sobol"])
def test_fewer_points_are_the_first_of_all(sampler: str) -> None:
    every = block(play(a_study(throughput__sampler=sampler))[0], "stock", "throughput")
    assert sorted(every) != every
    few = block(play(a_study(throughput__sampler=sampler, throughput__points=5))[0], "stock", "throughput")
    assert few == every[:5]


def test_what_the_sobol_sequence_misses_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sobol, "MAX_DRAWS_LOG2", 2)
    study = a_study(throughput__sampler="sobol", seed=987)
    assert sorted(sobol.order(study, "throughput")) == space.legal_points(study.sections["throughput"])


def test_a_request_holds_all_that_the_study_says() -> None:
    study = a_study(
        study="demo",
        task={"id": "My-Task", "asset": "nucleus", "overrides": {"env.a": 1, "env.b": 2}},
        arms={"lean": {"gpus": 1, "overrides": {"env.b": 3, "agent.c": [1.5]}}},
        throughput__batch_size="library",
        throughput__limit_s=77,
        throughput__iterations=9,
        throughput__warmup_iterations=0,
        learning=learning_section(limit_s=99),
    )
    requests, _ = play(study)
    first, last = requests[0], requests[-1]
    assert (first.study, first.task_id, first.asset) == ("demo", "My-Task", "nucleus")
    assert (first.trainer, first.gpus) == ("rsl_rl", 1)
    assert first.overrides == {"env.a": 1, "env.b": 3, "agent.c": [1.5]}
    assert (first.kind, first.batch_size, first.sampler, first.refusal) == ("throughput", None, "grid", None)
    assert (first.warmup_iterations, first.iterations, first.limit_s) == (0, 9, 77.0)
    assert (first.target_reward, first.target_episodes, first.budget_s) == (None, None, None)
    assert (last.kind, last.sampler, last.iterations, last.limit_s) == ("learning", "tpe", None, 99.0)
    assert (last.target_reward, last.target_episodes, last.budget_s) == (4.0, 40, 60.0)
    assert study.task.overrides == {"env.a": 1, "env.b": 2}, "the study is left as it was"


# Refusals


def big_study(**changes: Any) -> Study:
    # 16384 x 32 transitions x 221184 bytes = 116 GB: more than a card of 85 GB; 8192 x 32: 58 GB, which fits
    sweep = {"num_envs": [64, 8192, 16384], "horizon": [32], "batch_size": 2048, "repeats": 2}
    return a_study(throughput=sweep | changes.pop("sweep", {}), window=1, **changes)


def roomy(request: Request) -> Trial:
    return measured(request, status="refused" if request.refusal else None, device=GPU, memory_gb=20)


def test_a_rollout_that_cannot_fit_is_refused_with_numbers() -> None:
    requests, _ = play(big_study(seed=1), roomy)
    big = [r for r in requests if r.num_envs == 16384]
    assert len(big) == 2
    assert big[-1].refusal == RolloutTooLarge(
        num_envs=16384, horizon=32, needed_gb=116.0, usable_gb=80.75, device_gb=85.0,
        measured_gb=0.453, measured_num_envs=64, measured_horizon=32,
    )  # fmt: skip
    assert all(r.refusal is None for r in requests if r.num_envs != 16384)


def test_what_ran_out_of_memory_twice_is_not_tried_a_third_time_nor_anything_larger() -> None:
    study = big_study()
    requests, _ = play(study, lambda r: measured(r, status="refused" if r.refusal else "oom", device=GPU))
    run = [request for request in requests if request.refusal is None]
    for number, request in enumerate(requests):
        known = [r for r in run if r.number <= request.number - study.window]
        point = request.point
        no_larger = [r for r in known if all(a <= b for a, b in zip(astuple(r.point), astuple(point), strict=True))]
        assert (request.refusal is not None) == (len(no_larger) >= 2), number
        if request.refusal:
            assert isinstance(request.refusal, FailedBefore) and request.refusal.trials == len(no_larger)


def test_without_a_measurement_nothing_is_refused() -> None:
    study = big_study()
    late = study.model_copy(update={"window": 99})
    assert all(r.refusal is None for r in play(late, roomy)[0])


def test_one_arm_says_nothing_of_another_but_throughput_does_of_learning() -> None:
    learning = learning_section(num_envs=[16384], horizon=[32], batch_size=2048, sampler="grid", repeats=1)
    both = big_study(arms={"lean": {}, "stock": {}}, learning=learning)

    def only_stock_tells(request: Request) -> Trial:
        if request.arm == "stock":
            return roomy(request)
        return measured(request, status="oom", device=GPU)

    requests, _ = play(both, only_stock_tells)
    refused = {(r.arm, r.kind) for r in requests if isinstance(r.refusal, RolloutTooLarge)}
    assert ("stock", "learning") in refused
    assert not {arm for arm, _ in refused} - {"stock"}


def test_where_devices_differ_only_what_fits_none_is_refused() -> None:
    small = measured(ask(big_study(), 0, [], {}), device=Device(type="cuda", name="L4", uuid=None, memory_gb=24.0))
    large = replace(small, outcome=a_trial(64, device=GPU).outcome)
    for records in ([small.record, large.record], [large.record, small.record]):
        assert KnownMemory.of("stock", records).device_gb == 85.0
    refused = a_trial(16, status="refused")
    for other in (KnownMemory.of("lean", [small.record]), KnownMemory.of("stock", [refused.record])):
        assert other.device_gb is None and other.refusal(Point(10**9, 10**9, None)) is None
    # Nor does what did not fit a small device rule anything out on a larger one.
    failed = small.ended(status="oom")
    point = failed.request.point
    assert KnownMemory.of("stock", [failed.record] * 2).refusal(point) is not None
    assert KnownMemory.of("stock", [failed.record] * 2 + [large.record]).refusal(point) is None


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_samplers_ask_what_cannot_fit_only_when_nothing_else_is_left(sampler: str) -> None:
    # 3 x 3 points; N x T above 365k transitions do not fit: 16384 x 32, 16384 x 64 and 8192 x 64
    sweep = {"num_envs": {"from": 4096, "to": 16384}, "horizon": [16, 32, 64], "batch_size": 2048, "repeats": 1}
    requests, _ = play(big_study(sweep=sweep | {"sampler": sampler}, seed=5), roomy)
    refused = [r.refusal is not None for r in requests]
    too_large = [r.num_envs * r.horizon * ROLLOUT_GB > 80.75 for r in requests]
    assert sum(too_large) == 3
    assert refused[-2:] == [True, True]
    # Only what was asked before any record goes untold.
    assert refused == too_large or sum(refused) == sum(too_large) - 1
    check_plan_and_blocks(big_study(sweep=sweep | {"sampler": sampler}, seed=5), requests)


# Other processes


def test_other_processes_hash_seeds_and_thread_counts_ask_the_same() -> None:
    answers = set()
    for hash_seed, threads in (("0", "1"), ("12345", "4")):
        variables = {"PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        answers.add(python(PROGRAMS / "ask_again.py", "tpe", "gp", env=ENVIRONMENT | variables).stdout)
    here = "".join(f"{name} {digest(replay_study(name))}\n" for name in ("tpe", "gp"))
    assert answers == {here}


# Wrong histories


def test_a_trial_outside_the_plan_is_refused_with_the_plan() -> None:
    study = a_study(throughput__points=2)
    for number in (-1, 4):
        with pytest.raises(UserError, match=f"trial {number} is not in the plan of study 's', which has trials 0 to 3"):
            ask(study, number, [], {})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"seed": 5}, r"its seed is 5, and \d+ was expected"),
        ({"limit_s": 1.0}, "its limit_s is 1.0, and 600.0 was expected"),
        ({"arm": "lean"}, "its arm is 'lean', and 'stock' was expected"),
        ({"study": "other"}, "its study is 'other', and 's' was expected"),
    ],
)
def test_a_request_of_another_study_is_named_with_what_differs(change: dict[str, Any], problem: str) -> None:
    study = a_study()
    requests, known = play(study, until=4)
    requests[2] = requests[2].model_copy(update=change)
    words = rf"request 2 is not one of study 's' as configured now: {problem}\. A results folder"
    with pytest.raises(UserError, match=words):
        ask(study, 4, requests, known)


def test_a_request_at_a_point_that_is_no_longer_legal_is_named() -> None:
    study = a_study()
    requests, known = play(study)
    smaller = a_study(throughput__num_envs=[16, 32])
    foreign = next(r for r in requests if r.num_envs > 32)
    words = rf"num_envs {foreign.num_envs}, horizon \d+ and batch_size \d+ make no legal point"
    with pytest.raises(UserError, match=words):
        ask(smaller, foreign.number + 1, requests[: foreign.number + 1], known)


# The command


def test_the_command_writes_what_ask_answers_or_says_why_it_cannot(tmp_path: Path) -> None:
    study = a_study()
    file = tmp_path / "a study's file.yaml"
    file.write_text(canonical_json(study), encoding="utf-8")
    folder = StudyFolder(tmp_path / "results" / "s")
    command = ["-m", "envknee", "ask", "--study-file", file, "--folder", folder.root, "--number"]
    done = python(*command, 0, env=ENVIRONMENT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert folder.trial(0).request.read_text(encoding="utf-8") == canonical_json(ask(study, 0, [], {}))
    assert [path.name for path in folder.trial(0).root.iterdir()] == ["request.json"], "no temporary file is left"
    wrong = python(*command, 40, env=ENVIRONMENT)
    assert wrong.returncode == 2 and "which has trials 0 to 39" in wrong.stderr and "Traceback" not in wrong.stderr


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """Return the folder of a study as a sweep leaves it, its last two trials asked and not yet measured."""
    sweep = {"throughput__sampler": "tpe", "throughput__points": 10, "throughput__repeats": 1}
    study = a_study(arms={"stock": {}, "lean": {}}, **sweep)
    requests, _ = play(study)
    folder = write_study(tmp_path_factory.mktemp("sweep") / "s", study, [any_outcome(r) for r in requests])
    for number in (18, 19):
        for path in folder.trial(number).root.iterdir():
            if path != folder.trial(number).request:
                path.unlink()
    return folder


@pytest.fixture
def folder(swept: StudyFolder, tmp_path: Path) -> StudyFolder:
    return StudyFolder(Path(shutil.copytree(swept.root, tmp_path / "s")))


def test_verify_shows_an_edited_request_and_only_that(folder: StudyFolder, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder.trial(7).request
    stored = path.read_text(encoding="utf-8")
    edited = stored.replace('"limit_s": 600.0', '"limit_s": 9.0')
    assert edited != stored
    path.write_text(edited, encoding="utf-8")
    assert run_main(replay.main, "--verify", folder.root) == 1
    shown = capsys.readouterr().out
    expected = difflib.unified_diff(edited.splitlines(True), stored.splitlines(True), str(path), "asked again", n=1)
    assert shown.startswith("".join(expected))
    assert shown.count("\n@@ ") == 1
    assert f"{path} was changed after the measurement" in shown


def next_request(folder: StudyFolder, number: int) -> None:
    asking.write_request(read_study(folder.study), folder, number)


def test_a_request_asked_again_by_the_command_is_the_same(folder: StudyFolder) -> None:
    for number in (0, 9, 18, 19):
        before = folder.trial(number).request.read_bytes()
        folder.trial(number).request.unlink()
        if number == 18:
            shutil.rmtree(folder.trial(19).root)
            next_request(folder, 18)
            next_request(folder, 19)
        else:
            next_request(folder, number)
        assert folder.trial(number).request.read_bytes() == before


def test_a_trial_measured_again_changes_no_request_that_was_measured(folder: StudyFolder) -> None:
    again = measured(Request.model_validate_json(folder.trial(9).request.read_bytes()), fps=1e6)
    shutil.rmtree(folder.trial(9).root)
    written = write_study(folder.root / "again", read_study(folder.study), [again])
    written.trial(9).root.rename(folder.trial(9).root)
    _, findings = replay.verify(folder)
    assert findings, "what trial 9 gives now has a say"
    for number in range(10, 18):
        before = folder.trial(number).request.read_bytes()
        folder.trial(number).request.unlink()
        next_request(folder, number)
        assert folder.trial(number).request.read_bytes() == before, number


def test_a_missing_request_is_named_with_the_next_step(folder: StudyFolder) -> None:
    folder.trial(5).request.unlink()
    with pytest.raises(UserError, match=r"0005/request.json does not exist, .*ask for this one first"):
        next_request(folder, 19)
    with pytest.raises(UserError, match=r"0005/request.json does not exist"):
        replay.verify(folder)


def test_a_missing_record_is_named_with_who_needs_it(folder: StudyFolder) -> None:
    folder.trial(5).record.unlink()
    words = r"0005/record.json does not exist, and request 19 is asked knowing the records up to 17 \(window 2\)"
    with pytest.raises(UserError, match=rf"{words}. Run trial 5 first"):
        next_request(folder, 19)
    assert next_request(folder, 6) is None, "the window of request 6 ends with record 4"


def test_verify_without_requests_or_beyond_the_plan(folder: StudyFolder) -> None:
    extra = folder.trial(20)
    shutil.copytree(folder.trial(0).root, extra.root)
    with pytest.raises(UserError, match="trial 20 is not in the plan of study 's', which has trials 0 to 19"):
        replay.verify(folder)
    shutil.rmtree(folder.trials)
    with pytest.raises(UserError, match="holds no request, and 0000/request.json was expected"):
        replay.verify(folder)
