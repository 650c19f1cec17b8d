"""Publishing to a SQLite store: what is logged, that publishing again changes nothing, and what goes wrong."""

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from envknee.decide.study import decide
from envknee.machine.schema import Device, Environment, Image
from envknee.record.read import load_records
from envknee.record.schema import Failure
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking import ui, writing
from envknee.tracking.arms import describe_study
from envknee.tracking.client import MLFLOW_DEFAULTS
from envknee.tracking.describe import STRAGGLERS, describe_trial
from envknee.tracking.mlflow_server import Server
from envknee.tracking.publish import publish
from envknee.tracking.store import check_credentials, check_database, locate_store, trust_address, without_credentials
from envknee.tracking.writing import TAG_CONTENT, TAG_KEY, TAG_PARENT, TAG_RESULTS
from envknee.words.headline import headline_statement, what_would_move_it, why_there
from envknee.words.runs import short_name
from forked import FORK, in_child
from loopback import serving
from programs import python, refused, succeeded, told
from records import CPU, CURVE, known, write_trial
from tracked import (
    a_folder,
    a_run,
    a_study,
    client_of,
    contents,
    downloaded,
    finish,
    history,
    run_of,
    stored_parent,
    stored_runs,
    stored_trial,
    write_config,
)
from tracking_server import free_port

IMAGE = Image(sif_sha256="a1", content_sha256="b2", labels={"org.envknee.git-commit": "def456"})


@pytest.fixture
def study() -> Study:
    return a_study()


@pytest.fixture
def folder(tmp_path: Path, study: Study, empty_store: Path) -> StudyFolder:
    """Six trials of two arms beside a store without runs."""
    folder = six_trials(tmp_path / "results" / "demo", study)
    shutil.copy(empty_store, folder.root.parent / "mlflow.db")
    return folder


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> StudyFolder:
    """The same trials, published once and without any accident, for tests that only look."""
    folder = six_trials(tmp_path_factory.mktemp("results") / "demo", a_study())
    shutil.copy(empty_store, folder.root.parent / "mlflow.db")
    assert publish(a_study(), folder).created == 8
    return folder


def six_trials(root: Path, study: Study) -> StudyFolder:
    """Return the folder of six trials: ok on GPU and CPU, learning with many metrics, out of memory, NaN, refused."""
    overrides = {"env.scene.tiled_camera.width": 64, "env.viewer": None}
    many_losses = {f"part{number}": 0.5 for number in range(40)}
    learning = a_run(2, "stock", "target_reached", kind="learning", losses=many_losses)
    first = learning.rows[0].model_copy(update={"reward_mean": None, "episode_length_mean": None, "episodes": 0})
    failure = Failure(iteration=1, tensor="rewards", env_indices=[3], dump="nan.npz")
    trials = (
        a_run(0, "stock", "ok").asked(overrides=overrides).ended(environment=on_h100(image=IMAGE)),
        a_run(1, "lean", "ok", device=CPU, num_envs=64),
        replace(learning, rows=[first, *learning.rows[1:]]),
        a_run(3, "stock", "oom"),
        a_run(4, "lean", "nan").ended(failure=failure),
        a_run(5, "lean", "refused"),
    )
    folder = a_folder(root, study, *trials)
    folder.figures.mkdir()
    (folder.figures / "fps.svg").write_text("<svg/>")
    folder.records_csv.write_text("number\n0\n")
    folder.report.write_text("<html/>")
    return folder


def on_h100(**changes: Any) -> Environment:
    return known(a_run(0, "stock", "ok").outcome.environment).model_copy(update=changes)


# What is logged


def test_hierarchy_is_experiment_arm_trial_and_names_tell_them_apart(published: StudyFolder) -> None:
    runs = stored_runs(published)
    assert len(runs) == 8  # two arms and six trials
    parents = {run.data.tags["arm"]: run for run in runs if TAG_PARENT not in run.data.tags}
    assert set(parents) == {"stock", "lean"}
    assert {run.info.run_name for run in parents.values()} == {"stock · H100", "lean · CPU, H100"}
    trials = {run.data.tags["trial"]: run for run in runs if TAG_PARENT in run.data.tags}
    for run in trials.values():
        assert run.data.tags[TAG_PARENT] == parents[run.data.tags["arm"]].info.run_id
    assert {number: run.info.run_name for number, run in trials.items()} == {
        "0000": "stock · 2,048 × 32 × 4,096 · FPS · seed 0",
        "0001": "lean · 64 × 32 × 2,048 · FPS · seed 1",
        "0002": "stock · 2,048 × 32 × 4,096 · seed 2",
        "0003": "stock · 2,048 × 32 × 4,096 · FPS · seed 3",
        "0004": "lean · 2,048 × 32 × 4,096 · FPS · seed 4",
        "0005": "lean · 2,048 × 32 × 4,096 · FPS · seed 5",
    }


