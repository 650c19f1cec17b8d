"""Whether two arms learn alike: the ratio of environment steps by hand and in simulations, and what an arm without a search may claim."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from asked import play
from envknee.base.point import Point
from envknee.decide.study import decide
from envknee.record.schema import Record, Request
from envknee.study.files import canonical_json
from envknee.study.model import Study
from envknee.verdict.joint.alike import likeness
from envknee.verdict.joint.selection import to_confirm
from envknee.verdict.joint.surface import Surface
from envknee.verdict.rule.doublings import Seeds
from envknee.verdict.schema.joint import JointAnswer, Likeness, Setting
from places import ROOT
from records import known
from scipy.stats import binom, t
from transfer_study import FAST, SLOW, fps_of, frames_of, transfer_study, trial

SETTINGS = [Point(size, 16, 512) for size in (128, 256, 512, 1024)]


def seeds(log_mean: float, step: float = 0.1) -> Seeds:
    """Return three seeds, of which ln frames lie `step` apart: their variance is step^2."""
    return Seeds(tuple(math.exp(log_mean + step * own) for own in (-1, 0, 1)))


def found_at(ratios: Sequence[float], step: float = 0.1, alpha: float = 0.05) -> Likeness:
    """Return the likeness of four arms' worth of seeds whose means have exactly these ratios."""
    pairs = [(seeds(place + math.log(ratio), step), seeds(place, step)) for place, ratio in enumerate(ratios)]
    return likeness("lean", SETTINGS[: len(ratios)], pairs, alpha)


# The ratio


def test_ratio_and_interval_by_hand():
    found = found_at([1.1, 1.0, 1.0, 1.0])
    # Each mean of 3 seeds has variance 0.01 / 3, each ln ratio twice that, and the mean of four ln ratios a quarter of it. There are 8
    # groups with 2 degrees each.
    assert found.ratio == pytest.approx(1.1**0.25)
    half = t.ppf(0.95, 16) * math.sqrt(2 * 0.01 / 3 / 4)
    assert found.ratio_lower == pytest.approx(math.exp(math.log(1.1) / 4 - half))
    assert found.ratio_upper == pytest.approx(math.exp(math.log(1.1) / 4 + half))
    of_one = t.ppf(0.95, 16) * math.sqrt(2 * 0.01 / 3)
    assert [own.ratio for own in found.at] == pytest.approx([1.1, 1.0, 1.0, 1.0])
    assert found.at[0].ratio_upper == pytest.approx(1.1 * math.exp(of_one))
    assert found.state == "shown"


@pytest.mark.parametrize(
    ("ratios", "step", "state"),
    [
        ([1.0] * 4, 0.1, "shown"),
        ([1.06] * 4, 0.05, "shown"),
        ([1.12] * 4, 0.1, "not shown"),
        ([1.0] * 4, 0.4, "not shown"),  # that no difference is seen shows nothing
        ([0.88] * 4, 0.1, "not shown"),
        ([1.4] * 4, 0.1, "differs"),
        ([0.6] * 4, 0.1, "differs"),
        ([1.3, 0.8, 1.3, 0.75], 0.05, "varies"),
        ([1.0] * 3, 0.01, "too few settings"),
    ],
)
def test_alike_is_only_what_is_shown_at_four_settings_or_more(ratios: list[float], step: float, state: str):
    assert found_at(ratios, step).state == state


def test_a_smaller_chance_of_error_takes_more():
    assert found_at([1.06] * 4, alpha=0.05).state == "shown"
    assert found_at([1.06] * 4, alpha=0.005).state == "not shown"


def test_a_setting_whose_seeds_missed_the_target_leaves_it_open():
    whole = [(seeds(0.0), seeds(0.0))] * 3
    missed = (Seeds(seeds(0.0).reached[:2], (2.0,)), seeds(0.0))
    found = likeness("lean", SETTINGS, [*whole, missed], 0.05)
    assert (found.state, len(found.at)) == ("seeds missed the target", 3)
    five = Seeds((0.9, 1.0, 1.1, 1.0, 0.95), (1.3,))
    assert likeness("lean", SETTINGS, [*whole, (five, seeds(0.0))], 0.05).state in ("shown", "not shown"), "five of six"
    lost = likeness("lean", SETTINGS, [*whole, (Seeds(()), seeds(0.0))], 0.05)
    assert (lost.state, len(lost.at)) == ("too few settings", 3)
    none = likeness("lean", SETTINGS[:1], [(Seeds(()), seeds(0.0))], 0.05)
    assert (none.state, none.ratio, none.at) == ("too few settings", None, [])


# The chance of error

STUDIES = 500


