"""The joint answer: claims from fresh seeds by hand and in simulations, and the answer of a whole study."""

import math
from typing import Any

import numpy as np
import pytest
from asked import dice, measured, play
from envknee.ask.ask import ask_again
from envknee.base.point import Point
from envknee.decide.settings import settings_of
from envknee.decide.study import decide
from envknee.record.schema import Record, Request
from envknee.study.files import canonical_json
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.verdict.joint.dunnett import critical
from envknee.verdict.joint.fresh import Levels, levels_of
from envknee.verdict.joint.thresholds import first_shown, stand_ins
from envknee.verdict.rule.doublings import Seeds
from envknee.verdict.schema.joint import JointAnswer
from joint_data import SETTINGS
from joint_study import a_study, learned, log_seconds, timed
from numpy.typing import NDArray
from records import GPU

# Fresh seeds


@pytest.mark.parametrize(
    ("treatments", "degrees", "expected"),
    [(1, 20, 1.72), (2, 20, 2.03), (5, 20, 2.39), (5, 10, 2.56), (9, 60, 2.46)],
)
def test_the_critical_values_are_dunnetts(treatments: int, degrees: int, expected: float):
    # Dunnett 1955, table 1a: one-sided, 95%
    assert critical(treatments + 1, degrees, 0.05) == pytest.approx(expected, abs=0.025)


def test_levels_and_comparisons_by_hand():
    one, two = math.exp(1.0), math.exp(1.2)
    levels = levels_of([Seeds((one, two)), Seeds((math.exp(2.0), math.exp(2.2)))])
    # both means have variance 0.02 / 2 with 2 degrees; their difference has a deviation of sqrt(0.02)
    assert levels.means.tolist() == [pytest.approx(1.1), pytest.approx(2.1)]
    assert np.diag(levels.covariance).tolist() == [pytest.approx(0.01)] * 2
    assert levels.degrees == 2
    margin = critical(2, 2, 0.05) * math.sqrt(0.02)
    assert levels.margin(0, 1, 0.05) == pytest.approx(margin)
    assert levels.most_slower(1, 0.05) == pytest.approx(1.0 + margin)
    assert levels.most_slower(0, 0.05) == 0.0
    assert (levels.may_be_best(0, 0.05), levels.may_be_best(1, 0.05)) == (True, False)
    # t at 0.05 / 4 with 2 degrees is 6.205
    assert levels.half_width(0, 0.05) == pytest.approx(6.205 * 0.1, rel=1e-3)
    assert levels.contrast(64, 1, 0).log_gain == pytest.approx(1.0)


def test_a_setting_with_a_censored_seed_is_not_compared_below_six():
    levels = levels_of([Seeds((5.0, 6.0, 5.5)), Seeds((7.0, 8.0), (25.0,))])
    assert levels.comparable == [0]
    assert levels.may_be_best(1, 0.05), "not shown slower"
    enough = levels_of([Seeds((5.0, 6.0, 5.5, 5.2, 6.1, 5.8)), Seeds((7.0, 8.0, 7.5, 9.0, 8.0), (25.0,))])
    assert enough.comparable == [0, 1]
    assert enough.means[1] > np.mean(np.log([7.0, 8.0, 7.5, 9.0, 8.0]))


def test_a_setting_of_which_no_seed_arrived_counts_with_its_bound():
    soon, late = Seeds((5.0, 6.0, 5.5)), Seeds((7.0, 8.0, 7.7))
    levels = levels_of([soon, late, Seeds((), (25.0, 25.0, 25.0))])
    assert (levels.comparable, levels.bounded) == ([0, 1], [2])
    assert levels.floors[2] == pytest.approx(math.log(25.0))
    # Its mean has the variance of three seeds with the others' spread.
    assert levels.margin(0, 2, 0.05) == pytest.approx(levels.margin(0, 1, 0.05))
    of_two = float(levels.means[0] - levels.means[1]) + levels.margin(0, 1, 0.05)
    assert levels.most_slower(0, 0.05) == max(0.0, of_two), "the bound of the third one lies far above"
    assert not levels.may_be_best(2, 0.05), "shown slower: its bound exceeds the others"
    assert levels.most_slower(2, 0.05) is None
    # With a bound that it may well have missed by a little, it may still be the best.
    near = levels_of([soon, late, Seeds((), (5.6, 5.6, 5.6))])
    assert near.may_be_best(2, 0.05)
    assert (near.most_slower(0, 0.05) or 0.0) >= float(near.means[0]) - math.log(5.6)


