"""What a study would measure and could show, before anything runs: points, power, and the noise that is assumed."""

import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from envknee.ask.plan import Elsewhere, earlier_records, plan_of
from envknee.base.point import Point
from envknee.run.workers import check_devices
from envknee.study.errors import UserError
from envknee.study.load import parse_study
from envknee.verdict import throughput
from envknee.verdict.noise import assumed_cv, gain_interval, measured_cv
from envknee.verdict.power import enough_repeats, power
from envknee.verdict.rule.schedule import EVERY_REPEAT, Schedule, as_planned
from envknee.verdict.schema.plan import Power, StudyPlan
from envknee.words.plan import plan_lines
from places import ROOT
from records import CPU, a_study, fps_trials, known, records_of, write_study
from scipy.stats import ttest_ind, ttest_rel

SWEEP = {"num_envs": {"from": 512, "to": 4096}, "horizon": 32, "batch_size": "library", "repeats": 3}

PAGE = ROOT / "tests/fixtures/plan.txt"
"""All that `envknee plan` prints of one study."""


def a_plan(on_cpu: bool = False, **changes) -> StudyPlan:
    data = {"study": "x", "arms": {"stock": {"gpus": 1}}, "throughput": SWEEP | changes.pop("sweep", {})} | changes
    return plan_of(parse_study(data), on_cpu=on_cpu)


def lines_on(gpus: int, sweep: dict[str, Any], **changes: Any) -> list[str]:
    """Return the plan of a study on a machine with so many GPUs; 0: with none."""
    data = {"study": "x", "arms": {"stock": {"gpus": 1}}, "throughput": SWEEP | sweep, "window": 4} | changes
    return plan_lines(plan_of(parse_study(data), on_cpu=not gpus, visible_gpus=gpus))


def told_on(gpus: int, **changes: Any) -> str:
    """Return the one line about too few devices."""
    (line,) = (line for line in lines_on(gpus, **changes) if "A sweep refuses that" in line)
    return line


def power_of(**changes) -> Power:
    return known(a_plan(**changes).power)


def test_a_plan_counts_trials_and_points():
    plan = a_plan()
    (section,) = plan.sections
    assert (plan.study, plan.trials, plan.arms) == ("x", 12, ["stock"])
    assert (section.trials, section.points, section.repeats, section.measured_again) == (12, 4, 3, 0)
    assert (section.num_envs, section.horizon, section.batch_size) == ([512, 1024, 2048, 4096], [32], None)
    assert (section.sampler, section.chooses_trials, section.rules, section.illegal) == ("grid", False, [], None)
    assert known(plan.power).noise_source == "published GPU studies"


def test_a_plan_says_how_many_workers_measure():
    line = plan_lines(a_plan(sweep={"workers": 2, "sampler": "tpe"}))[1]
    assert line.endswith("batch_size library; 2 workers")


def test_a_plan_says_when_this_machine_has_too_few_devices_for_its_workers():
    asked = {"workers": 4, "sampler": "tpe"}
    pairs = {"stock": {"gpus": 2}}
    assert not any("A sweep refuses that" in line for line in lines_on(4, sweep=asked))
    assert "throughput: workers 4 need 4 devices (GPUs, or a CPU as one), and this machine has 2." in told_on(
        2, sweep=asked
    )
    assert told_on(5, sweep=asked, arms=pairs).endswith("Set workers: 2, or measure on a larger machine")
    assert told_on(1, sweep=asked, arms=pairs).endswith("Set workers: 1, or measure on a larger machine")
    assert "need 4 devices (GPUs, or a CPU as one), and this machine has 1." in told_on(
        0, sweep=asked, arms={"stock": {"gpus": 0}}
    )
    assert not any("A sweep refuses that" in line for line in lines_on(0, sweep=asked)), "a login node has no GPU"


def test_a_plan_for_a_cluster_counts_the_devices_there_and_none_of_the_login_node():
    study = parse_study(
        {"study": "x", "arms": {"stock": {}}, "throughput": SWEEP | {"workers": 4, "sampler": "tpe"}, "window": 4}
    )

    def told(elsewhere: Elsewhere) -> list[str]:
        return [line for line in plan_lines(plan_of(study, on_cpu=True, elsewhere=elsewhere)) if "refuses" in line]

    assert told(Elsewhere(4, "site")) == []
    (line,) = told(Elsewhere(2, "site"))
    assert line.endswith("and max_gpus of the site is 2. A sweep refuses that. Set workers: 2, or raise max_gpus")
    (line,) = told(Elsewhere(3, "allocation"))
    assert line.endswith("and these nodes have 3. A sweep refuses that. Set workers: 3, or ask for more nodes")