def test_library_batch_has_a_name_and_a_parameter_and_ranks_on_a_cpu_are_not_called_gpus(tmp_path: Path) -> None:
    run = describe_trial(a_run(0, "stock", "ok", batch_size=None).record, StudyFolder(tmp_path))
    assert run.name == "stock · 2,048 × 32 × library · FPS · seed 0"
    assert run.params["batch_size"] == "4096"  # 2048 x 32 in the 16 mini-batches that the library ran with
    assert run.tags["batch"] == "library"
    refused = a_run(0, "stock", "refused", batch_size=None)
    assert describe_trial(refused.record, StudyFolder(tmp_path)).params["batch_size"] == "library"
    ranks = a_run(0, "stock", "ok", gpus=0, cpu_ranks=2, device=CPU)
    assert (
        describe_trial(ranks.record, StudyFolder(tmp_path)).name == "stock · 2,048 per rank × 32 × 4,096 · FPS · seed 0"
    )


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100"),
        ("NVIDIA H200", "H200"),
        ("A100-SXM4-40GB", "A100"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 3080 Ti", "RTX 3080 Ti"),
        ("Tesla T4", "T4"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA L40S", "L40S"),
        ("Something Else", "Something Else"),
    ],
)
def test_devices_are_called_what_people_call_them(name: str, short: str) -> None:
    assert short_name(Device(type="cuda", name=name, uuid=None, memory_gb=80.0)) == short


def test_parameters_and_tags(published: StudyFolder) -> None:
    run = stored_trial(published, "0000")
    params = run.data.params
    assert params["arm"] == "stock" and params["phases"] == "sampled" and params["learning_rate"] == "task"
    assert params.items() >= {
        "asset": "local", "batch_size": "4096", "env.scene.tiled_camera.width": "64", "env.viewer": "null",
        "gpus": "auto", "horizon": "32", "iterations": "3", "kind": "throughput", "limit_s": "600.0", "num_envs": "2048",
        "num_envs_total": "2048", "world_size": "1", "num_mini_batches": "16", "repeat": "0", "sampler": "grid", "seed": "0",
        "task_id": "Isaac-Cartpole-Camera-Direct", "trainer": "rsl_rl", "warmup_iterations": "1",
    }.items()  # fmt: skip
    tags = run.data.tags
    expected = {
        "status": "ok", "kind": "throughput", "arm": "stock", "trial": "0000", "device": "NVIDIA H100 80GB HBM3",
        "device_type": "cuda", "host": "node1", "git_commit": "0" * 40, "git_dirty": "false",
        "mlflow.source.git.commit": "0" * 40, "version.torch": "2.13.0", "version.python": "3.11.7",
        "image.sif_sha256": "a1", "image.content_sha256": "b2", "image.git-commit": "def456",
    }  # fmt: skip
    assert {name: tags[name] for name in expected} == expected
    nan = stored_trial(published, "0004").data.tags
    assert (nan["failure.iteration"], nan["failure.tensor"], nan["failure.env_indices"]) == ("1", "rewards", "[3]")
    assert nan["mlflow.note.content"] == nan["reason"] == "it ended as nan"


def test_curves_have_frames_as_steps_and_the_time_of_measurement(published: StudyFolder) -> None:
    client, run = client_of(published), stored_trial(published, "0000")
    points = [(m.step, m.timestamp, m.value) for m in client.get_metric_history(run.info.run_id, "fps_total")]
    assert points == [
        # Four iterations of 2048 x 32 frames; each row was measured 2 s after the one before.
        (65536 * row, 1_700_000_000_000 + 2000 * row, 32_768.0)
        for row in (1, 2, 3, 4)
    ]
    curves = {
        "fps_env_step", "fps_env_step_inference", "fps_total", "episodes", "losses/value", "learning_rate", "action_std",
        "memory/rss_gb", "memory/peak_rss_gb", "memory/device_used_gb", "env_step_s", "collect_s", "learn_s", "wall_s", "iteration",
    }  # fmt: skip
    assert curves <= set(run.data.metrics)
    assert "memory/torch_peak_reserved_gb" not in run.data.metrics  # None in every row


def test_rows_without_a_finished_episode_leave_a_gap(published: StudyFolder) -> None:
    client, run = client_of(published), stored_trial(published, "0002")
    steps = [m.step for m in client.get_metric_history(run.info.run_id, "reward_mean")]
    assert steps == [65536 * row for row in range(2, CURVE + 1)]


