"""Workers in real sweeps: processes that ask for trials as they go, through a kill, an interruption, and copies of the study."""

import os
import signal
from pathlib import Path
from typing import Any

import psutil
from envknee.record.read import load_records, read_rows
from envknee.study.paths import StudyFolder
from foreign_commands import an_arm
from programs import refused, succeeded
from records import known
from running import workers_in
from waiting import wait_for, wait_until_none
from workspaces import Workspace

TWO = ("--resources", "device=2")
SIZES: dict[str, Any] = {
    "num_envs": [2, 4, 8],
    "horizon": 4,
    "batch_size": "library",
    "sampler": "tpe",
    "iterations": 4,
}

OF_ISAAC_LAB: dict[str, Any] = {"num_envs": [4, 8], "horizon": 4, "batch_size": 16, "iterations": 2, "workers": 1}


def of_commands(workspace: Workspace, name: str = "tiny", **throughput: Any) -> Path:
    """Write a study of a fake program, which two workers measure."""
    # In a job of SLURM's, trials on the CPU do not wait for each other: SLURM assigns cores.
    workspace.environment = workspace.environment | {"SLURM_JOB_ID": "1"}
    section = SIZES | {"repeats": 2, "workers": 2} | throughput
    return workspace.study(
        study=name, task="foreign", phases="off", arms={"program": an_arm()}, throughput=section, learning=None
    )


def outcomes_of(folder: StudyFolder) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.trial_files("outcome.json")}


def begun(folder: StudyFolder) -> list[Path]:
    """Return the trials that are measured now."""
    return [path.parent for path in folder.trial_files("attempts.json")]


def test_a_killed_workers_trial_is_taken_over_and_nothing_is_lost_or_measured_twice(workspace: Workspace):
    study, folder = of_commands(workspace, repeats=3, iterations=60), workspace.prepared()
    target = workspace.verdict_of(study)
    planned = succeeded(workspace.sweep(study, target, "--dry-run", *TWO))
    assert "pool_0000" in planned and "trial " not in planned.partition("job ")[2]
    refused(
        workspace.sweep(study, target), "throughput.workers 2 need 2 devices", "this sweep may use 1", "Set workers: 1"
    )
    assert not outcomes_of(folder)

    sweep = workspace.start(study, target, *TWO)
    wait_for(lambda: len(outcomes_of(folder)) >= 1 and len(begun(folder)) == 2)
    # What a worker has just forked looks like the worker until it is another program.
    workers = list[psutil.Process]()

    def are_two() -> bool:
        workers[:] = workers_in(workspace.folder)
        return len(workers) == 2

    wait_for(are_two)
    victim, other = workers
    victim.kill()
    output, _ = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, output
    records = load_records(folder)
    assert [record.request.number for record in records] == list(range(9))
    assert {record.outcome.status for record in records} == {"ok"}
    assert sum(record.lost_attempts for record in records) <= 1, "no other trial began twice"
    assert len(list(folder.trials.glob("*/*.interrupted-*"))) <= 3, "those of one trial"
    wait_until_none(lambda: workers_in(workspace.folder), timeout_s=10)
    assert not other.is_running()
    succeeded(workspace.module("replay", "--verify", str(folder.root)))
    assert "Nothing to be done" in workspace.sweep(study, target, *TWO).stdout


def test_an_interrupted_pool_goes_on_and_is_replayed_and_archived_as_any_study(workspace: Workspace):
    study, folder = of_commands(workspace, iterations=30), workspace.prepared()
    target = workspace.verdict_of(study)
    sweep = workspace.start(study, target, *TWO)
    wait_for(lambda: len(outcomes_of(folder)) >= 2 and bool(begun(folder)))
    os.killpg(sweep.pid, signal.SIGINT)
    output, _ = sweep.communicate(timeout=60)
    assert sweep.returncode != 0 and "a worker was stopped by SIG" in output
    assert not workers_in(workspace.folder)
    before = outcomes_of(folder)
    assert 2 <= len(before) < 6

    # Another machine, with one device: the number of workers may change.
    one = of_commands(workspace, iterations=30, workers=1)
    said = succeeded(workspace.sweep(one, target))
    assert "[6/6]" in said
    assert before.items() <= outcomes_of(folder).items()
    succeeded(workspace.module("replay", "--verify", str(folder.root)))

    (folder.trial(2).metrics).write_bytes(b"\0")  # as a power cut leaves it
    assert "is measured again: metrics.jsonl is not whole" in succeeded(workspace.sweep(one, target))
    after = outcomes_of(folder)
    assert {number for number in after if after[number] != before.get(number, after[number])} <= {"0002"}
    assert read_rows(folder.trial(2))

    succeeded(workspace.module("archive", str(folder.root), "--to", "demo.zip"))
    workspace.environment = workspace.environment | {"TRUST": "1"}  # the study runs a program
    succeeded(workspace.module("archive", "--unpack", "demo.zip", "--into", "elsewhere"))
    (unpacked,) = (workspace.folder / "elsewhere").glob("*/study.json")
    succeeded(workspace.module("replay", "--verify", str(unpacked.parent)))

    succeeded(workspace.module("replay", str(folder.root), "--name", "again"))
    again = workspace.prepared("again")
    succeeded(workspace.sweep(again.study, str(again.verdict.relative_to(workspace.folder))))
    points = [[record.request.point for record in load_records(own)] for own in (folder, again)]
    assert points[0] == points[1]


def test_one_worker_measures_asked_trials_of_isaac_lab_in_one_process_and_repeats_of_fps_in_others(
    workspace: Workspace,
):
    throughput = OF_ISAAC_LAB | {"sampler": "tpe", "repeats": 2}
    study, folder = workspace.study(throughput=throughput, learning=None), workspace.results()
    said = succeeded(workspace.measure(study))
    assert "[4/4]" in said
    records = load_records(folder)
    assert [record.request.fresh for record in records] == [False, False, True, True]
    processes = [known(record.outcome.shared).process for record in records]
    assert processes[0] == processes[1] and len({*processes}) == 3
    assert [known(record.outcome.shared).position for record in records] == [0, 1, 0, 0]
    imports_s = [known(record.outcome.startup_s).imports for record in records]
    assert imports_s[1] < 0.5 * imports_s[0], "a process starts once"
    succeeded(workspace.module("replay", "--verify", str(folder.root)))


def test_with_one_process_each_round_of_fresh_repeats_has_its_own(workspace: Workspace):
    confirm = {"settings": 2, "seeds": 3, "one_process": True}
    throughput = OF_ISAAC_LAB | {"sampler": "profile", "trials": 2, "confirm": confirm}
    study, folder = workspace.study(throughput=throughput, learning=None), workspace.results()
    assert "[8/8]" in succeeded(workspace.measure(study))
    records = load_records(folder)
    assert not any(record.request.fresh for record in records)
    processes = [known(record.outcome.shared).process for record in records]
    by_round = {record.request.repeat: set[str]() for record in records if record.request.confirms}
    for record, process in zip(records, processes, strict=True):
        if record.request.confirms:
            by_round[record.request.repeat].add(process)
    assert len(by_round) == 3 and all(len(own) == 1 for own in by_round.values())
    assert len({*processes}) == 4, "the search, and three rounds"
    succeeded(workspace.module("replay", "--verify", str(folder.root)))
