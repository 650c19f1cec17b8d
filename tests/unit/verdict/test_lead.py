"""Which arm is ahead: by FPS or by seconds, with the others behind it in their order, and what is said of it."""

from typing import Any

import pytest
from envknee.decide.study import decide
from envknee.verdict.card import card_of
from envknee.verdict.lead import in_order, lead_of
from envknee.verdict.schema.lead import Lead
from envknee.verdict.schema.study import Verdict
from envknee.words.answer import answer
from envknee.words.lead import lead_sentence
from records import LEARNING, Trial, a_study, fps_trials, known, learning_trials, records_of


def by_fps(**fps: list[float]) -> Verdict:
    trials = [
        trial
        for place, (arm, values) in enumerate(fps.items())
        for trial in fps_trials({32: values} if values else {}, arm=arm, first=10 * place)
    ]
    return decide(records_of(trials), a_study(arms={arm: {} for arm in fps}))


def by_seconds(**seconds: list[float | None]) -> Verdict:
    trials: list[Trial] = []
    for place, (arm, values) in enumerate(seconds.items()):
        trials += learning_trials({16: values}, arm=arm, first=10 * place)
    sections: dict[str, Any] = {"throughput": None, "learning": LEARNING}
    return decide(records_of(trials), a_study(arms={arm: {} for arm in seconds}, **sections))


def lead_in(verdict: Verdict) -> Lead | None:
    """Return the lead without records: ratios follow from both arms' own intervals."""
    return lead_of(verdict, card_of(verdict))


def sentence(verdict: Verdict) -> str:
    return lead_sentence(lead_in(verdict), {arm.arm: answer(arm, verdict.rules) for arm in verdict.arms})


def test_arms_come_by_rank_and_those_without_a_result_last():
    verdict = by_fps(a=[100.0, 101.0], b=[], c=[300.0, 301.0], d=[200.0, 202.0])
    assert [arm.arm for arm in in_order(verdict).arms] == ["c", "d", "a"] + [
        arm.arm for arm in verdict.arms if arm.arm == "b"
    ]
    lead = known(lead_in(verdict))
    assert [behind.standing.arm for behind in lead.behind] == ["d", "a"]
    assert [behind.times for behind in lead.behind] == pytest.approx([301 / 202, 301 / 101], rel=0.01)
    assert sentence(verdict) == "c is fastest: 300 FPS at 32 environments, 1.50 times d, 3.0 times a."


def test_arms_that_are_asked_different_questions_each_say_what_to_run():
    fps, seconds = by_fps(a=[100.0, 101.0]), by_seconds(b=[10.0, 11.0, 12.0])
    both = fps.model_copy(update={"arms": [*fps.arms, *seconds.arms]})
    lead = known(lead_in(both))
    assert not lead.behind and [standing.arm for standing in lead.beside] == ["b"]
    said = sentence(both)
    assert said.startswith("a: run ") and "; b: run 16 environments" in said and said.endswith(".")


def test_repeats_that_overlap_tell_no_order():
    verdict = by_fps(a=[100.0, 120.0], b=[110.0, 115.0], c=[50.0, 51.0])
    lead = known(lead_in(verdict))
    assert [behind.order for behind in lead.behind] == ["open", "shown"]
    assert sentence(verdict).endswith("times c, not told apart from a.")


def test_one_repeat_has_no_interval_and_that_is_said():
    alone = by_fps(a=[100.0], b=[50.0])
    assert [behind.order for behind in known(lead_in(alone)).behind] == ["no interval"]
    assert sentence(alone) == "a is fastest: 100 FPS at 32 environments, with too few repeats to compare it with b."
    some = by_fps(a=[100.0, 101.0], b=[50.0, 51.0], c=[30.0], d=[20.0])
    assert sentence(some).endswith(
        "FPS at 32 environments, 1.99 times b, with too few repeats to compare it with c and d."
    )


def test_an_order_is_shown_where_the_card_shows_it():
    """Seeds differ by far more than the arms, and each seed is sooner in one arm: the ratio of pairs excludes 1."""
    trials = [
        *learning_trials({16: [10.0, 20.0, 40.0, 80.0]}, arm="a"),
        *learning_trials({16: [12.1, 24.0, 48.2, 96.0]}, arm="b", first=10),
    ]
    records = records_of(trials)
    verdict = decide(records, a_study(arms={"a": {}, "b": {}}, throughput=None, learning=LEARNING))
    (without,), (paired,) = known(lead_in(verdict)).behind, known(lead_of(verdict, card_of(verdict, records))).behind
    assert (without.order, paired.order) == ("open", "shown")
    assert without.times == paired.times


def test_seconds_to_the_target_rank_from_the_fewest_up():
    verdict = by_seconds(a=[20.0, 20.1, 20.2], b=[10.0, 10.1, 10.2], c=[None, None, None])
    assert [arm.arm for arm in in_order(verdict).arms] == ["b", "a", "c"]
    assert sentence(verdict) == "b reaches the target soonest: in 10.1 s with 16 environments, 1.99 times as fast as a."


def test_a_single_arm_is_told_what_to_run():
    assert sentence(by_seconds(a=[20.0, 20.1, 20.2])) == "Run 16 environments (horizon 8, batch 128): target in 20.1 s."
    assert sentence(by_seconds(a=[None, None])) == "No result yet: no trial has ended with one."