def test_summary_of_the_record(published: StudyFolder) -> None:
    metrics = stored_trial(published, "0000").data.metrics
    assert metrics["fps"] == 32_768.0
    assert metrics["memory_gb"] == 18.5
    assert metrics["summary/frames"] == 4 * 65536
    assert metrics["summary/setup_s"] == 5.0
    assert "seconds_to_target" not in metrics
    learning = stored_trial(published, "0002").data.metrics
    assert learning["seconds_to_target"] == 2.0 * CURVE
    assert learning["summary/frames_to_target"] == CURVE * 65536
    assert learning["reward_average"] == pytest.approx(4.0)
    assert "reward_average" not in metrics  # a throughput trial has no target
    # One rank has no stragglers, and counts are parameters alone.
    assert not [name for name in metrics if "rank" in name or "world_size" in name or "num_envs" in name]


def test_several_gpus_have_their_slowest_and_fastest_in_every_iteration(study: Study, folder: StudyFolder) -> None:
    finish(folder, 0, "stock", "ok", gpus=2, num_envs=1024, fps=32_768.0, slowdown=(1.0, 1.25))
    publish(study, folder)
    client, run = client_of(folder), stored_trial(folder, "0000")
    params = {name: run.data.params[name] for name in ("num_envs", "num_envs_total", "world_size", "gpus")}
    assert params == {"num_envs": "1024", "num_envs_total": "2048", "world_size": "2", "gpus": "2"}
    assert run.info.run_name == "stock · 1,024 per GPU × 32 × 4,096 · FPS · seed 0"
    # 1,024 x 32 transitions of each; the slower rank collects for 2/3 s, the faster for 2/3 s / 1.25.
    own = 1024 * 32 / (2 / 3)
    curves = {name: client.get_metric_history(run.info.run_id, name) for name in STRAGGLERS}
    slowest, fastest = ([(m.step, m.value) for m in curve] for curve in curves.values())
    assert slowest == [(65536 * row, pytest.approx(own)) for row in (1, 2, 3, 4)]
    assert fastest == [(65536 * row, pytest.approx(1.25 * own)) for row in (1, 2, 3, 4)]
    medians = [run.data.metrics[f"summary/{name}_median"] for name in STRAGGLERS]
    assert medians == pytest.approx([own, 1.25 * own])
    assert not [name for name in run.data.metrics if name.startswith("ranks")]
    assert publish(study, folder).created == 0
    parent = stored_parent(folder, "stock")
    assert parent.info.run_name == "stock · 2 x H100, H100"


def test_every_metric_arrives_where_they_fill_several_calls(published: StudyFolder) -> None:
    described = run_of(a_study(), published, "trials/0002")
    assert len(described.metrics) > 1000  # MLflow's limit for a call
    client, run = client_of(published), stored_trial(published, "0002")
    stored = [(m.key, m.value, m.timestamp, m.step) for key in run.data.metrics for m in history(client, run, key)]
    assert sorted(stored) == sorted(map(tuple, described.metrics))


def test_every_parameter_and_tag_arrives_in_several_calls_under_a_legal_name(study: Study, folder: StudyFolder) -> None:
    overrides = {f"env.field_{number}": "x" * (7000 if number == 0 else 1) for number in range(130)} | {
        "env.list[0]": 1
    }
    environment = on_h100(packages={f"package{number}": "1" for number in range(130)})
    trial = a_run(0, "stock", "ok", losses={"value(clipped)": 1.0})
    write_trial(folder.trial(0), trial.asked(overrides=overrides).ended(environment=environment))
    publish(study, folder)
    run = stored_trial(folder, "0000")
    assert sum(name.startswith("env.field_") for name in run.data.params) == 130
    assert sum(name.startswith("version.package") for name in run.data.tags) == 130
    assert run.data.params["env.field_0"] == "x" * 5999 + "…"  # MLflow's limit is 6000 characters
    assert run.data.params["env.list_0_"] == "1"  # MLflow refuses brackets
    assert run.data.metrics["losses/value_clipped_"] == 1.0


def test_runs_have_the_trials_own_times_and_status(published: StudyFolder) -> None:
    run = stored_trial(published, "0000")
    assert (run.info.start_time, run.info.end_time) == (1_700_000_000_000, 1_700_000_020_000)
    status = {run.data.tags["status"]: run.info.status for run in stored_runs(published) if "status" in run.data.tags}
    finished = {"ok", "target_reached", "oom", "refused"}
    assert status == {**dict.fromkeys(finished, "FINISHED"), "nan": "FAILED"}
    stock = stored_parent(published, "stock")
    assert stock.info.start_time == 1_700_000_000_000
    assert stock.info.end_time == 1_700_000_200_000  # trial 3 started 180 s after trial 0
    assert stock.info.status == "FINISHED"


