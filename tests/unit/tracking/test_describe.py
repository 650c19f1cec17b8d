"""What MLflow is to show of a study, before any store: the best trial, what devices took, its settings, numbers and names."""

import re
from pathlib import Path

import joint_study
import pytest
from drawn import with_verdict
from envknee.decide.read import load_study
from envknee.decide.verdict_file import read_verdict
from envknee.record.read import load_record, read_rows
from envknee.study.arm import Memory
from envknee.study.paths import StudyFolder
from envknee.tracking.arms import best_trial, color_of, describe_study, description_of
from envknee.tracking.describe import describe_trial
from envknee.tracking.system import system_metrics
from envknee.tracking.writing import results_id
from published import PUBLISHED
from records import CPU, GPU, LEARNING, a_study, a_trial, known, learning_trials, records_of, write_study


def test_the_best_trial_is_the_soonest_at_the_target_then_the_best_then_the_fastest():
    fast, slow = a_trial(64, number=1, fps=9000.0), a_trial(16, number=2, fps=10.0)
    censored = a_trial(16, number=3, kind="learning")
    late, soon = (a_trial(16, number=n, kind="learning", seconds=s) for n, s in ((4, 50.0), (5, 40.0)))
    broken = a_trial(16, number=6, status="oom")
    for trials, number in (((fast, late, soon, censored), 5), ((fast, censored, slow), 3), ((slow, broken, fast), 1)):
        assert known(best_trial(records_of(trials))).request.number == number
    assert best_trial([broken.record]) is None


def test_an_arm_has_the_policy_of_its_best_trial_and_what_that_saw(tmp_path):
    study = a_study(learning=LEARNING | {"num_envs": 16, "repeats": 2})
    trials = [
        a_trial(16, number=0),
        a_trial(16, number=1, kind="learning", seconds=50.0),
        a_trial(16, number=2, kind="learning", seconds=40.0, repeat=1),
    ]
    folder = write_study(tmp_path / "demo", study, trials)
    for number in (0, 1):
        folder.trial(number).frames.write_bytes(b"first repeat")
    for number in (1, 2):
        folder.trial(number).policy.write_bytes(b"learned")
    ((arm, runs),) = describe_study(study, folder)
    assert arm.tags["best_trial"] == "0002"
    assert arm.tags["mlflow.note.content"].endswith(
        "Best single trial: 0002, stock · 16 × 8 × 128 · seed 2 (artifacts: best)."
    )
    best = {name: path for name, path in arm.artifacts.items() if name.startswith("best/")}
    assert best == {"best/policy.pt": folder.trial(2).policy, "best/frames.png": folder.trial(1).frames}
    assert ["frames.png" in run.artifacts for run in runs] == [True, True, False]
    assert not [run for run in runs if "policy.pt" in run.artifacts]  # one per arm is enough in the store


def test_trials_that_were_not_needed_are_not_planned(tmp_path):
    sweep = {
        "num_envs": [16, 32], "horizon": 8, "batch_size": 128, "repeats": 3, "sampler": "adaptive", "adaptive": {"trials": 4},
    }  # fmt: skip
    study = a_study(arms={"stock": {}, "other": {}}, throughput=sweep)
    statuses = {"stock": [None, None, "skipped", None], "other": [None, "skipped", "skipped", "skipped"]}
    trials = [
        a_trial(16, number=number, arm=arm, status=status)
        for number, (arm, status) in enumerate((arm, status) for arm in statuses for status in statuses[arm])
    ]
    arms = {arm.tags["arm"]: arm for arm, _ in describe_study(study, write_study(tmp_path / "demo", study, trials))}
    assert {name: arm.tags["trials"] for name, arm in arms.items()} == {"stock": "3 of 3", "other": "1 of 1"}
    assert "3 of 3 trials have finished: 3 measured." in arms["stock"].tags["mlflow.note.content"]


def test_a_process_on_the_cpu_has_a_load_and_memory():
    row = a_trial(16, memory_gb=1.5).rows[0].model_copy(update={"cpu_percent": 180.0})
    assert system_metrics(row, CPU) == {
        "system/process_cpu_percentage": 180.0,
        "system/process_memory_megabytes": 1500.0,
    }


def test_a_trial_has_the_figures_of_its_own_gpus_only():
    row = a_trial(16, memory_gb=21.25, device=GPU).rows[0]
    shown = system_metrics(row.model_copy(update={"gpu_percent": 90.0, "gpu_power_w": 500.0}), GPU)
    assert {name: value for name, value in shown.items() if "gpu" in name} == {
        "system/gpu_0_utilization_percentage": 90.0,
        "system/gpu_0_power_usage_watts": 500.0,
        "system/gpu_0_memory_usage_megabytes": 21_250.0,
        "system/gpu_0_memory_usage_percentage": 25.0,
    }
    ranks = a_trial(16, memory_gb=21.25, device=GPU, gpus=2, batch_size=256).rows[0].ranks or []
    loads = [rank.model_copy(update={"gpu_percent": 80.0 + rank.rank, "cpu_percent": 100.0}) for rank in ranks]
    two = system_metrics(row.model_copy(update={"ranks": loads}), GPU)
    assert [two[f"system/gpu_{rank}_utilization_percentage"] for rank in (0, 1)] == [80.0, 81.0]
    assert (two["system/process_cpu_percentage"], two["system/process_memory_megabytes"]) == (200.0, 4000.0)
    assert two["system/gpu_1_power_usage_watts"] is None and "system/gpu_2_utilization_percentage" not in two