def test_a_bound_says_nothing_where_spreads_differ():
    levels = levels_of([Seeds((5.0, 5.01, 5.02, 5.0)), Seeds((4.0, 9.0, 20.0, 2.0)), Seeds((), (90.0,) * 4)])
    assert levels.spreads_differ and levels.bounded == []
    assert levels.may_be_best(2, 0.05) and levels.most_slower(0, 0.05) is None


@pytest.mark.parametrize("budget", [1.0, 1.3, 1.7])
def test_claims_hold_where_seeds_are_cut_off_at_a_budget(budget: float):
    """2,000 studies of four settings and four seeds each; budgets near the slower settings' costs cut some or all of their seeds off."""
    random = np.random.default_rng(2)
    best_kept = bounds_hold = told = 0
    for _ in range(2000):
        truth = np.array([0.0, *random.uniform(0.0, 0.8, 3)])
        costs = np.exp(truth[:, None] + 0.25 * random.standard_normal((4, 4)))
        seeds = [Seeds(tuple(own[own < budget]), (budget,) * int((own >= budget).sum())) for own in costs]
        levels = levels_of(seeds)
        best_kept += levels.may_be_best(0, 0.05)
        most = [levels.most_slower(place, 0.05) for place in range(4)]
        others = [max(0.0, truth[own] - np.delete(truth, own).min()) for own in range(4)]
        told += any(own is not None for own in most)
        bounds_hold += all(own is None or own >= other - 1e-12 for own, other in zip(most, others, strict=True))
    assert best_kept >= 0.945 * 2000
    assert bounds_hold >= 0.945 * 2000
    assert told >= 0.05 * 2000


def test_what_the_seeds_of_a_round_share_cancels_between_settings_by_hand():
    # Rounds deviate by -0.3, 0 and 0.3, settings in a round by 0.01 at most.
    logs = [[1.0 - 0.3, 1.0, 1.0 + 0.3], [2.01 - 0.3, 1.99, 2.0 + 0.3]]
    seeds = [Seeds(tuple(math.exp(log) for log in own)) for own in logs]
    paired, alone = levels_of(seeds, one_process=True), levels_of(seeds)
    assert paired.means.tolist() == [pytest.approx(1.0), pytest.approx(2.0)]
    # Differences are 1.01, 0.99 and 1.0: their mean has a standard error of 0.01 / sqrt(3), with two degrees.
    assert (paired.degrees, paired.own_degrees) == (2, 2)
    assert paired.margin(0, 1, 0.05) == pytest.approx(critical(2, 2, 0.05) * 0.01 / math.sqrt(3))
    assert alone.margin(0, 1, 0.05) > 0.3
    # A setting alone keeps what rounds deviate by: 0.09 of variance, over three rounds.
    assert float(paired.covariance[0, 0]) == pytest.approx(0.03, rel=0.02)


def test_a_missing_seed_leaves_rounds_that_cannot_be_compared_as_a_whole():
    seeds = [Seeds((5.0, 6.0, 5.5)), Seeds((7.0, 8.0))]
    one, alone = levels_of(seeds, one_process=True), levels_of(seeds)
    assert one.covariance.tolist() == alone.covariance.tolist()
    assert (one.own_degrees, alone.own_degrees) == (1, 3)


def kept_claims(levels: Levels, truth: NDArray[np.float64]) -> list[bool]:
    """Tell whether the soonest's interval covers, the best one is kept, and every bound holds; `truth` has ln costs, shape (settings,)."""
    soonest = levels.soonest()
    assert soonest is not None
    others = [max(0.0, truth[own] - np.delete(truth, own).min()) for own in range(len(truth))]
    return [
        bool(abs(levels.means[soonest] - truth[soonest]) <= levels.half_width(soonest, 0.05)),
        levels.may_be_best(int(truth.argmin()), 0.05),
        all((levels.most_slower(own, 0.05) or 0.0) >= others[own] - 1e-12 for own in range(len(truth))),
    ]