def test_artifacts_are_the_files_themselves(published: StudyFolder, tmp_path: Path) -> None:
    client = client_of(published)
    trial = stored_trial(published, "0000")
    files = downloaded(client, trial, tmp_path / "trial")
    assert set(files) == {"request.json", "outcome.json", "record.json", "metrics.jsonl"}
    for name, text in files.items():
        assert text == (published.trial(0).root / name).read_bytes()
    refused = downloaded(client, stored_trial(published, "0005"), tmp_path / "refused")
    assert set(refused) == set(files) - {"metrics.jsonl"}
    parent = downloaded(client, stored_parent(published, "lean"), tmp_path / "parent")
    assert set(parent) == {"study.json", "records.csv", "figures/fps.svg"}  # the report is written later
    assert Path(trial.info.artifact_uri).is_relative_to(published.root.parent / "mlartifacts" / "demo")


def test_description_and_metrics_of_an_arm_hold_its_verdict(study: Study, folder: StudyFolder) -> None:
    note = "mlflow.note.content"
    progress = (
        "3 of 6 trials have finished: 1 measured, 1 out of memory, 1 target reached.\n\n"
        "Best single trial: 0002, stock · 2,048 × 32 × 4,096 · seed 2 (artifacts: best)."
    )
    assert run_of(study, folder, "arms/stock").tags[note] == progress
    decided = decide(load_records(folder), study)
    arms = {arm.arm: arm for arm in decided.arms}
    arms["lean"] = arms["lean"].model_copy(update={"headline": None})
    folder.verdict.write_text(canonical_json(decided.model_copy(update={"arms": list(arms.values())})))
    publish(study, folder)
    stock = stored_parent(folder, "stock").data
    arm, headline = arms["stock"], known(arms["stock"].headline)
    recommended, why = headline_statement(arm, headline), why_there(arm, headline)
    said = f"**{recommended}**\n\nWhy there: {why}\n\n{what_would_move_it(arm, headline)}"
    card, separator, last = stock.tags[note].partition(progress)
    assert card.startswith("**Learn soonest**\n\n* run: stock: 2,048 environments") and said in card
    assert (separator, last) == (progress, "")
    assert stock.metrics == {
        "trials": 3.0, "trials_ok": 1.0, "trials_oom": 1.0, "trials_target_reached": 1.0,
        "verdict/num_envs": 2048.0, "verdict/horizon": 32.0, "verdict/batch_size": 4096.0, "fps": headline.fps,
        "verdict/fps_share_of_best": 1.0, "memory_gb": 18.5, "seconds_to_target": 2.0 * CURVE, "verdict/soonest_num_envs": 2048.0,
        "verdict/soonest_horizon": 32.0, "verdict/soonest_batch_size": 4096.0, "verdict/memory_share": headline.memory_share,
        "verdict/wanted_num_envs": 2048.0,
    }  # fmt: skip
    assert "3 of 6 trials" in stored_parent(folder, "lean").data.tags[note]


def test_description_of_the_experiment_is_the_answer_unless_a_person_wrote_another(
    study: Study, folder: StudyFolder
) -> None:
    note = "mlflow.note.content"

    def noted() -> str | None:
        return client_of(folder).get_experiment_by_name("demo").tags.get(note)

    publish(study, folder)
    assert noted() is None  # there is no verdict yet
    decided = decide(load_records(folder), study)
    folder.verdict.write_text(canonical_json(decided))
    publish(study, folder)
    arm = next(arm for arm in decided.arms if arm.arm == "stock")
    answer = f"**stock**: {headline_statement(arm, known(arm.headline))}"
    assert answer in known(noted())
    arms = [arm.model_copy(update={"headline": None}) if arm.arm == "lean" else arm for arm in decided.arms]
    folder.verdict.write_text(canonical_json(decided.model_copy(update={"arms": arms})))
    publish(study, folder)
    written = known(noted())  # our own text is kept up to date
    assert written.startswith("**Learn soonest**") and written.endswith(answer)
    experiment = client_of(folder).get_experiment_by_name("demo").experiment_id
    client_of(folder).set_experiment_tag(experiment, note, "what I think of it")
    publish(study, folder)
    assert noted() == "what I think of it"


def test_half_a_verdict_is_told(study: Study, folder: StudyFolder) -> None:
    folder.verdict.write_text("{")
    with pytest.raises(UserError, match=r"verdict\.json is not a whole, valid Verdict"):
        describe_study(study, folder)


def test_tracking_uri_is_not_among_the_artifacts(folder: StudyFolder) -> None:
    study = a_study(uri="http://user:secret@host")
    folder.study.write_text(canonical_json(study))
    texts = [
        content if isinstance(content, str) else content.read_text()
        for parent, trials in describe_study(study, folder)
        for run in (parent, *trials)
        for content in run.artifacts.values()
    ]
    assert texts and not [text for text in texts if "secret" in text]


# Publishing again


