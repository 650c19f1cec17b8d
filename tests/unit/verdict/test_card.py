"""The card's numbers: which arm and setting answers each question, ratios of arms with their intervals, load, and the cost of deciding."""

import math
import statistics
from typing import Any

import pytest
from envknee.decide.study import decide
from envknee.record.schema import Record, Spread
from envknee.verdict.card import card_of
from envknee.verdict.schema.card import ArmRatio, CardEntry
from envknee.verdict.schema.further import Further
from envknee.verdict.schema.study import Verdict
from published import records_of as published_records
from published import verdict_of
from records import LEARNING, PLATEAU, Trial, a_study, fps_trials, known, learning_trials, records_of
from scipy import stats

FAST = {16: [300.0, 306.0, 309.0], 32: [570.0, 571.0, 579.0], 64: [579.0, 581.0, 590.0]}


def a_verdict(trials: list[Trial], *arms: str, **sections: Any) -> Verdict:
    return decide(records_of(trials), a_study(arms={arm: {} for arm in arms}, **sections))


def two_arms() -> list[Trial]:
    return [*fps_trials(PLATEAU, arm="slow"), *fps_trials(FAST, arm="fast", first=20)]


def the_entry(verdict: Verdict, *records: Record, **more: Any) -> CardEntry:
    (entry,) = card_of(verdict, records, **more).entries
    return entry


def at(entry: CardEntry, num_envs: int) -> ArmRatio:
    (ratio,) = [own for own in entry.ratios if own.setting is not None and own.setting.num_envs == num_envs]
    return ratio


def test_the_arm_with_most_fps_comes_with_its_ratio_at_each_size():
    verdict = a_verdict(two_arms(), "slow", "fast")
    entry = the_entry(verdict)
    assert (entry.arm, known(entry.setting).num_envs, entry.kind) == ("fast", 32, "throughput")
    assert [known(own.setting).num_envs for own in entry.ratios] == [32, 16, 64], "at the best setting of both first"
    assert at(entry, 16).ratio == pytest.approx(
        statistics.geometric_mean(FAST[16]) / statistics.geometric_mean(PLATEAU[16])
    )
    assert card_of(verdict).not_measured == ["learning"]


def test_with_records_a_ratio_is_that_of_pairs_by_students_t():
    entry = the_entry(a_verdict(two_arms(), "slow", "fast"), *records_of(two_arms()))
    logs = [math.log(fast / slow) for fast, slow in zip(FAST[16], PLATEAU[16], strict=True)]
    reach = stats.t.ppf(0.975, 2) * statistics.stdev(logs) / math.sqrt(3)
    found = at(entry, 16)
    expected = [math.exp(statistics.fmean(logs) + sign * reach) for sign in (0, -1, 1)]
    assert [found.ratio, found.lower, found.upper] == pytest.approx(expected, rel=1e-6)


def test_without_records_the_interval_follows_from_both_arms_own():
    entry = the_entry(a_verdict(two_arms(), "slow", "fast"))

    def reach(values: list[float]) -> float:
        logs = [math.log(value) for value in values]
        return float(stats.t.ppf(0.975, 2)) * statistics.stdev(logs) / math.sqrt(3)

    both = math.hypot(reach(FAST[64]), reach(PLATEAU[64]))
    found = at(entry, 64)
    assert math.log(known(found.upper) / known(found.ratio)) == pytest.approx(both, rel=0.01)
    assert math.log(known(found.ratio) / known(found.lower)) == pytest.approx(both, rel=0.01)


def test_a_single_repeat_has_no_interval_and_an_arm_without_a_result_no_ratio():
    trials = [*fps_trials({32: [100.0]}, arm="one"), *fps_trials({32: [200.0]}, arm="two", first=10)]
    (ratio,) = the_entry(a_verdict(trials, "one", "two"), *records_of(trials)).ratios
    assert (ratio.ratio, ratio.lower, ratio.upper) == (pytest.approx(2.0), None, None)
    learned = [*learning_trials({16: [None] * 3}, arm="one"), *learning_trials({16: [9.0] * 3}, arm="two", first=10)]
    verdict = a_verdict(learned, "one", "two", throughput=None, learning=LEARNING)
    entry = the_entry(verdict, *records_of(learned))
    assert (entry.arm, [own.ratio for own in entry.ratios]) == ("two", [None])