@pytest.mark.parametrize(("of_round", "spread"), [(0.0, 0.02), (0.05, 0.02), (0.05, 0.0)])
def test_claims_about_settings_of_one_process_hold_as_often_as_they_say(of_round: float, spread: float):
    """2,000 studies of four settings and four rounds; with `spread` 0 the settings' own deviations grow from 1% to 4%."""
    random = np.random.default_rng(3)
    own_sd = np.full(4, spread) if spread else np.array([0.01, 0.02, 0.03, 0.04])
    kept = np.zeros(3, dtype=int)
    for study in range(2000):
        truth = np.zeros(4) if study % 2 else random.normal(0.0, 0.03, 4)
        deviations = own_sd[:, None] * random.standard_normal((4, 4)) + of_round * random.standard_normal(4)
        levels = levels_of(
            [Seeds(tuple(own)) for own in np.exp(truth[:, None] + deviations).tolist()], one_process=True
        )
        kept += kept_claims(levels, truth)
    assert (kept >= 0.94 * 2000).all(), kept


def test_a_setting_that_never_ran_hides_no_other():
    levels = levels_of([Seeds((5.0, 6.0, 5.5)), Seeds((7.0, 8.0, 7.7)), Seeds(())])
    assert levels.comparable == [0, 1]
    assert levels.most_slower(0, 0.05) is not None
    assert levels.most_slower(2, 0.05) is None


def test_claims_about_settings_hold_as_often_as_they_say():
    """All settings alike is the worst case of a winner; 2,000 studies of six settings and eight seeds."""
    random = np.random.default_rng(1)
    kept = np.zeros(3, dtype=int)
    for study in range(2000):
        truth = np.zeros(6) if study % 2 else random.normal(0.0, 0.1, 6)
        costs = np.exp(truth[:, None] + 0.29 * random.standard_normal((6, 8)))
        levels = levels_of([Seeds(tuple(own)) for own in costs.tolist()])
        kept += kept_claims(levels, truth)
    assert (kept >= 0.94 * 2000).all(), kept


# Thresholds


def test_the_fixed_sequence_or_holm_names_the_first_value():
    assert first_shown({1: 0.9, 2: 0.02, 4: 0.01}, 0.05) == 2  # the sequence from 4 down
    assert first_shown({1: 0.001, 2: 0.9, 4: 0.9}, 0.05) == 1  # Holm: 3 x 0.001
    assert first_shown({1: 0.02, 2: 0.9, 4: 0.9}, 0.05) is None
    assert first_shown({}, 0.05) is None


def test_only_a_setting_near_the_best_of_its_value_stands_for_it():
    settings = [Point(1, 1, 1), Point(1, 2, 1), Point(2, 1, 1), Point(2, 2, 1)]
    mean = np.array([1.0, 1.04, 2.0, 1.5])
    # 4% above the best with num_envs 1 is near; 50% above the best with num_envs 2 is not. Places are those among the confirmed.
    assert stand_ins(mean, settings, [2, 1], lambda point: point.num_envs) == {1: 1}


# A whole study


def confirmed_study(measure: Any = learned, kind: Any = "learning", **changes: Any) -> tuple[Study, list[Record]]:
    study = a_study(kind, **{"trials": 40, "confirm": {"settings": 6, "seeds": 8}} | changes)
    requests, known = play(study, measure)
    assert ask_again(study, requests[:1], known) == requests[:1]
    return study, list(known.values())


def joint_of(study: Study, records: list[Record]) -> JointAnswer:
    [arm] = decide(records, study).arms
    [found] = arm.joint
    return found


@pytest.fixture(scope="module")
def searched() -> tuple[Study, list[Record]]:
    return confirmed_study()


