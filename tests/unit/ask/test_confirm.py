"""`confirm:` fresh seeds of the settings that the search found, fixed before any of them is measured."""

from typing import Any

import numpy as np
import pytest
from asked import any_outcome, measured, play
from envknee.ask.ask import ask, ask_again, request_for
from envknee.ask.plan import plan_of
from envknee.base.point import Point
from envknee.record.reasons import SamplerDone
from envknee.record.schema import Request
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.load import parse_study
from envknee.study.model import Raise
from envknee.verdict.joint.selection import to_confirm
from envknee.verdict.joint.surface import Surface
from envknee.words.plan import plan_lines
from joint_study import a_study, learned, timed

SMALL: dict[str, Any] = {"num_envs": [128, 256, 512], "horizon": [8, 16], "batch_size": [512, 1024]}


def small_study(**changes: Any):
    return a_study(**SMALL | {"trials": 10, "window": 2, "confirm": {"settings": 4, "seeds": 3}} | changes)


def confirming(requests: list[Request]) -> list[Request]:
    return [request for request in requests if request.confirms]


def test_the_best_of_each_num_envs_comes_first_then_the_next_best():
    settings = [Point(1, 1, 1), Point(1, 2, 1), Point(2, 1, 1), Point(2, 2, 1), Point(4, 1, 1)]
    surface = Surface(settings, np.array([1.0, 0.5, 0.2, 0.1, 3.0]), np.eye(5), 0.1, 0.2)
    # best of each: 1 (0.5), 3 (0.1), 4 (3.0), soonest first; then 2 (0.2) and 0 (1.0)
    assert to_confirm(surface, range(5), 9) == [3, 1, 4, 2, 0]
    assert to_confirm(surface, range(5), 2) == [3, 1]
    assert to_confirm(surface, [0, 2, 4], 3) == [2, 0, 4]


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("sampler", ["profile", "sobol", "tpe"])
def test_each_round_has_one_fresh_seed_of_every_setting(sampler: str, window: int):
    search = {"trials": 10} if sampler == "profile" else {"trials": None, "points": 8, "repeats": 1}
    study = small_study(sampler=sampler, window=window, arms={"stock": {}, "lean": {}}, **search)
    requests, known = play(study, learned)
    assert ask_again(study, requests, known) == requests
    fresh = confirming(requests)
    assert len(requests) == 2 * (10 if sampler == "profile" else 8) + 2 * 4 * 3
    assert fresh == requests[-24:], "the stage comes last"
    assert len({(request.seed, request.arm) for request in requests}) == len(requests)
    for arm in ("stock", "lean"):
        own = [request for request in fresh if request.arm == arm]
        rounds = [[request.point for request in own[first : first + 4]] for first in (0, 4, 8)]
        assert len(set(rounds[0])) == 4
        assert sorted(rounds[0]) == sorted(rounds[1]) == sorted(rounds[2])
        assert {point.num_envs for point in rounds[0]} == {128, 256, 512}
        assert len({tuple(of_round) for of_round in rounds}) > 1, "rounds have orders of their own"


def test_fresh_seeds_have_no_say_in_what_is_confirmed():
    study = small_study()
    requests, known = play(study, learned)
    first = confirming(requests)[0].number
    lies = {n: measured(requests[n], seconds=0.5).record for n in range(first, len(requests))}
    for number in (first + 5, len(requests) - 1):
        assert ask(study, number, requests[:number], known | lies) == requests[number]


@pytest.mark.parametrize("window", [1, 20])
def test_all_fresh_seeds_are_asked_once_the_search_has_ended_whatever_the_window(window: int):
    study = small_study(window=window, more_repeats=1)
    requests, known = play(study, learned)
    first = confirming(requests)[0].number
    assert first == 10
    searched = {number: record for number, record in known.items() if number < first}
    for number in range(first, len(requests)):
        assert ask(study, number, requests[:number], searched) == requests[number]
    # The last trial of the search has a say, also where the window is wider than the search.
    assert all(request.skip is None for request in confirming(requests))
    confirmed = {request.point for request in confirming(requests)}
    surprise = next(point for point in space.legal_points(study.sections["learning"]) if point not in confirmed)
    last = request_for(study, space.plan(study)[first - 1], surprise, None)
    asked, told = [*requests[: first - 1], last], searched | {first - 1: measured(last, seconds=0.01).record}
    for number in range(first, first + 4):
        asked.append(ask(study, number, asked, told))
    assert surprise in {request.point for request in asked[first:]}