@pytest.mark.parametrize("gpus", ["auto", 0, 1, 2])
@pytest.mark.parametrize("here", [1, 2, 3, 4, 8])
def test_a_plan_and_a_sweep_agree_on_the_devices_of_workers(gpus: Any, here: int):
    asked, arms = {"workers": 4, "sampler": "tpe"}, {"stock": {"gpus": gpus}}
    is_told = any("A sweep refuses that" in line for line in lines_on(here, sweep=asked, arms=arms))
    study = parse_study({"study": "x", "arms": arms, "throughput": SWEEP | asked, "window": 4})
    with pytest.raises(UserError, match="throughput.workers 4 need") if is_told else nullcontext():
        check_devices(study, here, "use a larger machine")


def test_equal_repeats_are_no_noise():
    records = records_of(fps_trials({32: [100.0, 100.0], 64: [200.0, 200.0]}))
    power = known(plan_of(parse_study({"study": "x", "arms": {"stock": {}}, "throughput": SWEEP}), records).power)
    assert power.noise_source == "published GPU studies"


def test_a_plan_names_the_settings_of_the_task_that_the_study_changes():
    assert not any(line.startswith("Task ") for line in plan_lines(a_plan()))
    line = plan_lines(a_plan(task="cartpole_toy"))[1]
    assert line.startswith("Task Isaac-Cartpole-Camera-Direct; the study sets env.scene.tiled_camera.width 28, ")
    assert line.endswith("env.episode_length_s 0.75, agent.algorithm.learning_rate 0.003")


def test_the_page_of_a_plan():
    learning = {"num_envs": 64, "horizon": 16, "batch_size": 512, "target_reward": 1, "budget_s": 9, "repeats": 5}
    rule = {"rule": "linear_lr", "num_envs": 32, "learning_rate": 1e-3, "epochs": 4}
    arms = {"one": {"gpus": 0}, "linear": {"gpus": 0, "scaling": rule}}
    sweep = {"num_envs": [24, 32, 64], "horizon": 16, "batch_size": 512, "block": "all"}
    assert (
        plan_lines(a_plan(on_cpu=True, sweep=sweep, learning=learning, arms=arms))
        == PAGE.read_text(encoding="utf-8").splitlines()
    )


@pytest.mark.parametrize("repeats", [1, 2])
def test_too_few_repeats_decide_nothing_and_enough_are_named(repeats: int):
    power = power_of(on_cpu=True, sweep={"repeats": repeats})
    assert (power.repeats, power.least_repeats, power.plateau_shown, power.enough_repeats) == (repeats, 3, 0.0, 24)


def test_more_repeats_show_more_and_a_cpu_is_noisier():
    shares = [power_of(sweep={"repeats": repeats}).plateau_shown for repeats in (3, 5, 8)]
    assert shares == sorted(shares) and shares[0] < shares[-1]
    on_cpu = power_of(on_cpu=True)
    assert (on_cpu.cv, on_cpu.noise_source) == (0.11, "published CPU studies")


def test_blocks_that_hold_the_last_doubling_have_fewer_degrees_of_freedom():
    """Five processes leave four degrees of freedom, and five fresh repeats of both ends eight: the same noise shows less."""
    sizes = {"repeats": 5, "num_envs": [512, 1024, 2048, 4096]}
    fresh, whole, halves, alone, small, large = (
        power_of(sweep=sizes | blocks, on_cpu=True)
        for blocks in (
            {"block": 1}, {"block": "all"}, {"block": 2}, {"block": 3},
            {"block": "all", "fresh_below": 2048}, {"block": "all", "fresh_below": 4096},
        )
    )  # fmt: skip
    assert not fresh.paired and whole.paired
    assert whole.plateau_shown < fresh.plateau_shown
    assert halves == alone == whole == small, "4 = 2 + 2 points: the two largest share a process"
    assert large == fresh
    (blocks,) = a_plan(sweep=sizes | {"block": "all"}).sections
    assert (blocks.trials, blocks.points, blocks.measured_again) == (25, 4, 5)


def test_one_size_is_no_doubling_and_has_no_power():
    plan = a_plan(sweep={"num_envs": 512})
    assert (plan.has_doubling, plan.power) == (False, None)
    assert "list at least two" in plan_lines(plan)[-1]