def test_the_answer_of_a_study(searched: tuple[Study, list[Record]]):
    study, records = searched
    found = joint_of(study, records)
    assert (found.state, found.search_trials, found.is_rough) == ("confirmed", 40, False)
    # Four claims have a quarter each: the interval, the comparisons with the best, the thresholds of num_envs and horizon. The 8 planned
    # seeds have 0.8 of it; the rest is for further ones.
    assert (found.claims, found.error_of_kind) == (4, pytest.approx(0.05))
    assert found.error_of_claim == pytest.approx(0.05 / 4 * 0.8)
    assert len(found.confirmed) == 6
    assert found.soonest is not None
    soonest = found.confirmed[found.soonest]
    truth = math.exp(log_seconds(Point(soonest.num_envs, soonest.horizon, soonest.batch_size)))
    assert soonest.cost_lower is not None and soonest.cost_upper is not None
    assert soonest.cost_lower < truth < soonest.cost_upper
    assert truth < 1.15 * math.exp(min(map(log_seconds, SETTINGS)))
    assert sum(own.chance for own in found.likely) >= 0.95
    assert [threshold.axis for threshold in found.thresholds] == ["num_envs", "horizon"]
    assert found.thresholds[0].tested == [128, 256, 512, 1024, 2048]
    assert 8 in [own.value for own in found.mini_batches if own.not_slower]
    assert 1 not in [own.value for own in found.mini_batches if own.not_slower]
    if found.fewest_environments is not None:
        assert (found.confirmed[found.fewest_environments].most_slower or 0.0) <= found.delta
    assert decide(records, study).arms[0].learning == [], "the best one seen is never told"
    assert canonical_json(decide(records, study)) == canonical_json(decide(records[::-1], study))


def test_before_all_planned_seeds_have_ended_nothing_is_claimed(searched: tuple[Study, list[Record]]):
    study, records = searched
    for count, state in ((40, "confirming"), (40 + 47, "confirming")):
        found = joint_of(study, records[:count])
        assert (found.state, found.soonest, found.thresholds) == (state, None, [])
        assert all(own.cost_lower is None and own.most_slower is None for own in found.confirmed)


def test_a_search_without_a_confirming_stage_says_what_the_model_says_alone():
    study, records = confirmed_study(confirm=None)
    found = joint_of(study, records)
    assert (found.state, found.confirmed, found.soonest, found.thresholds) == ("searched", [], None, [])
    assert found.likely and found.mini_batches


def test_a_plateau_is_reached_where_fresh_fps_and_the_model_agree():
    study, records = confirmed_study(timed, "throughput")
    found = joint_of(study, records)
    envs = found.thresholds[0]
    assert envs.state == "reached" and envs.by_fresh is not None and envs.by_model is not None
    assert envs.threshold == max(envs.by_fresh, envs.by_model)
    assert envs.threshold >= 256
    assert decide(records, study).arms[0].throughput, "series of FPS stay"


def test_a_target_that_no_seed_reaches_is_told_without_a_claim():
    def never(request: Request):
        return measured(request, seconds=None, device=GPU)

    study, records = confirmed_study(never, num_envs=[256, 512], trials=12, confirm={"settings": 3, "seeds": 3})
    found = joint_of(study, records)
    assert (found.state, found.censored, found.soonest) == ("confirmed", 12, None)
    assert all(own.cost is None and own.reached == 0 and own.may_be_best for own in found.confirmed)
    assert all(threshold.threshold is None for threshold in found.thresholds)


def test_a_rough_surface_withholds_what_the_model_says():
    def rough(request: Request):
        seconds = math.exp(
            log_seconds(request.point) + 0.8 * dice(request.point).gauss(0, 1) + 0.02 * dice(request.seed).gauss(0, 1)
        )
        return measured(request, seconds=min(seconds, 29.0), device=GPU)

    study, records = confirmed_study(rough, num_envs=[256, 512], trials=60, confirm={"settings": 3, "seeds": 3})
    found = joint_of(study, records)
    assert found.is_rough
    assert (found.likely, found.mini_batches) == ([], [])
    assert all(threshold.threshold is None and threshold.by_model is None for threshold in found.thresholds)
    assert all(own.chance is None for own in found.confirmed)
    assert found.soonest is not None, "fresh seeds carry their own claims"


# The chance of error, cards, and claims about single axes


def test_seconds_and_fps_share_the_chance_of_error_of_a_study():
    learning = a_study(confirm={}).sections["learning"].model_dump(mode="json")
    throughput = a_study("throughput", confirm={}).sections["throughput"].model_dump(mode="json")
    data = a_study().model_dump(mode="json")
    for sections, share in (
        ({"learning": learning, "throughput": throughput}, 0.5),
        ({"learning": learning, "throughput": throughput | {"confirm": None}}, 1.0),
        ({"learning": learning}, 1.0),
    ):
        joint = settings_of(parse_study(data | sections)).joint
        assert joint["learning"].error_share == share
    found = joint_of(parse_study(data | {"learning": learning | {"horizon": [16]}}), [])
    assert found.claims == 3, "one horizon has no threshold"


