"""The time that a sweep still takes: a range for each kind of trial, in made-up studies and as published ones ran."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import pytest
from envknee.base.fields import Kind
from envknee.run.time_left import time_left
from envknee.study import space
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.verdict.durations import Durations
from envknee.verdict.schema.plan import KindTime
from envknee.words.progress import time_left_words
from published import PUBLISHED, records_of
from records import a_study

SIZES: dict[str, Any] = {"num_envs": [16, 32], "horizon": [8], "batch_size": 128}
LEARNING: dict[str, Any] = {
    "num_envs": [16, 32], "horizon": [8], "batch_size": [128], "target_reward": 4.0, "budget_s": 30.0, "repeats": 1,
}  # fmt: skip


def left_of(study: Study, seconds: Mapping[int, float], *skipped: int, **options: Any) -> dict[Kind, KindTime]:
    found = time_left(study, space.plan(study), {**seconds, **dict.fromkeys(skipped, 0.0)}, skipped, **options)
    return {own.kind: own for own in found}


def ends(time: KindTime) -> tuple[float | None, float | None]:
    return time.least_s, time.most_s


OF_BOTH = a_study(throughput=SIZES | {"repeats": 3}, learning=LEARNING)
"""Six throughput trials, then two learning trials."""


def test_a_kind_without_two_timed_trials_has_no_range():
    assert [slot.kind for slot in space.plan(OF_BOTH)] == ["throughput"] * 6 + ["learning"] * 2
    for seconds in ({}, {0: 10.0}):
        assert {ends(own) for own in left_of(OF_BOTH, seconds).values()} == {(None, None)}
    assert {ends(own) for own in left_of(OF_BOTH, {0: 10.0}, 1).values()} == {(None, None)}, "a skipped one is none"
    found = left_of(OF_BOTH, {0: 10.0, 1: 20.0})
    assert ends(found["throughput"]) != (None, None) == ends(found["learning"])
    ended = dict.fromkeys(range(6), 10.0)
    assert set(left_of(OF_BOTH, ended)) == {"learning"}
    assert left_of(OF_BOTH, ended | {6: 60.0, 7: 70.0}) == {}


def test_a_range_follows_from_mean_spread_and_number():
    found = left_of(OF_BOTH, {0: 10.0, 1: 20.0})["throughput"]
    least_s, most_s = ends(found)
    assert found.trials == 4
    margin = 2 * 7.0711 * 4 * (1 / 2 + 1 / 4) ** 0.5
    assert (least_s, most_s) == pytest.approx((60 - margin, 60 + margin), abs=0.01)
    assert ends(left_of(OF_BOTH, dict.fromkeys(range(4), 10.0))["throughput"]) == (20.0, 20.0)


def test_the_time_of_one_kind_says_nothing_of_another():
    """It stood at 2 minutes for a third of the sweep, and jumped to 5 when the first of the longer kind had ended."""
    ended: dict[int, float] = {}
    for number in range(6):
        ended[number] = 10.0 + number % 2
        words = time_left_words(list(left_of(OF_BOTH, ended).values()))
        assert "learning" not in words or "learning not timed yet" in words
    ended[6] = 300.0
    assert time_left_words(list(left_of(OF_BOTH, ended).values())) == ""


def test_trials_side_by_side_share_the_time():
    seconds = dict.fromkeys(range(2), 10.0)
    assert ends(left_of(OF_BOTH.model_copy(update={"slots": 2}), seconds)["throughput"]) == (20.0, 20.0)
    assert ends(left_of(OF_BOTH, seconds, side_by_side=4.0)["throughput"]) == (10.0, 10.0)


def test_what_may_not_be_needed_counts_for_the_upper_end_alone():
    study, measured = a_study(throughput=SIZES | {"repeats": 4}), dict.fromkeys(range(4), 10.0)
    assert ends(left_of(study, measured)["throughput"]) == (40.0, 40.0)
    assert ends(left_of(study, measured, 4)["throughput"]) == (0.0, 0.0), "the whole repeat so far"
    assert ends(left_of(study, measured | {5: 10.0}, 4)["throughput"]) == (0.0, 20.0), "one point of it"
    until = a_study(throughput=SIZES | {"repeats": 4, "until_decided": {}})
    assert ends(left_of(until, {0: 10.0, 1: 10.0})["throughput"]) == (0.0, 60.0)


def test_repeats_end_with_their_time_limit():
    limited = a_study(throughput=SIZES | {"repeats": 4, "time_limit_s": 35.0, "more_repeats": 1})
    assert ends(left_of(limited, {0: 10.0, 1: 10.0})["throughput"]) == (0.0, 15.0 + 20.0), "35 s, then more_repeats"
    assert ends(left_of(limited, dict.fromkeys(range(4), 10.0))["throughput"])[1] == 20.0


def played(name: str) -> list[tuple[Sequence[KindTime], dict[Kind, float]]]:
    """Return what a published study said after each trial, in the order of their numbers, and what each kind still took."""
    study, records = read_study(PUBLISHED[name].study), sorted(records_of(name), key=lambda own: own.request.number)
    slots, seconds, skipped = space.plan(study), dict[int, float](), set[int]()
    said = []
    for place, record in enumerate(records):
        seconds[record.request.number] = record.outcome.total_s
        if record.outcome.status == "skipped":
            skipped.add(record.request.number)
        later = records[place + 1 :]
        took_s = {
            kind: sum(own.outcome.total_s for own in later if own.request.kind == kind) for kind in study.sections
        }
        said.append((time_left(study, slots, seconds, skipped, side_by_side=1.0), took_s))
    return said


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_study_had_a_range_of_each_kind_once_two_of_it_had_ended(name: str):
    kinds = [record.request.kind for record in sorted(records_of(name), key=lambda own: own.request.number)
             if record.outcome.status != "skipped"]  # fmt: skip
    numbers = [record.request.number for record in sorted(records_of(name), key=lambda own: own.request.number)]
    skipped = {record.request.number for record in records_of(name) if record.outcome.status == "skipped"}
    for place, (left, _) in enumerate(played(name)):
        ended = sum(number not in skipped for number in numbers[: place + 1])
        for own in left:
            if kinds[:ended].count(own.kind) < 2:
                assert ends(own) == (None, None)
            else:
                assert own.least_s is not None and own.most_s is not None
                assert 0.0 <= own.least_s <= own.most_s


def test_four_of_five_ranges_of_published_studies_held_what_was_left():
    held = []
    for name in PUBLISHED:
        study = read_study(PUBLISHED[name].study)
        if len(records_of(name)) < len(space.plan(study)):
            continue  # nobody knows how long its other trials would have taken
        for left, took_s in played(name):
            held += [
                own.least_s <= took_s[own.kind] <= own.most_s
                for own in left
                if own.least_s is not None and own.most_s is not None and own.trials
            ]
    assert len(held) > 500
    assert fmean(held) >= 0.8


def test_more_trials_narrow_the_range():
    few, many = Durations.of([10.0, 20.0]), Durations.of([10.0, 20.0] * 20)
    assert few is not None and many is not None and Durations.of([10.0]) is None
    assert many.most_s(10) - many.least_s(10) < few.most_s(10) - few.least_s(10)
    assert many.least_s(0) == many.most_s(0) == 0.0