def test_points_whose_batch_does_not_divide_the_rollout_are_listed():
    def illegal(**changes):
        return a_plan(**changes).sections[0].illegal

    sizes = {"num_envs": [16, 32], "horizon": [8, 16], "batch_size": [256, 512]}
    found = known(illegal(sweep=sizes))
    assert (found.points, found.listed, found.several_ranks) == (
        [Point(16, 8, 256), Point(16, 8, 512), Point(16, 16, 512), Point(32, 8, 512)], 8, False
    )  # fmt: skip
    assert illegal(sweep=sizes | {"batch_size": 128}) is None
    assert illegal(sweep=sizes | {"batch_size": "library"}) is None
    assert known(illegal(arms={"two": {"gpus": 2}}, sweep=sizes | {"batch_size": [512, 1024]})).several_ranks


def test_earlier_studies_of_this_machine_say_how_large_noise_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    trials = fps_trials({16: [100.0, 110.0, 90.0], 32: [150.0, 160.0, 140.0]})
    folder = write_study(tmp_path / "earlier", a_study(), trials)
    environment = records_of(trials)[0].outcome.environment
    assert environment is not None and environment.device == CPU
    host = environment.host
    monkeypatch.setattr("socket.gethostname", lambda: host)
    study = a_study()
    earlier = earlier_records(folder.root.parent, study, [])
    assert len(earlier) == len(trials)
    power = known(plan_of(study, earlier, on_cpu=True).power)
    assert (round(power.cv, 3), power.noise_source) == (0.085, "this machine")
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert earlier_records(folder.root.parent, study, []) == []


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize(("cv", "repeats"), [(0.05, 3), (0.10, 8)])
def test_power_is_the_share_of_simulated_studies_that_show_a_plateau(cv: float, repeats: int, paired: bool):
    rng = np.random.default_rng(1)
    smaller, larger = cv * rng.standard_normal((2, 4000, repeats))
    test = ttest_rel if paired else ttest_ind
    _, p_values = np.asarray(test(larger, smaller + math.log1p(0.15), axis=1, alternative="less"))
    shown = p_values <= 0.025
    assert power(repeats, cv, 0.15, 0.95, paired) == pytest.approx(float(shown.mean()), abs=0.03)


@pytest.mark.parametrize("schedule", [EVERY_REPEAT, as_planned(5)])
def test_power_counts_the_looks_at_a_study(schedule: Schedule) -> None:
    rng, repeats = np.random.default_rng(2), 5
    decided = 0
    for _ in range(1000):
        logs = 0.05 * rng.standard_normal((2, repeats))
        fps = {size: np.exp(logs[place]).tolist() for place, size in enumerate((32, 64))}
        decided += throughput.decision_of(fps, 0.15, 0.95, schedule=schedule).state == "reached"
    assert power(repeats, 0.05, 0.15, 0.95, schedule=schedule) == pytest.approx(decided / 1000, abs=0.04)


def test_repeats_after_the_last_look_add_nothing() -> None:
    planned = as_planned(3)
    assert power(7, 0.05, 0.15, 0.95, schedule=planned) == power(5, 0.05, 0.15, 0.95, schedule=planned)


def test_two_repeats_decide_nothing_and_enough_is_the_first_number_that_does():
    assert power(2, 0.05, 0.15, 0.95) == 0.0
    enough = known(enough_repeats(0.05, 0.15, 0.95))
    assert power(enough - 1, 0.05, 0.15, 0.95) < 0.8 <= power(enough, 0.05, 0.15, 0.95)
    assert enough_repeats(0.5, 0.10, 0.95) is None


def test_noise_falls_where_environments_fill_the_iteration():
    assert assumed_cv(1e9, 500.0) == pytest.approx(0.011, abs=1e-4)
    # Half of the time is fixed: 14% of it, and 1.1%.
    assert assumed_cv(500.0, 500.0) == pytest.approx(math.hypot(0.07, 0.011))
    assert assumed_cv(500.0, None) == pytest.approx(math.hypot(0.14, 0.011))


def test_an_interval_of_one_ratio_by_hand_and_noise_from_repeats():
    # Student's t on 8 degrees of freedom at 97.5% is 2.306.
    lower, upper = gain_interval(0.1, [0.03, 0.04], 0.95)
    assert (lower, upper) == pytest.approx((0.1 - 2.306 * 0.05, 0.1 + 2.306 * 0.05), abs=1e-4)
    assert measured_cv([[1.0], [2.0]]) is None
    assert measured_cv([[1.0, math.exp(0.02)], [5.0]]) == pytest.approx(0.02 / math.sqrt(2))