def test_more_repeats_are_further_fresh_seeds_and_change_nothing_before_them():
    requests, _ = play(small_study(), learned)
    extended = small_study(more_repeats=2)
    longer, known = play(extended, learned)
    assert longer[: len(requests)] == requests
    added = longer[len(requests) :]
    assert [request.repeat for request in added] == [13] * 4 + [14] * 4
    assert all(request.confirms for request in added)
    assert {request.point for request in added} == {request.point for request in confirming(requests)}
    assert ask_again(extended, longer, known) == longer
    # In the order in which two sections were raised.
    raised = extended.model_copy(update={"raised": [Raise(section="learning", repeats=2)]})
    assert space.plan(raised) == space.plan(extended)


def test_nothing_is_confirmed_that_the_search_saw_run_out_of_memory():
    def on_a_small_card(request: Request):
        return measured(request, status="oom") if request.num_envs > 256 else learned(request)

    study = small_study()
    requests, _ = play(study, on_a_small_card)
    known = space.plan(study)[confirming(requests)[0].number].first_unknown
    failed = {request.point for request in requests[:known] if request.num_envs > 256}
    assert failed and not failed & {request.point for request in confirming(requests)}


def test_where_fewer_settings_fit_than_planned_the_rest_is_skipped():
    study = small_study(num_envs=[128, 256], horizon=[8], batch_size=[512, 1024], confirm={"settings": 3, "seeds": 3})
    only = Point(128, 8, 512)

    def one_runs(request: Request):
        if request.skip:
            return measured(request)
        return learned(request) if request.point == only else measured(request, status="oom")

    fresh = confirming(play(study, one_runs)[0])
    assert [request.point for request in fresh if request.skip is None] == [only] * 3
    assert [request.skip for request in fresh].count(SamplerDone()) == 6


@pytest.mark.parametrize("kind", ["learning", "throughput"])
def test_the_stage_holds_whatever_happened(kind: Any):
    study = small_study(kind=kind)
    requests, known = play(study, any_outcome)
    assert len(requests) == 22
    assert ask_again(study, requests, known) == requests
    if kind == "throughput":
        chosen = confirming(play(study, timed)[0])
        assert len({request.point for request in chosen}) == 4


def test_a_request_of_the_stage_that_was_changed_is_noticed():
    study = small_study()
    requests, known = play(study, learned)
    first = confirming(requests)[0].number
    for change, problem in (
        ({"confirms": False}, "its confirms is False"),
        ({"repeat": 0}, "its repeat is 0, and 10 was"),
    ):
        tampered = [*requests]
        tampered[first] = requests[first].model_copy(update=change)
        with pytest.raises(UserError, match=problem):
            ask(study, first + 3, tampered[: first + 3], known)


def test_the_plan_tells_settings_and_seeds():
    _, line, *_ = plan_lines(plan_of(small_study(more_repeats=1)))
    assert line.startswith(
        "learning: 26 trials = 10 among 12 points × 1 arm (stock) (sampler profile) + 4 settings × 4 fresh seeds × 1 arm (stock);"
    ), line


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"confirm": {"seeds": 1}}, "seeds 1: one seed shows no noise. Take 3 or more; 8 are a good number"),
        ({"confirm": {"seeds": 2}}, "seeds 2: two seeds show too little of the noise"),
        ({"confirm": {"settings": 0}}, "settings: expected greater than or equal to 1"),
        ({"sampler": "adaptive", "trials": None, "repeats": 3}, "confirm: sampler adaptive confirms by itself"),
        (
            {"sampler": "grid", "trials": None, "until_decided": {}},
            "confirm: until_decided ends the seeds of a size early",
        ),
        ({"sampler": "grid", "trials": None, "skip_decided": True}, "confirm: skip_decided ends the seeds"),
        (
            {"sampler": "grid", "trials": None, "block": "all"},
            "confirm: each fresh seed has a process of its own, and block is all",
        ),
        ({"confirm": {"settings": 500, "seeds": 400}}, "arms x confirm.settings x seeds make 200,000 trials"),
    ],
)
def test_what_does_not_fit_together_is_told(changes: dict[str, Any], words: str):
    with pytest.raises(UserError, match=words):
        small_study(**changes)


def test_more_settings_than_legal_points_are_told_with_how_many_there_are():
    study = small_study(num_envs=[128], horizon=[8], batch_size=[512, 1024, 4096])
    words = "learning: confirm.settings 4, and 2 of 3 listed points are legal .* Confirm 2 or fewer, or list more"
    with pytest.raises(UserError, match=words):
        space.plan(study)


def test_the_defaults_are_six_settings_and_eight_seeds_and_come_back_from_a_file():
    study = a_study(confirm={})
    confirm = study.sections["learning"].confirm
    assert confirm is not None
    assert (confirm.settings, confirm.seeds) == (6, 8)
    assert parse_study(study.model_dump(mode="json")) == study
