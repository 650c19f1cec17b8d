"""Blocks: which trials share a process, in which order, what a request knows, and when repeats are enough."""

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from asked import dice, measured, play
from envknee.ask import enough, time_limit
from envknee.ask.ask import ask, ask_again
from envknee.base.point import Point
from envknee.record.reasons import Decided, DriftKnown, TimeSpent
from envknee.record.schema import Request, Shared
from envknee.run import turns
from envknee.study import designs, space
from envknee.study.errors import UserError
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.value_types import ASK_VERSION
from records import Trial, a_trial

from benchmarks.blocks import agreement

SIZES = [64, 128, 256, 512]


def study(window: int = 1, arms: Any = None, **changes: Any) -> Study:
    section = {"num_envs": SIZES, "horizon": [8, 16], "batch_size": 128, "repeats": 3, "block": "all"}
    plain = {"study": "s", "ask_version": ASK_VERSION, "window": window, "arms": arms or {"stock": {}}}
    return parse_study(plain | {"throughput": section | changes})


def points_of(requests: list[Request], block: int) -> list[Point]:
    return [request.point for request in requests if request.block == block]


@pytest.mark.parametrize("count", [2, 3, 4, 7, 8])
def test_over_a_whole_design_each_point_follows_each_other_one_equally_often(count):
    points = [Point(2**place, 8, None) for place in range(count)]
    rows = count if count % 2 == 0 else 2 * count
    orders = [designs.williams(points, row, 1, "key") for row in range(rows)]
    assert all(sorted(order) == points for order in orders)
    pairs = Counter(pair for order in orders for pair in pairwise(order))
    assert set(pairs.values()) == {rows // count} and len(pairs) == count * (count - 1)
    places = Counter((place, point) for order in orders for place, point in enumerate(order))
    assert set(places.values()) == {rows // count}  # and stands in each place equally often
    assert designs.williams(points, rows, 1, "key") == orders[0]
    assert designs.williams(points[::-1], 0, 1, "key") == orders[0]


def test_the_learning_trials_of_a_seed_are_a_block_in_which_none_comes_again():
    learning = {
        "num_envs": SIZES, "horizon": 8, "batch_size": 128, "repeats": 3, "block": "all", "target_reward": 1.0, "budget_s": 5.0,
    }  # fmt: skip
    plan = space.plan(parse_study({"study": "s", "arms": {"stock": {}}, "learning": learning}))
    assert [slot.block for slot in plan] == [0] * 4 + [4] * 4 + [8] * 4
    assert not any(slot.again for slot in plan) and [slot.position for slot in plan] == list(range(4)) * 3


def test_a_repeat_is_a_block_and_its_first_point_comes_again_at_the_end():
    requests, _ = play(study())
    assert len(requests) == 3 * 9
    assert [request.block for request in requests] == [0] * 9 + [9] * 9 + [18] * 9
    for block in (0, 9, 18):
        first, *_, last = points = points_of(requests, block)
        assert first == last and len(set(points)) == 8
    assert [request.position for request in requests[:9]] == list(range(9))
    assert [request.again for request in requests[:9]] == [False] * 8 + [True]
    assert requests[0].seed == requests[8].seed != requests[9].seed
    assert points_of(requests, 0) != points_of(requests, 9) != points_of(requests, 18)


def test_smaller_blocks_hold_neighbours_of_a_series():
    requests, _ = play(study(block=3))
    parts = [sorted(set(points_of(requests, block))) for block in (0, 4, 8)]
    assert [len(part) for part in parts] == [3, 3, 2]
    assert parts[0] == [Point(size, 8, 128) for size in SIZES[:3]]
    assert len(requests) == 3 * (4 + 4 + 3)


def test_a_request_knows_no_record_of_its_own_block_and_without_blocks_a_window_counts_trials():
    blocked = study(arms={"a": {}, "b": {}})
    requests, records = play(blocked)
    for number, request in enumerate(requests):
        known = {key: record for key, record in records.items() if key < (request.block or 0)}
        assert ask(blocked, number, requests[:number], known) == request
    assert [slot.first_unknown for slot in space.plan(blocked)[:10]] == [0] * 9 + [9]
    wider = blocked.model_copy(update={"window": 2})
    assert [slot.first_unknown for slot in space.plan(wider)[9:19]] == [0] * 9 + [9]
    assert ask_again(blocked, requests, records) == requests
    plain = study(window=3, block=1)
    assert [slot.first_unknown for slot in space.plan(plain)] == [max(0, number - 2) for number in range(24)]


@pytest.mark.parametrize("block", [1, 3, "all"])
def test_more_repeats_come_behind_what_was_measured_and_leave_it_as_it_was(block: int | str):
    learning = {
        "num_envs": [8, 16], "horizon": 8, "batch_size": 16, "target_reward": 1.0, "budget_s": 9.0, "repeats": 2, "block": block,
    }  # fmt: skip

    def asked(repeats: int, more: int) -> list[Request]:
        section = {"num_envs": SIZES, "horizon": 8, "batch_size": 128, "block": block}
        sections = {
            "throughput": section | {"repeats": repeats, "more_repeats": more},
            "learning": learning | {"more_repeats": more},
        }
        return play(parse_study({"study": "s", "window": 1, "arms": {"a": {}, "b": {}}, **sections}))[0]

    first, more = asked(3, 0), asked(3, 2)
    assert more[: len(first)] == first
    later = more[len(first) :]
    assert [request.number for request in later] == list(range(len(first), len(more)))
    assert {(request.kind, request.repeat) for request in later} == {
        ("throughput", 3), ("throughput", 4), ("learning", 2), ("learning", 3),
    }  # fmt: skip
    at_once = [request for request in asked(5, 0) if request.kind == "throughput" and request.repeat >= 3]
    unnumbered = {"number", "block", "refusal"}
    assert [request.model_dump(exclude=unnumbered) for request in later if request.kind == "throughput"] == [
        request.model_dump(exclude=unnumbered) for request in at_once
    ], "they are those of a study that asked for them at first"


def test_more_repeats_are_measured_where_the_time_was_over():
    def measured_repeats(more: int) -> set[int]:
        limited = study(repeats=4, more_repeats=more, time_limit_s=1.0)
        return {request.repeat for request in play(limited, noisy(512, 0.01))[0] if request.skip is None}

    assert measured_repeats(0) == {0}
    assert measured_repeats(2) == {0, 4, 5}


def test_ranks_of_one_machine_share_blocks_and_pipelines_nodes_and_commands_do_not():
    arms = {
        "one": {"gpus": 1}, "two": {"gpus": 2}, "nodes": {"gpus": 1, "nodes": 2},
        "pipeline": {"gpus": 2, "trainer": "torchrl", "strategy": "async2"},
        "command": {"trainer": "command", "command": {"preset": "mjlab", "argv": ["python"]}},
    }  # fmt: skip
    jobs = space.jobs(space.plan(study(arms=arms, repeats=1)))
    assert sorted(len(job) for job in jobs) == [1] * 24 + [9, 9]
    assert {job[0].arm for job in jobs if len(job) > 1} == {"one", "two"}


def test_small_points_of_a_block_are_fresh_and_nothing_else_changes():
    arms = {"shares": {}, "nodes": {"gpus": 1, "nodes": 2}}
    fresh = study(arms=arms, fresh_below=256)
    requests, records = play(fresh)
    assert all(request.fresh == (request.num_envs < 256 and request.arm == "shares") for request in requests)
    assert not any(request.fresh for request in requests if request.again), "a shared process shows drift"
    assert ask_again(fresh, requests, records) == requests
    shared, _ = play(study(arms=arms))
    for block in {request.block for request in shared if request.block is not None}:
        of_block, before = ([request for request in own if request.block == block] for own in (requests, shared))
        alone = [request.fresh for request in of_block]
        assert alone == sorted(alone, reverse=True), "they come first, so that the others share one process"
        for side in (True, False):
            assert [r.point for r in of_block if r.fresh == side and not r.again] == [
                r.point for r in before if (r.num_envs < 256) == side and not r.again
            ], "in the design's order"


def noisy(flat_from: int, noise: float):
    """Return what measures a trial whose FPS stop growing at `flat_from` environments, with noise between blocks of points."""

    def measure(request: Request):
        throw = dice(request.number, "noise")
        fps = 100.0 * min(request.num_envs, flat_from) * (1 + throw.gauss(0, noise))
        return measured(request, fps=fps)

    return measure


def test_repeats_end_once_every_series_is_decided():
    blocked = study(repeats=13, until_decided={"delta": 0.15})
    requests, records = play(blocked, noisy(128, 0.01))
    assert {request.repeat for request in requests if request.skip is None} == {0, 1, 2}
    assert requests[-1].skip == Decided(repeats=3) and records[len(requests) - 1].outcome.status == "skipped"
    assert ask_again(blocked, requests, records) == requests
    undecided, _ = play(study(repeats=5, until_decided={"delta": 0.15}), noisy(128, 0.5))
    assert not any(isinstance(request.skip, Decided) for request in undecided)


def test_what_was_decided_is_not_decided_again(monkeypatch: pytest.MonkeyPatch):
    decide, looks = enough.decided_at, list[int | None]()

    def counted(*given: Any) -> int | None:
        looks.append(decide(*given))
        return looks[-1]

    monkeypatch.setattr(enough, "decided_at", counted)
    requests, _ = play(study(repeats=13, until_decided={"delta": 0.15}), noisy(128, 0.01))
    assert len(requests) == 13 * 9 and sum(request.skip is not None for request in requests) > 80
    assert [look for look in looks if look] == [3]


def test_later_repeats_measure_what_the_verdict_hangs_on():
    # FPS double up to 256 environments and stay: 64 gains 100% for certain, so no repeat of it is needed.
    requests, _ = play(study(horizon=[8], repeats=3, until_decided={"delta": 0.15}), noisy(256, 0.01))
    measured_again = {request.num_envs for request in requests if request.repeat and request.skip is None}
    assert measured_again == {256, 512}
    assert {request.num_envs for request in requests if request.repeat == 0} == set(SIZES)


def test_no_repeat_begins_that_would_outlast_the_time():
    # Each trial takes 20 s. The first block has nine; later ones, without the point that comes again, have eight.
    requests, _ = play(study(repeats=5, time_limit_s=490), noisy(512, 0.01))
    assert {request.repeat for request in requests if request.skip is None} == {0, 1}
    assert requests[-1].skip == TimeSpent(time_limit_s=490.0, repeats=2, spent_s=340)
    again = [request.skip for request in requests if request.again]
    assert again[:2] == [None, DriftKnown()]
    first_alone, _ = play(study(repeats=3, time_limit_s=1), noisy(512, 0.01))
    assert {request.repeat for request in first_alone if request.skip is None} == {0}


def test_a_repeat_is_expected_to_take_what_is_left_of_it_and_a_start_for_each_block():
    def took(request: Request) -> Trial:
        trial = measured(request, fps=100.0 * request.num_envs)
        seconds = request.num_envs / 64 + (10.0 if request.position == 0 else 0.0)
        return trial.ended(total_s=seconds)

    _, records = play(study(repeats=2, horizon=8), took)
    # 1, 2, 4 and 8 s, and 10 s until the first begins.
    assert time_limit.expected_s([*records.values()], set()) == pytest.approx(25.0)
    assert time_limit.expected_s([*records.values()], {Point(64, 8, 128), Point(128, 8, 128)}) == pytest.approx(22.0)


def test_time_runs_out_between_repeats_and_never_within_one():
    fresh = study(repeats=5, time_limit_s=210, block=1, horizon=8)
    requests, _ = play(fresh, noisy(512, 0.01))
    repeats = Counter(request.repeat for request in requests if request.skip is None)
    assert repeats == {0: 4, 1: 4}, "4 trials of 20 s each: a third repeat would end at 240 s"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"block": 0}, "throughput.block.*expected 'all', or a whole number of points of at least 1 .got 0."),
        ({"block": "some"}, "throughput.block.*of at least 1 .got 'some'."),
        (
            {"block": "all", "sampler": "tpe"},
            "block is for samplers whose points are known beforehand .grid, random, sobol.",
        ),
        ({"block": 1, "sampler": "adaptive", "until_decided": {}}, "until_decided is for samplers"),
        ({"block": 1, "fresh_below": 128}, "fresh_below 128: with block 1 every trial has a fresh process"),
    ],
)
def test_what_a_block_cannot_be_is_said(changes, said):
    with pytest.raises(UserError, match=said):
        study(**changes)


