"""What MLflow is to show of a study, before any store: the best trial, what devices took, and the page's first view."""

import json

import pytest
from envknee.record.read import load_record, read_rows
from envknee.tracking.arms import best_trial, describe_study
from envknee.tracking.describe import describe_trial
from envknee.tracking.system import system_metrics
from envknee.tracking.view import view_of
from envknee.tracking.writing import results_id
from published import PUBLISHED
from records import CPU, GPU, LEARNING, a_study, a_trial, known, records_of, write_study


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
        "Best single trial: 0002, CPU · 16 envs · T8 · B128 · learning · repeat 2 (artifacts: best)."
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
    assert "3 of 3 trials have finished: 3 ok." in arms["stock"].tags["mlflow.note.content"]


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


@pytest.mark.parametrize("learning", [True, False])
def test_the_first_view_has_the_charts_that_a_study_can_fill(learning):
    study = a_study(**({"learning": LEARNING} if learning else {}))
    text = view_of(study)
    assert len(text) < 5000  # MLflow's limit for a tag of an experiment
    view = json.loads(text)
    charts = [(chart["type"], chart.get("metricKey"), chart.get("xAxisKey")) for chart in view["compareRunCharts"]]
    assert charts.count(("PARALLEL", None, None)) == (2 if learning else 1)
    assert (("LINE", "reward_average", "step") in charts) == learning
    assert ("LINE", "fps_total", "step") in charts
    sections = {section["uuid"] for section in view["compareRunSections"]}
    assert {chart["metricSectionId"] for chart in view["compareRunCharts"]} == sections


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
