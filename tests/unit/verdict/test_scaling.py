"""Scaling efficiency: by hand, partners, points that cannot be compared, and simulated studies with known truth."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from envknee.decide.settings import arm_settings
from envknee.decide.study import decide
from envknee.study.files import canonical_json
from envknee.verdict.gpu_scaling import efficiency, partner_of
from envknee.verdict.rule.schedule import EVERY_REPEAT, ONCE, Schedule, as_planned
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.schema.study import Verdict
from envknee.verdict.settings import ArmSettings
from envknee.words.machines import arm_notes
from envknee.words.scaling import point_statement, scaling_notes, scaling_statement
from records import CPU, GPU, Trial, a_study, a_trial, fps_trials, known, records_of
from scipy.stats import binom

STUDIES = 1000

Arms = Mapping[str, Mapping[str, object]]

ARMS = {"one": {"gpus": 1}, "two": {"gpus": 2}}

ONE = {"arm": "one", "gpus": 1, "device": GPU}
TWO = {"arm": "two", "gpus": 2, "device": GPU, "first": 100}


def judged(trials: list[Trial], arms: Arms = ARMS, **decision: float) -> Verdict:
    return decide(records_of(trials), a_study(arms=arms, decide=decision))


def scaling_of(trials: list[Trial], arms: Arms = ARMS, **decision: float) -> Scaling:
    (scaling,) = judged(trials, arms, **decision).scaling
    return scaling


def sides(alone: Sequence[float], together: Sequence[float]) -> list[Trial]:
    """Return FPS of one GPU and of two, at 64 environments each."""
    return [*fps_trials({64: alone}, **ONE), *fps_trials({64: together}, **TWO)]


def test_efficiency_by_hand():
    scaling = scaling_of(sides([100.0] * 3, [190.0] * 3))
    (point,) = scaling.points
    assert (scaling.arm, scaling.world_size, scaling.partner) == ("two", 2, "one")
    assert point.fps_all_ranks == pytest.approx(190)
    assert (point.speedup, point.efficiency) == (pytest.approx(1.9), pytest.approx(0.95))
    # Repeats without noise: the estimate is all there is.
    assert (point.efficiency_lower, point.efficiency_upper) == (pytest.approx(0.95), pytest.approx(0.95))
    assert (point.repeats_one_rank, point.repeats_all_ranks) == (3, 3)
    said = "2 GPUs give 1.90 times one GPU's FPS at 64 environments each, horizon 8, batch 128 (efficiency 95%, 95% to 95%)"
    assert scaling_statement(scaling) == point_statement(point) == said


def test_measurements_of_one_process_are_one_repeat():
    def in_blocks(trials: list[Trial], first: int) -> list[Trial]:
        pairs = zip(trials[::2], trials[1::2], strict=True)
        return [trial.asked(block=first + number, repeat=number) for number, pair in enumerate(pairs) for trial in pair]

    alone = in_blocks(fps_trials({64: [90.0, 110.0, 95.0, 105.0, 98.0, 102.0]}, **ONE), 0)
    together = in_blocks(fps_trials({64: [180.0, 200.0, 185.0, 195.0]}, **TWO), 100)
    (point,) = scaling_of([*alone, *together]).points
    assert (point.repeats_one_rank, point.repeats_all_ranks) == (3, 2)
    pairs_of = [(90, 110), (95, 105), (98, 102)], [(180, 200), (185, 195)]
    means = [[math.sqrt(a * b) for a, b in pairs] for pairs in pairs_of]
    share, lower, _ = efficiency(means[0], means[1], 2, 0.95, schedule=as_planned(3))
    assert (point.efficiency, point.efficiency_lower) == (pytest.approx(share), pytest.approx(lower))


def on_machine(fps: Sequence[float], side: Mapping[str, Any], machine: str, first: int) -> list[Trial]:
    """Return trials on the GPUs of a machine: the second alone, or both together."""
    gpus = [GPU.model_copy(update={"uuid": f"{machine}-{place}"}) for place in range(2)]
    trials = fps_trials({64: fps}, **side | {"first": first, "device": gpus[1]})
    return trials if side["gpus"] == 1 else [trial.on_gpus(*gpus) for trial in trials]


def test_machines_that_differ_do_not_widen_the_interval():
    slow = [*on_machine([50.0, 51.0], ONE, "a", 0), *on_machine([98.0, 99.0], TWO, "a", 10)]
    fast = [*on_machine([100.0, 102.0], ONE, "b", 20), *on_machine([197.0, 198.0], TWO, "b", 30)]
    (point,) = scaling_of([*slow, *fast]).points
    assert 0.945 < point.efficiency_lower < point.efficiency < point.efficiency_upper < 1.01
    # A side that only one machine measured says nothing about the other machine.
    (half,) = scaling_of([*slow, *on_machine([100.0, 102.0], ONE, "b", 20)]).points
    (own,) = scaling_of(slow).points
    assert half.efficiency == pytest.approx(own.efficiency)
    (apart,) = scaling_of([*on_machine([50.0, 51.0], ONE, "a", 0), *on_machine([98.0, 99.0], TWO, "b", 10)]).points
    assert apart.efficiency == pytest.approx(own.efficiency), "no machine has both sides"


def test_an_efficiency_holds_at_every_look_of_a_study_that_may_end_after_any():
    """With a true efficiency of exactly 1, studies end as soon as an interval excludes it: rarely, where every look counts."""
    generator, studies, most = np.random.default_rng(3), 300, 8

    def is_wrong(alone: Sequence[float], together: Sequence[float], schedule: Schedule) -> bool:
        _, lower, upper = efficiency(alone, together, 2, 0.95, schedule=schedule)
        return known(lower) > 1.0 or known(upper) < 1.0

    wrong = {EVERY_REPEAT: 0, ONCE: 0}
    for _ in range(studies):
        alone, together = np.exp(0.02 * generator.standard_normal((2, most))).tolist()
        for schedule in wrong:
            wrong[schedule] += any(
                is_wrong(alone[:n], [2.0 * fps for fps in together[:n]], schedule) for n in range(3, most + 1)
            )
    assert wrong[EVERY_REPEAT] <= binom.ppf(0.999, studies, 0.05)
    assert wrong[ONCE] > binom.ppf(0.999, studies, 0.05), "plain intervals do not: the test would see it"


def test_confidence_of_the_study_counts():
    trials = sides([99.0, 100.0, 101.0], [188.0, 190.0, 192.0])
    wide, narrow = (scaling_of(trials, confidence=share).points[0] for share in (0.99, 0.80))
    assert wide.efficiency_lower < narrow.efficiency_lower < narrow.efficiency


@pytest.mark.parametrize(("alone", "together"), [([100.0], [190.0] * 3), ([100.0] * 3, [190.0]), ([100.0], [190.0])])
def test_one_repeat_on_a_side_has_no_interval(alone: list[float], together: list[float]):
    (point,) = scaling_of(sides(alone, together)).points
    assert (point.efficiency_lower, point.efficiency_upper) == (None, None)
    assert "(efficiency 95%, one repeat: no interval)" in point_statement(point)


def test_two_wild_repeats_stay_finite():
    verdict = judged(sides([1e-9, 1e9], [1e-9, 1e9]))
    assert "over 1,000%" in scaling_statement(verdict.scaling[0])
    assert Verdict.model_validate_json(canonical_json(verdict)) == verdict


def test_points_are_paired_by_num_envs_of_each_rank_horizon_and_batch():
    trials = [
        *fps_trials({32: [100.0], 64: [150.0]}, **ONE),
        *fps_trials({64: [270.0], 128: [300.0]}, **TWO),
        *fps_trials({64: [80.0]}, **ONE | {"horizon": 16, "first": 20}),
        *fps_trials({64: [160.0]}, **TWO | {"horizon": 16, "first": 120}),
        *fps_trials({64: [70.0]}, **ONE | {"batch_size": None, "first": 30}),
        *fps_trials({64: [105.0]}, **TWO | {"batch_size": None, "first": 130}),
    ]
    scaling = scaling_of(trials)
    assert {(p.horizon, p.batch_size, p.num_envs): round(p.efficiency, 3) for p in scaling.points} == {
        (8, None, 64): 0.75, (8, 128, 64): 0.9, (16, 128, 64): 1.0
    }  # fmt: skip
    assert scaling_statement(scaling) == (
        "2 GPUs give 1.80 times one GPU's FPS at 64 environments each, horizon 8, batch 128"
        " (efficiency 90%, one repeat: no interval); 75% to 100% over 3 points"
    )


def test_all_out_of_memory_is_no_efficiency():
    trials = [*fps_trials({64: [100.0]}, **ONE), a_trial(64, number=200, arm="two", gpus=2, device=GPU, status="oom")]
    scaling = scaling_of(trials)
    assert (scaling.points, scaling_notes(scaling)) == ([], [])
    assert scaling_statement(scaling) == "no efficiency: no point is timed on 2 GPUs and on one GPU (arm one)"
    assert scaling_statement(scaling_of([])) == scaling_statement(scaling)


def test_trials_of_learning_do_not_count():
    learned = a_trial(64, number=200, arm="two", gpus=2, device=GPU, kind="learning", seconds=5.0)
    assert scaling_of([*sides([100.0], [190.0]), learned]).points[0].repeats_all_ranks == 1


def test_slowest_rank_is_the_median_over_trials():
    slowdowns = [(1.0, 1.0, 1.0, 1.0), (1.0, 1.25, 1.1, 1.0), (1.0, 2.0, 1.0, 1.5)]
    trials = [a_trial(64, number=i, arm="four", gpus=4, device=GPU, slowdown=s) for i, s in enumerate(slowdowns)]
    scaling = scaling_of(trials, {"four": {"gpus": 4}})
    assert "the slowest GPU collects at 80% of the fastest one's FPS" in scaling_notes(scaling)


def arms(**sections: dict[str, object]) -> dict[str, ArmSettings]:
    return {name: arm_settings(arm) for name, arm in a_study(arms=sections).arms.items()}


def test_partner_differs_in_its_ranks_alone():
    other, less = {"overrides": {"agent.x": 1}}, {"memory": {"mixed_precision": True}}
    alone: dict[str, dict[str, object]] = {"a": {"gpus": 1}, "b": {"gpus": 1, **other}}
    study = arms(**alone, two_a={"gpus": 2}, two_b={"gpus": 2, **other}, two_c={"gpus": 2, **less})
    assert [partner_of(arm, study) for arm in ("two_a", "two_b", "two_c")] == ["a", "b", None]


def test_a_gpu_is_not_compared_with_the_cpu():
    study = arms(cpu={"gpus": 0}, gpu={"gpus": 1}, two_gpus={"gpus": 2}, two_ranks={"gpus": 0, "cpu_ranks": 2})
    assert (partner_of("two_gpus", study), partner_of("two_ranks", study)) == ("gpu", "cpu")
    assert partner_of("two_gpus", arms(cpu={"gpus": 0}, two_gpus={"gpus": 2})) is None
    assert partner_of("two_ranks", arms(gpu={"gpus": 1}, two_ranks={"gpus": 0, "cpu_ranks": 2})) is None


def test_auto_is_a_partner_unless_another_says_what_it_is():
    assert partner_of("two", arms(stock={}, two={"gpus": 2})) == "stock"
    assert partner_of("two", arms(auto={}, one={"gpus": 1}, two={"gpus": 2})) == "one"


def test_auto_that_ran_elsewhere_is_not_compared():
    trials = [*fps_trials({64: [10.0]}, arm="stock", device=CPU), *fps_trials({64: [190.0]}, **TWO)]
    scaling = scaling_of(trials, {"stock": {}, "two": {"gpus": 2}})
    assert scaling.points == []
    assert (
        scaling_statement(scaling) == "no efficiency: this arm ran on NVIDIA H100 80GB HBM3, and arm stock on AMD EPYC"
    )


def test_without_a_partner_the_verdict_says_what_to_add_and_one_rank_has_no_scaling():
    verdict = judged(fps_trials({64: [190.0]}, **TWO), {"two": {"gpus": 2}})
    (scaling,), (arm,) = verdict.scaling, verdict.arms
    assert (scaling.partner, scaling.points) == (None, [])
    assert scaling_statement(scaling) == "no efficiency: no arm of the study is this one on one GPU"
    add = "for the scaling efficiency of 2 GPUs run a study (of another name) with one arm more, like two but with `gpus: 1`"
    assert add in scaling_notes(scaling) and add not in arm_notes(arm)
    (on_cpu,) = judged([], {"ranks": {"gpus": 0, "cpu_ranks": 2}}).scaling
    assert scaling_notes(on_cpu)[0].endswith("like ranks but with `cpu_ranks: 1`")
    assert decide(records_of(fps_trials({64: [190.0]})), a_study()).scaling == []


def test_ranks_on_a_cpu_are_called_ranks():
    ranked = {"one": {"gpus": 0}, "two": {"gpus": 0, "cpu_ranks": 2}}
    several = fps_trials({64: [120.0]}, arm="two", gpus=0, cpu_ranks=2, first=10)
    scaling = scaling_of([*fps_trials({64: [100.0]}, arm="one", gpus=0), *several], ranked)
    assert scaling_statement(scaling).startswith("2 ranks give 1.20 times one rank's FPS at 64 environments each")


def coverage(truth: float, noise: tuple[float, float], repeats: tuple[int, int]) -> float:
    """Return the share of simulated studies whose 95% interval holds the true efficiency of four ranks.

    `noise` has the standard deviation of ln FPS of one rank, and of four.
    """
    generator = np.random.default_rng(11)
    covered = 0
    for _ in range(STUDIES):
        alone = 1000.0 * np.exp(noise[0] * generator.standard_normal(repeats[0]))
        four = 4 * truth * 1000.0 * np.exp(noise[1] * generator.standard_normal(repeats[1]))
        _, lower, upper = efficiency(alone.tolist(), four.tolist(), 4, 0.95)
        covered += known(lower) <= truth <= known(upper)
    return covered / STUDIES


@pytest.mark.parametrize("repeats", [2, 3, 5])
@pytest.mark.parametrize(
    "noise", [(0.02, 0.02), (0.01, 0.06), (0.06, 0.01)], ids=["alike", "four noisier", "one noisier"]
)
@pytest.mark.parametrize("truth", [0.55, 1.0])
def test_intervals_cover_the_truth(truth: float, noise: tuple[float, float], repeats: int):
    assert coverage(truth, noise, (repeats, repeats)) >= 0.93


def test_two_noisy_repeats_against_five_are_the_known_weakness_of_welch():
    assert 0.88 <= coverage(1.0, (0.06, 0.01), (2, 5)) < 0.93
    assert coverage(1.0, (0.01, 0.06), (2, 5)) >= 0.93


def test_a_loss_is_seen_where_there_is_one():
    # Covering is easy with wide intervals: 5 repeats with 1% noise must tell 95% from 100% nearly always.
    generator = np.random.default_rng(13)
    seen = 0
    for _ in range(200):
        alone, together = (fps * np.exp(0.01 * generator.standard_normal(5)) for fps in (100.0, 190.0))
        _, _, upper = efficiency(alone.tolist(), together.tolist(), 2, 0.95)
        seen += upper is not None and upper < 1.0
    assert seen >= 0.95 * 200