@pytest.mark.parametrize(("counts", "peak_gb"), [(True, 7.0), (False, None)])
def test_memory_counts_only_where_the_device_was_back_at_its_baseline(counts: bool, peak_gb: float | None):
    shared = Shared(
        process="host:1:0", position=1, previous_num_envs=64, kept_torch_gb=0.0, kept_warp_gb=0.0, kept_outside_gb=0.0,
        memory_counts=counts,
    )  # fmt: skip
    assert a_trial(64, memory_gb=7.0).ended(shared=shared).record.memory_peak_gb == peak_gb


def test_turns_are_taken_one_after_the_other(tmp_path):
    first, second = (turns.Turn(number=number, trial=tmp_path / "t", attempt=1) for number in range(2))
    turns.name(tmp_path, first)
    taken = turns.named(tmp_path)
    assert next(taken) == first and turns.ended(tmp_path, first) is None
    turns.end(tmp_path, first, "")
    turns.name(tmp_path, second)
    assert next(taken) == second
    turns.end(tmp_path, second, "its last trial ended with oom")
    ends = [turns.ended(tmp_path, turn) for turn in (first, second)]
    assert ends == ["", "its last trial ended with oom"]


def test_blocks_agree_where_the_whole_interval_is_within_the_margin():
    # Student's t on 1 degree of freedom at 95% is 6.314.
    two = agreement([1.0, math.exp(0.02)], [1.0, 1.0])
    assert two == pytest.approx([math.exp(0.01), math.exp(0.01 - 0.06314), math.exp(0.01 + 0.06314)], rel=1e-4)
    ten = agreement([1.0, math.exp(0.02)] * 5, [1.0] * 10)
    assert (two.is_shown, ten.is_shown) == (False, True)
    assert not agreement([1.0], [1.0]).is_shown