def test_a_seed_that_did_not_arrive_leaves_no_ratio_there():
    seconds = {16: [20.0, 21.0, None], 32: [30.0, 31.0, 33.0]}
    trials = [
        *learning_trials(seconds, arm="one"),
        *learning_trials({16: [9.0] * 3, 32: [10.0] * 3}, arm="two", first=10),
    ]
    verdict = a_verdict(trials, "one", "two", throughput=None, learning=LEARNING)
    entry = the_entry(verdict, *records_of(trials))
    assert [own.setting and own.setting.num_envs for own in entry.ratios] == [None, 32], (
        "each at its best, and where all arrived"
    )


def test_only_one_arm_is_asked_for_by_its_name():
    entry = card_of(a_verdict(two_arms(), "slow", "fast"), only="slow").entries[0]
    assert (entry.arm, entry.ratios[0].other) == ("slow", "fast") and known(entry.ratios[0].ratio) < 1.0


def test_deciding_costs_the_time_of_the_repeats_that_this_arm_needs():
    open_fps = {16: [100.0, 110.0, 104.0], 32: [107.0, 112.0, 109.0]}
    verdict = a_verdict(fps_trials(open_fps), "stock")
    limit = known(verdict.arms[0].recommended)
    repeats = known(limit.more_repeats)
    assert limit.state == "undecided"
    further = [Further(kind="throughput", repeats=2 * repeats, in_all=2 * repeats, seconds=600.0)]
    assert the_entry(verdict, further=further).cost_s == pytest.approx(300.0)
    assert the_entry(a_verdict(fps_trials(PLATEAU), "stock"), further=further).cost_s is None, "it is decided"


def test_load_of_other_processes_during_seeds_is_told_of_records():
    trials = learning_trials({16: [10.0, 11.0, 12.0]})
    verdict = a_verdict(trials, "stock", throughput=None, learning=LEARNING)
    busy = [
        record.model_copy(update={"metrics": {"others_cpu_percent": spread(percent)}})
        for record, percent in zip(records_of(trials), (1.0, 2.0, 150.0), strict=True)
    ]
    load = known(the_entry(verdict, *busy).load)
    assert (load.touched, load.trials) == (1, 3)
    assert the_entry(verdict, *records_of(trials)).load is None


def spread(value: float) -> Spread:
    return Spread(median=value, lower_quartile=value, upper_quartile=value, iterations=3)


def test_a_drill_has_no_card():
    verdict = a_verdict(two_arms(), "slow", "fast").model_copy(update={"drill": "huge actions"})
    assert card_of(verdict).entries == []


@pytest.mark.parametrize(
    ("name", "num_envs", "expected"),
    [
        ("cartpole-stock-lean-warp-learning", 1024, (0.18, 0.16, 0.21)),
        ("cartpole-stock-lean-h200", 8192, (9.61, 9.26, 9.98)),
        ("cartpole-stock-lean-decided", 8192, (7.46, 7.35, 7.56)),
    ],
)
def test_published_ratios_are_those_of_the_pages(name: str, num_envs: int, expected: tuple[float, float, float]):
    found = at(the_entry(verdict_of(name), *published_records(name)), num_envs)
    assert [known(value) for value in (found.ratio, found.lower, found.upper)] == pytest.approx(
        list(expected), abs=0.0051
    )


def test_a_setting_whose_fps_are_all_composed_is_one_that_no_trial_ran():
    entry = the_entry(verdict_of("cartpole-one-gpu-decided"))
    assert known(entry.composed).horizon == 16
    requests = [
        record.request for record in published_records("cartpole-one-gpu-decided") if record.fps_total is not None
    ]
    ran = {(own.num_envs, own.horizon, own.batch_size) for own in requests}
    setting = known(entry.setting)
    assert (setting.num_envs, setting.horizon, setting.batch_size) not in ran
    assert the_entry(verdict_of("quick-fps")).composed is None
