"""Trials of studies on the tests' SLURM: the job of each, one that hangs, and that nothing was lost or left."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
from envknee.record.read import load_records
from envknee.record.schema import Record
from envknee.study.paths import StudyFolder
from running import trial_processes
from slurm_cluster import Cluster
from slurm_site import Site
from waiting import wait_until_none
from workspaces import Workspace

THROUGHPUT = {"num_envs": [4, 8], "horizon": 4, "batch_size": 16, "repeats": 1, "iterations": 2}


def job_of(cluster: Cluster, number: int, state: str = "RUNNING") -> str | None:
    """Return the job of a trial, or of the block that begins with it, that is in `state`."""
    comments = (f"rule_trial_wildcards_{number:04d}", f"rule_block_{number:04d}")
    return next(
        (job for job, seen in cluster.jobs().items() if seen["comment"] in comments and seen["state"] == state), None
    )


def assert_whole(folder: StudyFolder, count: int, cluster: Cluster, workspace: Workspace) -> list[Record]:
    """Check that every trial is there once, with files that follow from each other, and nothing runs any more."""
    records = load_records(folder)  # each is computed again from request, metrics and outcome, whose hashes it checks
    assert [record.request.number for record in records] == list(range(count))
    for record in records:
        rows = folder.trial(record.request.number).metrics.read_text(encoding="utf-8").splitlines()
        if record.request.kind == "throughput":
            assert len(rows) == record.request.warmup_iterations + (record.request.iterations or 0)
        if record.request.block is None:
            assert record.queue_wait_s is not None and record.queue_wait_s >= 0
        assert record.gpu_hours == 0.0 and record.energy_j is None  # the nodes' GPUs are links to /dev/null
    assert not trial_processes(workspace.folder)
    wait_until_none(cluster.jobs, timeout_s=20)
    cluster.kill_lost_snakemakes()
    wait_until_none(cluster.processes, timeout_s=20)
    return records


def logs_of_jobs(site: Site) -> list[Path]:
    """Return what jobs of any study printed that did not end well, or have not ended."""
    return sorted(site.folder.glob("results/*/logs/slurm/**/*.log"))


def what_jobs_said(site: Site, cluster: Cluster) -> str:
    """Return how jobs ended, the logs of those that did not end well, and what SLURM's own programs complain of."""
    ended = [f"{job['JobId']} {job['Name']}: {job['JobState']}, node {job['NodeList']}" for job in cluster.ended()]
    logs = [f"{path}\n{path.read_text(errors='replace')}" for path in logs_of_jobs(site)]
    return "\n".join([*ended, *logs, *cluster.complaints()])


def hang(site: Site, folder: StudyFolder, *numbers: int) -> list[int]:
    """Wait until each of these trials measures, then stop it, as a driver that hangs would; return their processes."""
    hung: dict[int, int] = {}
    deadline = time.monotonic() + 600
    while len(hung) < len(numbers):
        assert time.monotonic() < deadline, f"of {numbers} only {[*hung]} began"
        for number in numbers:
            if number not in hung and folder.trial(number).environment.exists():
                measuring = [process for process in trial_processes(site.folder) if measures(process, number)]
                if len(measuring) == 1:  # what it has just forked looks like the trial until it is another program
                    hung[number] = measuring[0]
                    os.kill(hung[number], signal.SIGSTOP)
        time.sleep(0.1)
    return [hung[number] for number in numbers]


def measures(process: int, number: int) -> bool:
    """Tell whether a process measures a trial; that of a block is told which ones by its launcher."""
    with suppress(psutil.NoSuchProcess):
        job_process = psutil.Process(process)
        # Its keeper stands between it and the launcher.
        above = job_process.parents()[:2]
        words = [word for each in (job_process, *above) for word in each.cmdline()]
        return any(word.endswith(f"/{number:04d}") for word in words)
    return False
