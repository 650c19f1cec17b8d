"""A search on several GPUs: each measures both ends of a doubling in turns, so that a GPU's effect is never taken for a size's."""

import math
from collections import Counter
from collections.abc import Callable

import pytest
from asked import dice, measured, play
from envknee.ask.ask import ask_again
from envknee.decide.study import decide
from envknee.record.schema import Request
from envknee.run.knee_study import of_each
from envknee.study import space
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.value_types import ASK_VERSION
from envknee.verdict.schema.throughput import ThroughputLimit
from records import GPU, Trial

RANGE = {"num_envs": [16, 32, 64], "horizon": [32], "batch_size": "library", "repeats": 3}


def a_climb(lanes: int, workers: int | None, **changes: object) -> Study:
    adaptive = {"ascending": True, "confirm": of_each(lanes, 4)}
    sweep = {"num_envs": {"from": 16, "to": 2**17}, "sampler": "adaptive", "adaptive": adaptive, "repeats": 8}
    sweep = RANGE | sweep | ({} if workers is None else {"workers": workers}) | changes
    return parse_study({"study": "s", "ask_version": ASK_VERSION, "window": lanes, "throughput": sweep})


def on_gpus(lanes: int, slower: float) -> Callable[[Request], Trial]:
    """Return trials that saturate, of which each lane has a GPU of its own, slower than the one before."""

    def measure(request: Request) -> Trial:
        lane = request.number % lanes
        speed = (1.0 - slower * lane) * math.exp(0.01 * dice(request.seed, request.number).gauss(0, 1))
        fps = 60_000 * request.num_envs / (request.num_envs + 40.0) * speed
        return measured(request, fps=fps, device=GPU.model_copy(update={"uuid": f"GPU-{lane}"}))

    return measure


def searched(study: Study, slower: float) -> tuple[list[Request], ThroughputLimit]:
    requests, known = play(study, on_gpus(study.window, slower))
    assert ask_again(study, requests, known) == requests, "requests follow from what was asked and recorded"
    (limit,) = decide(list(known.values()), study).arms[0].throughput
    return [request for request in requests if request.skip is None], limit


@pytest.mark.parametrize("lanes", [2, 4])
def test_each_gpu_measures_the_ends_of_what_decides_in_turns(lanes: int):
    requests, limit = searched(a_climb(lanes, workers=lanes), slower=0.02)
    assert (limit.state, limit.threshold_num_envs) == ("reached", 256)
    for lane in range(lanes):
        here = [request for request in requests if request.number % lanes == lane]
        for confirms in (False, True):
            counts = Counter(request.num_envs for request in here if request.confirms is confirms)
            assert min(counts[256], counts[512]) >= 1 and abs(counts[256] - counts[512]) <= 1
    assert Counter(request.num_envs for request in requests if request.confirms) == {256: 4, 512: 4}


def test_two_gpus_of_which_one_is_slower_give_the_limit_of_the_program():
    """Without lanes the ends of a doubling come to different GPUs, and the search goes astray."""
    _, limit = searched(a_climb(2, workers=2), slower=0.3)
    assert (limit.state, limit.threshold_num_envs) == ("reached", 256)
    _, without_lanes = searched(a_climb(2, workers=None), slower=0.3)
    assert (without_lanes.state, without_lanes.threshold_num_envs) == ("reached", 2048), (
        "else lanes change nothing here"
    )


def test_a_search_asks_the_same_whatever_number_of_workers_shares_its_lanes():
    four, two = (searched(a_climb(4, workers), slower=0.02)[0] for workers in (4, 2))
    assert four == two


def lanes_of(workers: int | None, window: int, **sweep: object) -> list[int | None]:
    section = RANGE | sweep | ({} if workers is None else {"workers": workers})
    return [slot.lane for slot in space.plan(parse_study({"study": "s", "window": window, "throughput": section}))]


def test_a_range_has_a_lane_for_each_repeat_if_the_window_lets_workers_run_them_side_by_side():
    assert lanes_of(2, window=6) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert lanes_of(2, window=4) == lanes_of(None, window=6) == lanes_of(2, window=6, sampler="tpe") == [None] * 9


def test_no_gpu_waits_where_a_search_has_fewer_sizes_than_gpus():
    study = a_climb(4, workers=4, num_envs=[16, 32])
    requests, _ = play(study, on_gpus(4, slower=0.02))
    assert [request.skip for request in requests[:8]] == [None] * 8
    assert Counter(request.num_envs for request in requests[:8]) == {16: 4, 32: 4}


def test_eight_gpus_climb_no_more_than_four_sizes_ahead_of_what_is_known():
    study = a_climb(8, workers=8)
    requests, known = play(study, on_gpus(8, slower=0.01))
    assert [request.num_envs for request in requests[:8]] == [16, 32, 64, 128, 16, 32, 16, 32]
    for request in requests:
        seen = [record.request.num_envs for number, record in known.items() if number <= request.number - 8]
        assert request.skip is not None or request.num_envs <= 2**4 * max([*seen, 8])
    (limit,) = decide(list(known.values()), study).arms[0].throughput
    assert (limit.state, limit.threshold_num_envs) == ("reached", 256)