@pytest.mark.parametrize("left", ["", "0123", "another study's\n"])
def test_what_is_no_id_of_a_results_folder_is_replaced_by_one(tmp_path, left):
    path = tmp_path / ".mlflow"
    path.write_text(left)
    with path.open("a+", encoding="utf-8") as identity:
        known_as = results_id(identity)
        assert results_id(identity) == known_as == path.read_text() and len(bytes.fromhex(known_as)) == 16


def test_the_learners_own_gpu_has_curves():
    """A pipeline's memory lies two levels deep in a row."""
    folder = PUBLISHED["cartpole-two-gpu-pipeline"]
    record = load_record(folder.trial(2))
    run = describe_trial(record, folder)
    last = read_rows(folder.trial(2))[-1]
    latest = {metric.key: metric.value for metric in run.metrics if metric.step == last.frames}
    pipeline = known(last.pipeline)
    assert latest["pipeline/learner_s"] == pipeline.learner_s
    assert latest["pipeline/memory/device_used_gb"] == known(pipeline.memory).device_used_gb


def test_a_trial_has_every_setting_those_with_their_default_too(tmp_path):
    run = describe_trial(a_trial(16).record, StudyFolder(tmp_path))
    expected = {
        "arm": "stock", "phases": "sampled", "runtime": "host", "confirms": "false", "deterministic": "false", "nodes": "1",
        "observations": "stock", "memory/on_oom": "record", "memory/mixed_precision": "false", "learning_rate": "task",
    }  # fmt: skip
    assert {name: run.params.get(name) for name in expected} == expected
    other = a_trial(16).asked(memory=Memory(mixed_precision=True), learning_rate=1e-3)
    changed = describe_trial(other.record, StudyFolder(tmp_path)).params
    assert (changed["memory/mixed_precision"], changed["learning_rate"]) == ("true", "0.001")
    assert set(changed) == set(run.params)  # so that two runs can be compared in each


def test_each_result_of_a_trial_has_one_name(tmp_path):
    trial = a_trial(16, kind="learning", seconds=40.0, memory_gb=1.25)
    folder = write_study(tmp_path / "demo", a_study(learning=LEARNING), [trial])
    latest = {metric.key: metric.value for metric in describe_trial(load_record(folder.trial(0)), folder).metrics}
    assert (latest["seconds_to_target"], latest["memory_gb"]) == (40.0, 1.25)
    named = [name for name in latest if name.endswith(("fps_total_median", "memory_peak_gb", "seconds_to_target"))]
    assert named == ["seconds_to_target"]


def test_an_arm_has_its_seconds_to_target_under_the_name_that_trials_have(tmp_path):
    study = a_study(throughput=None, learning=LEARNING | {"repeats": 2})
    seconds = {16: [50.0, 52.0], 32: [40.0, 42.0]}
    folder = with_verdict(write_study(tmp_path / "demo", study, learning_trials(seconds)))
    ((arm, _),) = describe_study(study, folder)
    numbers = {metric.key: metric.value for metric in arm.metrics}
    assert numbers["seconds_to_target"] == pytest.approx(41.0)
    assert (numbers["verdict/soonest_num_envs"], numbers["verdict/soonest_batch_size"]) == (32.0, 128.0)


def test_an_arm_whose_seeds_all_missed_the_target_has_no_seconds(tmp_path):
    study = a_study(throughput=None, learning=LEARNING | {"num_envs": 16})
    folder = with_verdict(write_study(tmp_path / "demo", study, learning_trials({16: [None]})))
    ((arm, _),) = describe_study(study, folder)
    assert "seconds_to_target" not in {metric.key for metric in arm.metrics}


def test_arms_have_colours_of_their_own_in_the_order_of_the_study_file():
    study = a_study(arms={"stock": {}, "lean": {}})
    first, second = color_of(study, "stock"), color_of(study, "lean")
    assert first is not None and second is not None and first != second
    assert color_of(study, "lost from the file") is None
    assert color_of(a_study(), "stock") is None  # MLflow's own colours tell its settings apart


def a_joint_folder(root: Path) -> StudyFolder:
    study = joint_study.a_study(trials=24, confirm={"settings": 3, "seeds": 3})
    return with_verdict(write_study(root, study, joint_study.measured_trials(study)))


def test_the_description_has_the_joint_answer_of_each_arm(tmp_path):
    folder = a_joint_folder(tmp_path / "s")
    description = description_of(folder)
    assert re.search(
        r"\*\*stock\*\*: soonest: [\d,]+ environments, horizon \d+, batch [\d,]+: \d+\.\d s \(", description
    )
    ((arm, runs),) = describe_study(load_study(folder), folder)
    numbers = {metric.key: metric.value for metric in arm.metrics}
    (found,) = read_verdict(folder).arms[0].joint
    soonest = found.confirmed[known(found.soonest)]
    assert numbers["seconds_to_target"] == soonest.cost
    assert numbers["verdict/soonest_horizon"] == soonest.horizon
    card, _, answer = description.partition("**stock**: ")
    assert arm.tags["mlflow.note.content"].startswith(card.rstrip()), "an only arm has the study's card"
    assert answer in arm.tags["mlflow.note.content"]
    fresh = [run for run in runs if run.params["confirms"] == "true"]
    assert len(fresh) == 3 * 3