def states(
    ratios: Sequence[float],
    sds: float | Sequence[float] = 0.16,
    count: int = 8,
    budget: float = math.inf,
    alpha: float = 0.05,
) -> Counter[str]:
    """Return how simulated studies end, with ln frames of one seed of standard deviation `sds`, and frames cut off at a budget."""
    random = np.random.default_rng(3)
    settings = [Point(place + 1, 16, 512) for place in range(len(ratios))]
    spreads = np.broadcast_to(sds, len(ratios))

    def drawn(log_mean: float, sd: float) -> Seeds:
        frames = np.exp(log_mean + sd * random.standard_normal(count))
        return Seeds(tuple(frames[frames < budget].tolist()), (budget,) * int((frames >= budget).sum()))

    def study() -> str:
        levels = random.normal(0.0, 0.2, len(ratios))
        pairs = [
            (drawn(level + math.log(ratio), sd), drawn(level, sd))
            for level, ratio, sd in zip(levels, ratios, spreads, strict=True)
        ]
        return likeness("lean", settings, pairs, alpha).state

    return Counter(study() for _ in range(STUDIES))


@pytest.mark.parametrize(
    ("ratio", "changes"),
    [
        (1.15, {"sds": 0.29}),
        (0.85, {"sds": 0.16}),
        (1.15, {"sds": 0.1, "count": 3}),
        (1.15, {"sds": (0.02, 0.05, 0.1, 0.1, 0.2, 0.3)}),
        (1.15, {"sds": 0.2, "budget": 1.6}),
    ],
)
def test_a_ratio_at_the_limit_passes_no_more_often_than_the_level(ratio: float, changes: dict[str, Any]):
    # If it passed in exactly 5%, more would pass in one test of 10,000.
    assert states([ratio] * 6, **changes)["shown"] <= binom.ppf(0.9999, STUDIES, 0.05)


def test_arms_that_learn_alike_are_mostly_shown_to_where_seeds_agree():
    # The F test takes its 10%.
    assert states([1.0] * 6)["shown"] >= 0.8 * STUDIES


@pytest.mark.parametrize(("sd", "share"), [(0.16, 0.86), (0.29, 0.20)])
def test_the_page_says_how_often_such_arms_are_shown_to(sd: float, share: float):
    # The planned seeds have 0.8 of a third of 5%.
    shown = states([1.0] * 6, sds=sd, alpha=0.05 / 3 * 0.8)["shown"] / STUDIES
    assert shown == pytest.approx(share, abs=0.06)
    page = " ".join((ROOT / "docs" / "joint.md").read_text(encoding="utf-8").split())
    sentences = [sentence for sentence in page.split(". ") if f"by {sd:.0%}" in sentence]
    assert any(f"{share:.0%} " in sentence for sentence in sentences)


def test_arms_that_are_alike_on_average_alone_are_not_shown():
    found = states([1.3, 1.3, 1.3, 0.8, 0.8, 0.8])
    assert found["shown"] <= 0.02 * STUDIES and found["varies"] >= 0.9 * STUDIES


# A whole study


def played(ratio: float, **changes: Any) -> tuple[Study, list[Record]]:
    study = transfer_study(learning__confirm={"settings": 4, "seeds": 8}, **changes)

    def measure(request: Request) -> Any:
        return trial(request, ratio, noise=0.08)

    return study, list(play(study, measure)[1].values())


@pytest.fixture(scope="module")
def alike() -> tuple[Study, list[Record]]:
    return played(1.0)


def answers(study: Study, records: Sequence[Record]) -> dict[str, JointAnswer]:
    """Return the answers about learning, by arm."""
    arms = decide(records, study).arms
    return {arm.arm: next(own for own in arm.joint if own.kind == "learning") for arm in arms}


def test_an_arm_that_learns_alike_has_its_own_claims_and_the_model_s_chances(alike: tuple[Study, list[Record]]):
    study, records = alike
    found = answers(study, records)
    slow, fast = found[SLOW], found[FAST]
    assert (slow.state, slow.learns_like, slow.search_trials) == ("confirmed", FAST, 0)
    assert slow.likeness is not None and slow.likeness.state == "shown"
    # Three claims: the interval, the comparisons, and that both learn alike. The planned seeds have 0.8 of each part.
    assert slow.claims == 3
    assert slow.error_of_claim == slow.likeness.error == pytest.approx(0.05 / 3 * 0.8)
    assert len(slow.confirmed) == len(slow.likeness.at) == 4
    assert slow.soonest is not None and slow.confirmed[slow.soonest].cost_lower is not None
    assert slow.thresholds == [] and slow.shape is None, "they take a search"
    assert slow.likely and slow.mini_batches and slow.confirmed[0].chance is not None
    assert slow.fresh_planned == slow.fresh_ended == 32
    assert (fast.learns_like, fast.likeness, fast.claims) == (None, None, 4)
    assert len(fast.confirmed) == fast.fresh_planned / 8 == fast.fresh_ended / 8 >= 4
    assert [threshold.axis for threshold in fast.thresholds] == ["num_envs", "horizon"]
    assert canonical_json(decide(records, study)) == canonical_json(decide(records[::-1], study))


