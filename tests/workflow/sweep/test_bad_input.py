"""Bad input and bad disks: a clear error, a failure status, and finished trials as they were."""

import contextlib
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from envknee.machine import environment
from envknee.record.read import load_records
from envknee.run import prepare
from envknee.study.errors import UserError
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from programs import refused, succeeded
from waiting import wait_for, written_since
from workspaces import Workspace


def outcomes_of(folder: StudyFolder, *numbers: int) -> list[bytes]:
    return [folder.trial(number).outcome.read_bytes() for number in numbers]


def test_a_study_that_is_not_legal_stops_before_anything_is_made(workspace: Workspace):
    study = workspace.study(throughput={"num_env": [4], "horizon": 0, "batch_size": 16})
    unknown = "throughput.num_env: unknown key (did you mean 'num_envs'?)"
    refused(workspace.sweep(study), unknown, "throughput.horizon")
    assert not (workspace.folder / "results").exists()


def test_results_of_another_config_are_left_alone(a_copy: Workspace):
    before = a_copy.results().study.read_bytes()
    refused(a_copy.sweep(a_copy.study(seed=9)), "seed: measured with 1, now 9", "Change `study:` to a new name")
    assert a_copy.results().study.read_bytes() == before


def test_a_device_that_is_not_there_is_refused(workspace: Workspace):
    study = read_study(workspace.study(arms={"many": {"gpus": 16}}))
    with pytest.raises(UserError, match=r"arms\.many: gpus: 16 was asked for.* visible here"):
        prepare.resolve_arms(study)
    with pytest.raises(UserError, match=r"memory_cap_gb 1e\+06 is more than.*smaller, not larger"):
        environment.observe("cpu", memory_cap_gb=1e6)


def test_a_gaussian_process_without_pytorch_is_refused_before_the_first_trial(workspace: Workspace, monkeypatch):
    study = read_study(workspace.study(throughput={"num_envs": [4], "horizon": 4, "batch_size": 16, "sampler": "gp"}))
    monkeypatch.setattr(importlib.util, "find_spec", {"torch": None}.get)
    with pytest.raises(UserError, match=r"throughput\.sampler: gp needs the package torch.*sampler: tpe"):
        prepare.resolve_arms(study)


def test_a_cap_below_the_simulation_is_found_before_the_first_trial(workspace: Workspace):
    study = workspace.study(arms={"small": {"gpus": 0, "memory": {"memory_cap_gb": 0.1}}})
    refused(workspace.sweep(study), "arms.small: its smallest trial ended with oom", "memory_cap_gb is 0.1")
    assert not list((workspace.folder / "results/tiny/trials").glob("*"))


def test_what_is_not_measured_and_what_the_simulation_refuses_is_told_before_the_first_trial(workspace: Workspace):
    study = workspace.study(
        task={"overrides": {"env.scene.tiled_camera.widht": 24}},
        throughput={"num_envs": [4, 8], "horizon": 4, "batch_size": 32},
    )
    refused(
        workspace.sweep(study),
        "envknee: throughput: 1 of 2 points is not measured, because batch_size must divide num_envs x horizon and does not: 32 of 4 x 4",
        "env.scene.tiled_camera.widht names no field",
        "did you mean 'width'?",
    )
    assert not workspace.results().trials.exists()


def test_an_edited_request_is_noticed_by_the_sweep(a_copy: Workspace):
    request = a_copy.results().trial(1).request
    request.write_text(request.read_text(encoding="utf-8").replace('"seed": ', '"seed": 1'), encoding="utf-8")
    refused(a_copy.sweep(a_copy.study()), "trials/0001", "Delete that folder")


def test_rows_that_a_power_cut_took_are_told_and_only_their_trial_is_measured_again(a_copy: Workspace):
    folder = a_copy.results()
    path, others = folder.trial(1).metrics, outcomes_of(folder, 0, 2, 3)
    torn = path.read_bytes()[:50]
    path.write_bytes(torn)
    result = succeeded(a_copy.sweep(a_copy.study(), str(folder.trial(1).record.relative_to(a_copy.folder))))
    assert "trials/0001 is measured again: metrics.jsonl is not whole" in result
    assert (folder.trial(1).root / "metrics.interrupted-1.jsonl").read_bytes() == torn
    assert outcomes_of(folder, 0, 2, 3) == others
    assert len(load_records(folder)) == 4


def test_a_trial_that_was_deleted_is_missed_in_a_finished_study(a_copy: Workspace):
    shutil.rmtree(a_copy.results().trial(1).root)
    planned = a_copy.sweep(a_copy.study(), "-n")
    assert re.search(r"^trial +[1-9]", planned.stdout, re.MULTILINE), planned.stdout


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of its own of 32 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32M", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def without_trial(workspace: Workspace, number: int, disk: Path) -> StudyFolder:
    """Move the results to `disk` and take one trial and all that follows from it away."""
    folder = workspace.results()
    for path in (folder.trial(number).root, folder.figures):
        shutil.rmtree(path)
    for path in folder.root.rglob("*"):
        if path.name in ("rsl_rl", "prepare"):
            shutil.rmtree(path)
    for path in (folder.verdict, folder.report, folder.published):
        path.unlink()
    shutil.copytree(folder.root.parent, disk, symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(folder.root.parent)
    folder.root.parent.symlink_to(disk)
    return folder


def test_a_full_disk_loses_nothing(a_copy: Workspace, small_disk: Path):
    folder = without_trial(a_copy, 3, small_disk)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(b"\0" * 4096)
    before = outcomes_of(folder, 0, 1, 2)
    result = a_copy.measure(a_copy.study())
    assert result.returncode != 0
    assert "No space left on device" in result.stdout or "is full" in result.stdout, result.stdout
    assert outcomes_of(folder, 0, 1, 2) == before
    assert len(load_records(folder)) == 3

    filler.unlink()
    succeeded(a_copy.measure(a_copy.study()))
    assert len(load_records(folder)) == 4
    assert outcomes_of(folder, 0, 1, 2) == before


def test_a_results_folder_that_cannot_be_written_says_so(a_copy: Workspace, small_disk: Path):
    folder = without_trial(a_copy, 3, small_disk)
    before = outcomes_of(folder, 0, 1, 2)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refused(a_copy.sweep(a_copy.study()), "results/tiny cannot be written to", "Make it writable")
    assert outcomes_of(folder, 0, 1, 2) == before


def test_a_sweep_that_ends_without_a_planned_trial_fails_and_names_it(a_copy: Workspace):
    folder = a_copy.results()
    before = folder.verdict.stat().st_mtime_ns
    sweep = a_copy.start(a_copy.study(), "--forcerun", "verdict")
    wait_for(lambda: written_since(folder.verdict, before))
    folder.trial(1).record.unlink()
    output, _ = sweep.communicate(timeout=120)
    assert sweep.returncode != 0
    # Whoever sees it first: Snakemake before its next rule, or we after the last one.
    assert re.search(r"trials/0001/record\.json \(missing|1 of 4 trials were not measured: 0001", output), output