def test_publishing_again_changes_nothing(study: Study, folder: StudyFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(study, folder)
    before, published = contents(folder), folder.published.read_bytes()
    monkeypatch.setattr(writing, "RUNS_PER_PAGE", 3)  # eight runs on three pages
    assert publish(study, folder).created == 0
    assert contents(folder) == before
    assert folder.published.read_bytes() == published
    client_of(folder).log_metric(stored_trial(folder, "0000").info.run_id, "fps_total", 1.0, step=1)
    assert contents(folder) != before  # so the comparison can tell


def test_changed_record_replaces_its_run_at_the_original_time(study: Study, folder: StudyFolder) -> None:
    publish(study, folder)
    old = {run.data.tags[TAG_KEY]: run.info.run_id for run in stored_runs(folder)}
    start = stored_trial(folder, "0001").info.start_time
    finish(folder, 1, "lean", "timeout", device=CPU, num_envs=64)
    assert publish(study, folder).created == 2  # the trial, and the arm that counts how trials ended
    new = {run.data.tags[TAG_KEY]: run.info.run_id for run in stored_runs(folder)}
    assert {key for key in new if new[key] != old[key]} == {"trials/0001", "arms/lean"}
    replaced = stored_trial(folder, "0001")
    assert (replaced.data.tags["status"], replaced.info.start_time) == ("timeout", start)
    for run in stored_runs(folder):  # the other trials of the arm follow to its new parent
        if "trial" in run.data.tags:
            assert run.data.tags[TAG_PARENT] == new[f"arms/{run.data.tags['arm']}"]
    before = contents(folder)
    assert publish(study, folder).created == 0
    assert contents(folder) == before


def test_published_json(study: Study, folder: StudyFolder) -> None:
    publish(study, folder)
    published = json.loads(folder.published.read_text())
    assert folder.published.read_text() == canonical_json(published)
    runs = stored_runs(folder)
    assert published == {
        "schema_version": 1,
        "tracking_uri": f"sqlite:///{folder.root.parent}/mlflow.db",
        "experiment": "demo",
        "experiment_id": runs[0].info.experiment_id,
        "runs": 8,
        "content_sha256": {run.data.tags[TAG_KEY]: run.data.tags[TAG_CONTENT] for run in runs},
        "view": "envknee",
    }


def test_two_machines_with_a_study_of_one_name_keep_each_others_runs(tmp_path: Path, empty_store: Path) -> None:
    study = a_study(uri=f"sqlite:///{shutil.copy(empty_store, tmp_path / 'shared.db')}")
    mine = a_folder(tmp_path / "mine" / "demo", study, a_run(0, "stock", "ok"))
    yours = a_folder(tmp_path / "yours" / "demo", study, a_run(0, "stock", "ok", device=CPU))
    for folder in (mine, yours, mine):
        publish(study, folder)
    runs = stored_runs(mine, f"sqlite:///{tmp_path}/shared.db")
    assert len(runs) == 4
    assert len({run.data.tags[TAG_RESULTS] for run in runs}) == 2


@pytest.mark.parametrize("name", ["it's here", "a :colon", '"two" and 50%', "grün"])
def test_a_folder_of_any_name_holds_a_store(name: str, tmp_path: Path) -> None:
    """MLflow writes the place of its default experiment's files into SQL as it stands."""
    folder = a_folder(tmp_path / name / "demo", a_study(), a_run(0, "stock", "ok"))
    assert publish(a_study(), folder).created == 2
    assert publish(a_study(), folder).created == 0
    default = client_of(folder).get_experiment("0")
    assert unquote(default.artifact_location) == f"file://{tmp_path / name / 'mlartifacts/0'}"


def test_runs_of_others_in_the_experiment_are_left_alone(study: Study, folder: StudyFolder) -> None:
    publish(study, folder)
    client = client_of(folder)
    own = client.create_run(stored_runs(folder)[0].info.experiment_id, run_name="by hand").info.run_id
    publish(study, folder)
    assert client.get_run(own).info.lifecycle_stage == "active"


@pytest.mark.parametrize(
    "call", ["create_experiment:1", "create_run:1", "log_batch:4", "log_artifact:2", "set_terminated:2", "set_tag:1"]
)
def test_killed_publisher_leaves_nothing_behind_once_it_runs_again(
    study: Study, folder: StudyFolder, published: StudyFolder, call: str
) -> None:
    """The publisher is killed (SIGKILL) right after the n-th call of a kind."""
    for killed_after, status in ((call, -signal.SIGKILL), (None, 0)):
        child = in_child(publish, study, folder, killed_after=killed_after)
        child.join(timeout=300)
        assert child.exitcode == status
    assert contents(folder) == contents(published)


def test_several_publishers_make_one_store_and_one_set_of_runs(
    study: Study, folder: StudyFolder, published: StudyFolder
):
    (folder.root.parent / "mlflow.db").unlink()
    other = a_folder(folder.root.parent / "other", a_study(name="other"), a_run(0, "stock", "ok"))
    start = FORK.Barrier(4)

    def publish_at_once(study: Study, folder: StudyFolder) -> None:
        start.wait()
        publish(study, folder)

    children = [in_child(publish_at_once, *own) for own in [(study, folder), (a_study(name="other"), other)] * 2]
    for child in children:
        child.join(timeout=300)
    assert [child.exitcode for child in children] == [0] * 4
    assert contents(folder) == contents(published)
    assert len(stored_runs(other, name="other")) == 2


# What goes wrong


def test_server_that_is_down_is_told_30_s_after_the_imports(folder: StudyFolder, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    succeeded(python("-c", "from mlflow import MlflowClient", timeout=300))
    import_s = time.monotonic() - began
    began = time.monotonic()
    config = write_config(tmp_path, a_study(uri=f"http://user:secret@{address}"))
    done = published_by_command(folder, config, timeout=300)
    assert time.monotonic() - began < 27 + 3 * import_s, "a slow machine imports slowly"
    words = (f"http://{address}", "tracking.uri of the study", f"safe in {folder.root}", "`make publish`")
    assert "secret" not in refused(done, *words, status=2)
    assert not folder.published.exists()


@pytest.mark.timeout(300, func_only=True)
def test_server_that_accepts_and_says_nothing_is_told_within_30_s(folder: StudyFolder, monkeypatch) -> None:
    """With the time-out cut from 10 s to 1 s: the call must be tried twice and then given up."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts for it
        port = silent.getsockname()[1]
        started = time.monotonic()
        with pytest.raises(UserError, match="cannot be used"):
            publish(a_study(uri=f"http://127.0.0.1:{port}"), folder)
        assert time.monotonic() - started >= 2
    assert os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] == "1"


def test_time_limits_stay_below_30_s_together() -> None:
    defaults = {name: int(value) for name, value in MLFLOW_DEFAULTS.items() if value.isdigit()}
    tries = 1 + defaults["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]
    waits = defaults["MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"] * 2**tries
    assert tries * defaults["MLFLOW_HTTP_REQUEST_TIMEOUT"] + waits < 27  # and up to 3 s to import MLflow


@pytest.mark.timeout(300, func_only=True)  # MLflow by itself would try again for an hour
def test_database_server_that_is_down_is_told_at_once(folder: StudyFolder) -> None:
    study = a_study(uri="postgresql://user:secret@127.0.0.1:9/mlflow")
    said = told(lambda: publish(study, folder), "postgresql://127.0.0.1:9/mlflow (tracking.uri of the study)")
    assert "secret" not in said


@pytest.mark.parametrize(
    "uri",
    [
        "localhost:5000", "http//localhost", "http://", "http://host:port", "http://host:70000", "ftp://host/x", "results/mlflow.db",
        "sqlite://mlflow.db", "sqlite:///", "sqlite:///:memory:", "sqlite:////tmp", "sqlite:///a.db?mode=ro", "file:///tmp/mlruns",
        "postgresql:///mlflow", " http://localhost:5000", "http://[::1", "databricks",
    ],
)  # fmt: skip
def test_malformed_uri_is_told(folder: StudyFolder, uri: str) -> None:
    shown = uri.strip().partition("?")[0]
    told(lambda: publish(a_study(uri=uri), folder), "tracking.uri of the study is ", "Expected sqlite:///FILE", shown)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://user:secret@host:1/x?token=secret#secret", "http://host:1/x"),
        ("postgresql+psycopg2://user:se@cr/et@host/db?password=secret", "postgresql+psycopg2://host/db"),
        ("http://user:secret@[::1", "http://[::1"),
        ("sqlite:////a/b@c/mlflow.db", "sqlite:////a/b@c/mlflow.db"),
        ("https://host", "https://host"),
    ],
)
def test_credentials_are_never_shown(uri: str, shown: str) -> None:
    assert without_credentials(uri) == shown


@pytest.mark.parametrize("way", ["a results folder", "MLFLOW_TRACKING_URI", "the user's file", "the user's sweep"])
def test_credentials_go_only_where_the_user_says(folder: StudyFolder, tmp_path: Path, monkeypatch, way: str) -> None:
    """A study names a server, which listens: what it is sent, and with which sign-in."""
    with listener() as (uri, heard):
        study = a_study(uri=uri)
        folder.study.write_text(canonical_json(study))
        config = write_config(tmp_path, study) if way == "the user's file" else folder.study
        if way == "MLFLOW_TRACKING_URI":
            monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{uri}/")
        if way == "the user's sweep":
            monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://to.be.replaced")
            trust_address(study, ["config/mine.yaml"])
        elif way == "a results folder":
            monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mine.example:5000")
            trust_address(study, [folder.study])  # changes nothing
        for name in ("USERNAME", "PASSWORD"):
            monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", "hunter2")
        errors = published_by_command(folder, config, timeout=120).stderr
        if way == "a results folder":
            assert heard == []
            assert f"nothing was sent. If they are, set MLFLOW_TRACKING_URI={uri} and" in errors
            for name in ("USERNAME", "PASSWORD"):
                monkeypatch.delenv(f"MLFLOW_TRACKING_{name}")
            published_by_command(folder, config, timeout=120)
            assert heard and set(heard) == {None}
        else:
            assert heard and set(heard) == {"Basic aHVudGVyMjpodW50ZXIy"}


def test_a_results_folder_makes_no_database_elsewhere(folder: StudyFolder, tmp_path: Path, monkeypatch) -> None:
    """Only its user's word makes one: the folder may come from somebody else."""
    elsewhere = tmp_path / "elsewhere/new.db"
    elsewhere.parent.mkdir()
    study = a_study(uri=f"sqlite:///{elsewhere}")
    folder.study.write_text(canonical_json(study))
    errors = refused(published_by_command(folder, folder.study, timeout=120), status=2)
    assert f"names the tracking store sqlite:///{elsewhere}, a file outside {folder.root.parent}: nothing was" in errors
    assert list(elsewhere.parent.iterdir()) == []
    ui = ("-m", "envknee.tracking", folder.root, "--config", folder.study, "--ui")
    refused(python(*ui, timeout=120), "a file outside", status=2)
    assert list(elsewhere.parent.iterdir()) == []
    check_database(study, write_config(tmp_path, study), folder)  # the user's own file
    check_database(a_study(uri=f"sqlite:///{folder.root.parent}/sub/mine.db"), folder.study, folder)
    told(
        lambda: check_database(a_study(uri=f"sqlite:///{folder.root.parent}/../x.db"), folder.study, folder),
        "a file outside",
    )
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{elsewhere}")
    check_database(study, folder.study, folder)


def test_credentials_in_mlflows_own_file_and_of_databases_count_too(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    study, results = a_study(uri="https://elsewhere.example"), Path("results/demo/study.json")
    check_credentials(study, results)
    (tmp_path / ".mlflow").mkdir()
    (tmp_path / ".mlflow/credentials").write_text("[mlflow]\nmlflow_tracking_username = me\n")
    with pytest.raises(UserError, match=r"credentials \(~/.mlflow/credentials\)"):
        check_credentials(study, results)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://elsewhere.example:443/path")
    check_credentials(study, results)
    for uri in ("sqlite:///mlflow.db", None):
        check_credentials(a_study(uri=uri), results)
    database = a_study(uri="postgresql+psycopg2://me@elsewhere.example/runs")
    check_credentials(database, results)
    monkeypatch.setenv("PGPASSWORD", "hunter2")
    assert "hunter2" not in told(lambda: check_credentials(database, results), "credentials (PGPASSWORD)")


def test_store_is_the_studys_then_the_environments_then_beside_the_results(folder: StudyFolder, monkeypatch) -> None:
    results = folder.root.parent
    default = locate_store(a_study(), folder)
    assert (default.uri, default.artifacts) == (f"sqlite:///{results}/mlflow.db", results / "mlartifacts")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://server:5000")
    server = locate_store(a_study(), folder)
    assert (server.uri, server.artifacts, server.database) == ("http://server:5000", None, None)
    own = locate_store(a_study(uri="sqlite:///own.db"), folder)
    assert own.database == Path("own.db").absolute()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nonsense")
    with pytest.raises(UserError, match="environment variable MLFLOW_TRACKING_URI is 'nonsense'"):
        locate_store(a_study(), folder)


def test_store_in_a_folder_with_an_odd_name(tmp_path: Path, study: Study) -> None:
    folder = a_folder(tmp_path / "my results, 100%25 é#1" / "demo", study, a_run(0, "stock", "ok"))
    publish(study, folder)
    before = contents(folder)
    assert publish(study, folder).created == 0
    assert contents(folder) == before
    assert (folder.root.parent / "mlflow.db").exists()
    assert downloaded(client_of(folder), stored_trial(folder, "0000"), tmp_path / "got")["request.json"]


@pytest.mark.timeout(300, func_only=True)  # MLflow by itself would try again for an hour
@pytest.mark.parametrize(
    "rest", [b"no database, but text that is long enough" * 100, b"SQLite format 3\0" + b"garbage" * 500]
)
def test_store_that_is_no_database_is_told_at_once(study: Study, folder: StudyFolder, rest: bytes) -> None:
    (folder.root.parent / "mlflow.db").write_bytes(rest)
    words = r"mlflow\.db \(the default\) cannot be used .*: file is not a database.*Move that file away"
    with pytest.raises(UserError, match=words):
        publish(study, folder)


def test_store_that_was_moved_is_refused_and_can_be_made_anew(
    study: Study, folder: StudyFolder, tmp_path: Path, empty_store: Path
) -> None:
    publish(study, folder)
    (tmp_path / "results").rename(tmp_path / "moved")
    shutil.copy(empty_store, tmp_path / "moved" / "mlflow.db")
    assert publish(study, StudyFolder(tmp_path / "moved" / "demo")).created == 8
    (tmp_path / "moved").rename(tmp_path / "again")
    with pytest.raises(UserError, match="moved or copied"):
        publish(study, StudyFolder(tmp_path / "again" / "demo"))


def test_deleted_experiment_is_not_brought_back(study: Study, folder: StudyFolder) -> None:
    publish(study, folder)
    client_of(folder).delete_experiment(stored_runs(folder)[0].info.experiment_id)
    with pytest.raises(UserError, match="mlflow experiments restore"):
        publish(study, folder)


def test_another_studys_results_and_those_of_none_are_refused(folder: StudyFolder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="another study"):
        publish(a_study(seed=99), folder)
    with pytest.raises(UserError, match=r"no finished trial.*Run the sweep"):
        publish(a_study(), a_folder(tmp_path / "nothing" / "demo", a_study()))


# The UI's command line; tests/workflow/tracking/test_mlflow_ui.py looks at the pages


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Server, str]]:
    """The servers that would have been started, each with what it would have said."""
    servers: list[tuple[Server, str]] = []
    monkeypatch.setattr(Server, "become", lambda *arguments: servers.append(arguments))
    return servers


def test_ui_leads_to_the_studys_runs(published: StudyFolder, started: list[tuple[Server, str]], capsys) -> None:
    ui.open_ui(a_study(), published, None)
    experiment = stored_runs(published)[0].info.experiment_id
    page = (
        f"experiments/{experiment}/runs?workflowType=machine_learning&compareRunsMode=CHART&viewStateShareKey=envknee"
    )
    ((server, said),) = started
    assert said.splitlines()[-1] == f"http://127.0.0.1:{server.port}/#/{page}"
    ui.open_ui(a_study(uri="http://me:secret@elsewhere"), published, None)  # published.json speaks of another store
    shown = capsys.readouterr().out
    assert "http://elsewhere/#/experiments?workflowType" in shown and "secret" not in shown


def test_ui_without_a_store_says_what_to_do(tmp_path: Path, study: Study) -> None:
    with pytest.raises(UserError, match=r"nothing was published yet.*make sweep"):
        ui.open_ui(study, StudyFolder(tmp_path / "results" / "demo"), None)
    assert not list(tmp_path.iterdir())


def test_ui_listens_on_loopback_only_and_asks_who_is_there(
    study: Study, folder: StudyFolder, monkeypatch: pytest.MonkeyPatch, started: list[tuple[Server, str]]
) -> None:
    monkeypatch.setenv("MLFLOW_UVICORN_OPTS", "--host 0.0.0.0")
    ui.open_ui(study, folder, None)
    ((server, _),) = started
    words, environment = server.command, server.environment()
    assert words[words.index("--host") + 1] == "127.0.0.1" and words[words.index("--app-name") + 1] == "basic-auth"
    assert "0.0.0.0" not in " ".join([*words, *environment.values()])  # noqa: S104  that it is absent
    assert environment["MLFLOW_BACKEND_STORE_URI"] == f"sqlite:///{folder.root.parent}/mlflow.db"
    password = environment["MLFLOW_AUTH_ADMIN_PASSWORD"]
    kept = folder.root.parent / ".mlflow-private/admin-password"
    assert kept.read_text().strip() == password not in " ".join(words)
    assert (stat.S_IMODE(kept.stat().st_mode), stat.S_IMODE(kept.parent.stat().st_mode)) == (0o600, 0o700)


def test_port_is_the_users_else_the_first_free_one(
    published: StudyFolder, monkeypatch: pytest.MonkeyPatch, started: list[tuple[Server, str]]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(ui, "DEFAULT_PORT", port)
        ui.open_ui(a_study(), published, None)
        ui.open_ui(a_study(), published, port)  # which the server refuses
    assert port < started[0][0].port < port + ui.PORTS_TRIED and started[1][0].port == port


# The publisher as a process


def published_by_command(folder: StudyFolder, config: Path, timeout: float) -> "subprocess.CompletedProcess[str]":
    return python("-m", "envknee.tracking", folder.root, "--config", config, timeout=timeout)


@contextlib.contextmanager
def listener() -> Iterator[tuple[str, list[str | None]]]:
    """Give the address of a server that refuses all, and the sign-in of each request as it arrives."""
    heard: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers["Authorization"])
            self.send_error(401)

        do_POST = do_GET  # noqa: N815

    with serving(Handler) as uri:
        yield uri, heard