def test_an_arm_that_learns_otherwise_keeps_its_own_claims_alone():
    study, records = played(1.5)
    slow = answers(study, records)[SLOW]
    assert slow.likeness is not None and slow.likeness.state == "differs"
    assert slow.likeness.ratio == pytest.approx(1.5, rel=0.1)
    assert slow.soonest is not None and slow.confirmed[slow.soonest].cost_lower is not None
    assert (slow.likely, slow.mini_batches, slow.is_rough) == ([], [], False)
    assert all(own.chance is None for own in slow.confirmed)


def test_its_plan_is_what_its_settings_were_chosen_by(alike: tuple[Study, list[Record]]):
    study, records = alike
    slow, fast = (answers(study, records)[arm] for arm in (SLOW, FAST))
    plan = known(slow.plan)
    shape = known(plan.shape)
    assert plan.arm == FAST and fast.plan is None and shape.regret == []
    settings = [Point(at.num_envs, at.horizon, at.batch_size) for at in shape.expected]
    costs = np.log([at.cost for at in shape.expected])
    chosen = to_confirm(Surface(settings, costs, np.eye(len(costs)), 0.1, 0.1), range(len(costs)), 4)
    asked = {own.request.point for own in records if own.request.confirms and own.request.arm == SLOW}
    assert {settings[place] for place in chosen} == asked
    truth = np.log([frames_of(setting) / fps_of(SLOW, setting) for setting in settings])
    assert np.abs(costs - truth).max() < 0.5 and np.abs(costs - truth).mean() < 0.15
    for at in shape.frames:
        expected = next(
            own.cost for own in shape.expected if Setting.at(own.num_envs, own) == Setting.at(at.num_envs, at)
        )
        assert at.frames * at.seconds_per_frame == pytest.approx(expected)
    assert plan.likely and [own.value for own in plan.mini_batches] == [1, 2, 4, 8, 16, 32, 64]


def test_no_fresh_seed_and_no_refusal_changes_a_plan(alike: tuple[Study, list[Record]]):
    study, records = alike
    whole = answers(study, records)[SLOW]
    searched = [own for own in records if not own.request.confirms]
    assert answers(study, searched)[SLOW].plan == whole.plan is not None
    refused = answers(*played(1.5))[SLOW]
    assert known(refused.likeness).state == "differs" and refused.plan == whole.plan
    without_fps = [own for own in records if (own.request.arm, own.request.kind) != (SLOW, "throughput")]
    assert answers(study, without_fps)[SLOW].plan is None


def test_its_claims_take_its_own_seeds_alone(alike: tuple[Study, list[Record]]):
    study, records = alike
    whole, own = (answers(study, known)[SLOW] for known in (records, [r for r in records if r.request.arm == SLOW]))
    assert own.likeness is not None and own.likeness.state == "too few settings"
    assert [setting.cost for setting in own.confirmed] == [setting.cost for setting in whole.confirmed]
    assert [setting.cost_upper for setting in own.confirmed] == [setting.cost_upper for setting in whole.confirmed]
    assert (own.soonest, own.fewest_environments) == (whole.soonest, whole.fewest_environments)


def test_before_its_seeds_have_ended_it_is_confirming(alike: tuple[Study, list[Record]]):
    study, records = alike
    searched = sum(not record.request.confirms for record in records)
    for count in (0, searched, searched + 20):
        slow = answers(study, records[:count])[SLOW]
        assert (slow.state, slow.soonest, slow.likeness) == ("confirming", None, None)


def test_seeds_of_the_other_arm_that_are_left_show_nothing_yet(alike: tuple[Study, list[Record]]):
    study, records = alike
    last = max(
        record.request.number for record in records if record.request.arm == FAST and record.outcome.status != "skipped"
    )
    slow = answers(study, [record for record in records if record.request.number != last])[SLOW]
    assert (slow.state, slow.likeness, slow.likely) == ("confirmed", None, [])


def test_only_learning_is_planned_from_another_arm(alike: tuple[Study, list[Record]]):
    study, records = alike
    for arm in decide(records, study).arms:
        [fps] = [own for own in arm.joint if own.kind == "throughput"]
        assert (fps.state, fps.learns_like, fps.search_trials) == ("searched", None, 8)