def test_the_cheapest_and_smaller_cards_are_answered_among_settings_that_fit():
    def measure(request: Request):
        memory_gb = 4.0 * request.num_envs / 256
        seconds = (
            6.0 * {128: 1.3, 256: 1.0, 512: 1.02}[request.num_envs] * math.exp(0.01 * dice(request.seed).gauss(0, 1))
        )
        return measured(request, seconds=seconds, device=GPU, memory_gb=memory_gb)

    study, records = confirmed_study(
        measure, num_envs=[128, 256, 512], horizon=[16], batch_size=[512], trials=9, confirm={"settings": 3, "seeds": 4}
    )
    found = joint_of(study, records)
    order = [setting.num_envs for setting in found.confirmed]
    assert order == [256, 512, 128]
    assert [found.soonest, found.fewest_environments, found.least_memory, found.fewest_gpu_seconds] == [0, 0, 0, 0]
    assert found.confirmed[0].gpu_seconds == found.confirmed[0].cost, "one GPU"
    # 8, 4 and 2 GB: a card of 8 GB leaves 5% of 8.6 GB free, and fits all of them.
    assert [setting.memory_peak_gb for setting in found.confirmed] == [4.0, 8.0, 2.0]
    assert found.on_cards == []
    bigger = [record.model_copy(update={"memory_peak_gb": 5.0 * (record.memory_peak_gb or 0.0)}) for record in records]
    cards = joint_of(study, bigger).on_cards
    assert [(own.fitting, own.soonest) for own in cards] == [([2], 2), ([0, 2], 0)]
    assert cards[0].fewest_environments is None, "alone it is compared with none"
    assert cards[1].fewest_environments == 0, "128 environments take 30% longer, and 25% is the cut-off"
    assert [card for own in cards for card in own.cards] == [
        "12 GB (RTX 4070)", "16 GB (RTX 4080)", "24 GB (RTX 4090)", "32 GB (RTX 5090)"
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["learning", "throughput"])
def test_claims_about_single_axes_take_no_fresh_seed(kind: Any):
    """Fresh seeds of a grid are of settings that looked good in it: the verdict beside `joint` is that of the grid alone."""
    arms = {"one": {"gpus": 1}, "two": {"gpus": 2}, "lean": {"gpus": 1, "observations": "lean"}}
    grid = {
        "sampler": "grid", "trials": None, "repeats": 3, "num_envs": [128, 256], "horizon": [16], "batch_size": [512, 1024, 2048],
        "confirm": {"settings": 2, "seeds": 3}, "arms": arms,
    }  # fmt: skip
    study = a_study(kind, **grid)
    study = parse_study(study.model_dump(mode="json") | {"decide": {"baseline": "one"}})
    requests, known = play(study, learned if kind == "learning" else timed)
    with_fresh = decide(list(known.values()), study)
    alone = decide([known[request.number] for request in requests if not request.confirms], study)
    assert (with_fresh.scaling, with_fresh.rules) == (alone.scaling, alone.rules)
    for one, other in zip(with_fresh.arms, alone.arms, strict=True):
        for part in ("throughput", "learning", "batch"):
            assert getattr(one, part) == getattr(other, part)
        assert one.joint[0].state == "confirmed"
        assert one.throughput or one.learning, "a grid has single axes"
    if kind == "throughput":
        assert with_fresh.scaling[0].points and with_fresh.remedies is not None and alone.remedies is not None
        speeds = [[remedy.fps for remedy in part.remedies] for part in (with_fresh.remedies, alone.remedies)]
        assert speeds[0] == speeds[1] and speeds[0][0] is not None


def test_the_best_fps_seen_by_a_joint_search_are_no_recommendation():
    study, records = confirmed_study(
        timed, "throughput", num_envs=[256, 512], trials=12, confirm={"settings": 3, "seeds": 3}
    )
    [arm] = decide(records, study).arms
    assert arm.headline is None and arm.recommended is None
    assert arm.joint[0].soonest is not None


def test_one_confirmed_setting_has_its_interval_and_no_comparison():
    study, records = confirmed_study(num_envs=[256, 512], trials=9, confirm={"settings": 1, "seeds": 3})
    found = joint_of(study, records)
    assert (found.soonest, found.fewest_environments) == (0, None)
    assert found.confirmed[0].cost_lower is not None and found.confirmed[0].most_slower is None
