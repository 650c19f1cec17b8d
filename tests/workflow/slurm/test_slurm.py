"""Studies on a real SLURM: whole, two at once, and with everything that goes wrong on a cluster.

Nodes, controller and queue are real (see slurm_cluster); trials are real ones on the CPU. After each: nothing is lost, nothing was
measured twice, no process is left.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
import yaml
from envknee.machine import gpus
from envknee.record.read import load_records, without_skipped
from envknee.record.schema import Record
from envknee.slurm import waits
from envknee.study.paths import StudyFolder
from foreign_commands import CLIMBING_PRESET, FAKE, KNEE, an_arm
from needs import need
from programs import refused, succeeded
from records import known
from running import ranks_among, trial_processes, workers_in
from slurm_cluster import Cluster
from slurm_site import Site
from waiting import wait_for, wait_until_none
from workspaces import TINY, Workspace

need("slurm")

THROUGHPUT = {"num_envs": [4, 8], "horizon": 4, "batch_size": 16, "repeats": 1, "iterations": 2}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def site(tmp_path: Path, cluster: Cluster) -> Iterator[Site]:
    site = Site(tmp_path, cluster)
    yield site
    for sweep in site.started:
        if sweep.poll() is None:
            os.killpg(sweep.pid, signal.SIGKILL)
    cluster.ask("scancel", f"--user={psutil.Process().username()}")
    for process in trial_processes(tmp_path):
        os.kill(process, signal.SIGKILL)


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


def test_two_studies_at_once_are_measured_and_reported(site: Site, cluster: Cluster):
    small = {"num_envs": 4, "sampler": "grid"}
    sections = yaml.safe_load(TINY.read_text(encoding="utf-8"))
    both = {kind: sections[kind] | small for kind in ("throughput", "learning")}
    tiny = site.study(window=4, **both)
    first = site.start(tiny, site.verdict_of(tiny))
    just_submitted = site.results().job_logs / "rule_trial/9999"  # of a job that has not opened its log yet
    just_submitted.mkdir(parents=True)
    cpu = {"cpu": {"gpus": 0}}
    other = site.study(study="other", arms=cpu, throughput=THROUGHPUT | {"num_envs": 4}, learning=None)
    second = site.start(other)
    # Its Snakemake is killed while a trial runs: the job goes on, and the next sweep's waits for what that one measures.
    wait_for(site.results("other").trial(0).metrics.exists, timeout_s=240)
    second.kill()
    asked = cluster.jobs()
    second = site.make(other)
    while first.poll() is None or second.poll() is None:
        asked |= cluster.jobs()
        with_gpu = [job for job in cluster.jobs().values() if job["state"] == "RUNNING" and "gpu" in job["gres"]]
        assert len(with_gpu) <= 4  # two nodes of two GPUs
        time.sleep(1)
    for sweep in (first, second):
        output, _ = sweep.communicate()
        print(output)  # shown where what follows fails, as are these
        print(what_jobs_said(site, cluster))
        assert sweep.returncode == 0, output
        said = site.module("summary", "--all", str(site.results("tiny" if sweep is first else "other").root)).stdout
        assert "cost" in said and "a job waited" in said, said
        if sweep is first:  # the other's was prepared under the Snakemake that was killed
            assert re.search(r"\(job \d+\): .* GB free in ", output) and "prepared stock on " in output
            # The nodes' GPUs are links to /dev/null: what a broken driver looks like.
            assert ("SLURM gave this job 1 GPU on " in output) is (not gpus.visible_uuids())
    assert "study other: 1 trial done" in output  # what make says at the end
    assert "[1/1] throughput cpu · 4 envs · T4 · B16 · repeat 1 → measured: " in output
    assert {job["gres"] for job in asked.values()} == {"gres:gpu:h100:1", "N/A"}
    # limit_s 600 and 3600, a tenth more, and 5 minutes; preparing asks for its own time.
    trials = [job for job in asked.values() if "trial" in job["comment"]]
    assert {job["limit"] for job in trials if job["gres"] != "N/A"} == {"16:00", "1:11:00"}
    # The other's trial has jobs of two sweeps, whose Snakemakes look after the same files: one that stumbles is tried again, for longer.
    assert {"16:00"} <= {job["limit"] for job in trials if job["gres"] == "N/A"} <= {"16:00", "24:00"}

    records = assert_whole(site.results(), 2, cluster, site)
    assert [record.outcome.status for record in records] == ["ok", "timeout"]
    records += assert_whole(site.results("other"), 1, cluster, site)
    assert not any(record.lost_attempts for record in records)
    assert not list(site.results("other").trials.glob("*/*.interrupted-*"))
    assert site.results("other").trial(0).log.stat().st_size > 0  # of the job whose Snakemake was killed
    report = site.results("other").report
    assert report.exists() and "<li>Cost: " in report.read_text(encoding="utf-8")
    logs = logs_of_jobs(site)
    assert len(logs) == 1  # those of jobs that ended well are removed, but by the Snakemake that was killed
    assert logs[0].is_relative_to(site.results("other").job_logs)
    assert just_submitted.exists()

    assert "Nothing to be done" in succeeded(site.sweep(other))


def hang(site: Site, folder: StudyFolder, *numbers: int) -> list[int]:
    """Wait until each of these trials measures, then stop it, as a driver that hangs would; return their processes."""
    hung: dict[int, int] = {}
    deadline = time.monotonic() + 240
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


def test_every_fault_at_once_loses_nothing_and_measures_nothing_twice(site: Site, cluster: Cluster):
    # Three blocks side by side on two nodes: two sizes, and the first again. Each stops in its second trial, by its own fault.
    # Somebody else has the fourth GPU, or what is started again would come to the node that crashes next.
    site.run(
        ["sbatch", "--nodelist=n2", "--gres=gpu:1", "--mem=100", "--output=/dev/null", "--wrap=sleep 900"], timeout_s=60
    )
    folder = site.prepared()
    study = site.study(window=3, throughput=THROUGHPUT | {"repeats": 3, "block": "all"}, learning=None)
    sweep = site.start(study, site.verdict_of(study))
    blocks = range(0, 9, 3)
    hung = dict(zip(blocks, hang(site, folder, 1, 4, 7), strict=True))
    jobs = {block: job for block in blocks if (job := job_of(cluster, block))}
    asked = {cluster.jobs()[job]["limit"] for job in jobs.values()}
    assert asked == {"38:00"}  # limit_s 600 of three trials, a tenth more, and 5 minutes
    measured = {block: folder.trial(block).metrics.stat().st_mtime_ns for block in blocks}
    nodes = {block: cluster.jobs()[job]["node"] for block, job in jobs.items()}
    (victim,) = [block for block in blocks if [*nodes.values()].count(nodes[block]) == 1]
    cancelled, late = (block for block in blocks if block != victim)

    before = {*cluster.jobs()}
    cluster.ask("scontrol", "update", f"JobId={jobs[late]}", "TimeLimit=1")
    cluster.ask("scancel", jobs[cancelled])
    # Or a crash would lose what the controller has not saved: both orders, and the jobs that Snakemake submits again for them.
    again: set[str] = set()

    def were_submitted_again() -> bool:
        again.update({*cluster.jobs()} - before)  # the first may have ended before the second is there
        return len(again) >= 2

    wait_for(were_submitted_again, timeout_s=180)
    cluster.wait_until_saved()
    cluster.crash_node(nodes[victim])
    cluster.kill("slurmctld")
    wait_for(lambda: not psutil.pid_exists(hung[victim]), timeout_s=20)
    cluster.start_controller()
    # SLURM finds the node lost and starts its job again, under its number; the node comes back meanwhile.
    wait_for(lambda: cluster.jobs().get(jobs[victim], {}).get("state") == "PENDING", timeout_s=300)
    cluster.start_node(nodes[victim])

    output, _ = sweep.communicate(timeout=800)
    assert sweep.returncode == 0, output
    records = assert_whole(folder, 9, cluster, site)
    assert [record.outcome.status for record in records] == ["ok"] * 9
    # Nothing but the trial that ran was measured again; the rows of the first time are kept apart.
    assert [record.lost_attempts for record in records] == [0, 1, 0] * 3
    assert [len(list(path.glob("metrics.interrupted-*"))) for path in sorted(folder.trials.iterdir())] == [0, 1, 0] * 3
    assert {block: folder.trial(block).metrics.stat().st_mtime_ns for block in blocks} == measured
    # The first trial of each job waited; the last one had its process from the trial before it.
    assert [record.queue_wait_s is None for record in records] == [False, False, True] * 3
    ended = {job["JobId"]: job for job in cluster.ended()}
    assert ended[jobs[cancelled]]["JobState"] == "CANCELLED"
    assert ended[jobs[late]]["JobState"] == "TIMEOUT"
    assert ended[jobs[victim]]["JobState"] == "COMPLETED"


def test_two_nodes_train_together_and_one_that_hangs_ends_both(site: Site, cluster: Cluster):
    # Nodes of this machine share its loopback interface; others name theirs in the same variable.
    site.environment |= {"GLOO_SOCKET_IFNAME": "lo"}
    arms = {"two": {"gpus": 0, "nodes": 2}}
    study = site.study(arms=arms, throughput=THROUGHPUT | {"num_envs": 4, "iterations": 40}, learning=None)
    folder = site.results()
    succeeded(site.sweep(study, "prepare"))  # on two nodes, too
    sweep = site.start(study, site.verdict_of(study))
    rows = folder.trial(0).metrics
    wait_for(lambda: rows.exists() and rows.stat().st_size > 0, timeout_s=240)
    assert cluster.jobs()[known(job_of(cluster, 0))]["node"] == "n[1-2]"
    ranks = ranks_among(trial_processes(site.folder))
    assert {ranks[rank].environ()["SLURM_NODEID"] for rank in ranks} == {"0", "1"}
    ranks[1].suspend()
    psutil.wait_procs(ranks.values(), timeout=90)
    assert not any(process.is_running() for process in ranks.values())

    output, _ = sweep.communicate(timeout=600)
    assert sweep.returncode == 0, output
    (log,) = logs_of_jobs(site)
    assert re.search(r"rank (0 or )?1 hangs \((rollout|learning)\)", log.read_text(encoding="utf-8"))
    (together,) = assert_whole(folder, 1, cluster, site)
    assert (together.outcome.status, together.world_size, together.num_envs_total) == ("ok", 2, 8)
    assert together.outcome.ranks is not None and [rank.rank for rank in together.outcome.ranks] == [0, 1]
    assert not list(folder.trial(0).root.glob("meeting-*"))

    study = site.study(study="here", arms=arms)
    here = site.run(["snakemake", "--configfile", study.name], timeout_s=60)
    refused(here, "arms.two: nodes 2 needs a SLURM cluster")


def test_each_node_gets_its_gpus_and_only_a_trial_that_may_still_run_is_tried_again(site: Site):
    if gpus.visible_uuids():
        pytest.skip("this machine has GPUs, and the nodes would see them")
    site.edit_site(retries="1")
    folder = site.prepared()
    small = THROUGHPUT | {"num_envs": 4}
    study = site.study(arms={"two": {"gpus": 1, "nodes": 2}}, window=2, throughput=small, learning=None)
    result = site.measure(study)
    assert result.returncode != 0
    assert result.stdout.count("has been submitted") == 1, result.stdout
    why = r"a job of 'trial' failed, and is not tried again before you mend this: .*\bgpus: 1 was asked for, and no GPU is visible"
    assert len(re.findall(why, result.stdout)) == 1, result.stdout
    (log,) = logs_of_jobs(site)
    assert "Trying to restart" not in log.read_text(encoding="utf-8")
    # The nodes' GPUs are links to /dev/null: a node was given one, and CUDA shows none. The first that says so ends the other.
    said = folder.trial(0).log.read_text(encoding="utf-8")
    assert "gpus: 1 was asked for, and no GPU is visible here (CUDA_VISIBLE_DEVICES=0)" in said
    assert not folder.trial(0).record.exists()

    # A program that crashes may have met a bad moment of its node.
    crashing = site.study(
        study="crashing", arms={"fake": an_arm(breaks="crash")}, task=None, throughput=small, learning=None
    )
    folder = site.prepared("crashing")
    result = site.sweep(crashing, str(folder.trial(0).record.relative_to(site.folder)))
    assert "1 of 1 trials crashed" in result.stdout and result.stdout.count("has been submitted") == 2, result.stdout
    assert re.search(
        r"a job of 'trial' failed: SLURM-job '\d+' failed, .* See results/.*/trial-0000.log and results/", result.stdout
    )
    assert "For further error details" not in result.stdout
    assert load_records(folder)[0].outcome.status == "crashed"


def test_a_queue_that_takes_no_more_jobs_costs_another_sweep_and_no_trial(site: Site, cluster: Cluster):
    folder = site.prepared()
    study = site.study(arms={"fake": an_arm()}, task=None, throughput=THROUGHPUT, learning=None, window=1)
    sweep = site.start(study, site.verdict_of(study))
    wait_for(lambda: job_of(cluster, 0) is not None, timeout_s=400)
    cluster.ask("scontrol", "update", "PartitionName=gpu", "State=DRAIN")  # what is in it goes on
    try:
        output, _ = sweep.communicate(timeout=400)
    finally:
        cluster.ask("scontrol", "update", "PartitionName=gpu", "State=UP")
    assert sweep.returncode != 0
    assert re.search("a job of 'trial' failed: SLURM sbatch failed.*partition not available", output), output
    first = folder.trial(0).outcome.read_bytes()
    succeeded(site.measure(study))
    assert_whole(folder, 2, cluster, site)
    assert folder.trial(0).outcome.read_bytes() == first


def test_a_preempted_trial_waits_and_ctrl_c_cancels_what_waits_and_runs(site: Site, cluster: Cluster):
    long = THROUGHPUT | {"iterations": 400}  # of 0.02 s
    study = site.study(window=2, arms={"fake": an_arm()}, task=None, throughput=long, learning=None)
    folder = site.prepared()
    sweep = site.start(study, site.verdict_of(study))
    hang(site, folder, 0, 1)
    job, other = job_of(cluster, 0), job_of(cluster, 1)
    assert job is not None and other is not None
    node = cluster.jobs()[job]["node"]
    cluster.ask(
        "sbatch", "--partition=urgent", "--exclusive", f"--nodelist={node}", "--output=/dev/null", "--wrap=sleep 300"
    )
    wait_for(lambda: cluster.jobs()[job]["state"] == "PENDING")  # the same job, which SLURM starts again later

    os.killpg(sweep.pid, signal.SIGINT)
    output, _ = sweep.communicate(timeout=60)
    assert sweep.returncode != 0
    assert "envknee: cancelling 2 jobs" in output and "stopped. The same command goes on from here" in output, output
    assert "WorkflowError" not in output
    wait_for(lambda: not {job, other} & set(cluster.jobs()), timeout_s=20)
    wait_until_none(lambda: trial_processes(site.folder), timeout_s=20)
    assert not list(folder.trials.glob("*/record.json")), output
    cluster.ask("scancel", "--partition=urgent")

    succeeded(site.measure(study))
    assert_whole(folder, 2, cluster, site)


def test_a_preempted_job_that_slurm_does_not_start_again_is_submitted_anew(site: Site, cluster: Cluster):
    site.edit_site(partition="cheap")  # PreemptMode=CANCEL
    folder = site.prepared()
    long = THROUGHPUT | {"num_envs": 4, "iterations": 400}  # of 0.02 s
    study = site.study(window=1, arms={"fake": an_arm()}, task=None, throughput=long, learning=None)
    sweep = site.start(study, site.verdict_of(study))
    rows = folder.trial(0).metrics
    wait_for(lambda: rows.exists() and rows.stat().st_size > 0, timeout_s=240)
    job = known(job_of(cluster, 0))
    node = cluster.jobs()[job]["node"]
    cluster.ask(
        "sbatch", "--partition=urgent", "--exclusive", f"--nodelist={node}", "--output=/dev/null", "--wrap=sleep 5"
    )
    output, _ = sweep.communicate(timeout=400)
    assert sweep.returncode == 0, output
    assert "partition cheap ends preempted jobs (PreemptMode CANCEL)" in output
    (record,) = assert_whole(folder, 1, cluster, site)
    assert record.outcome.status == "ok" and record.lost_attempts == 1


def test_a_suspended_and_a_requeued_job_measure_their_trials_again(site: Site, cluster: Cluster):
    """SLURM stops all processes of the job, and tells them to go on: times with a pause in them count for nothing.

    A job that an administrator puts back into the queue (scontrol requeue) starts again under its number.
    """
    folder = site.prepared()
    long = THROUGHPUT | {"num_envs": 4, "iterations": 1000, "repeats": 2}  # of 0.02 s
    study = site.study(window=1, arms={"fake": an_arm()}, task=None, throughput=long, learning=None)
    sweep = site.start(study, site.verdict_of(study))
    rows = folder.trial(0).metrics
    wait_for(lambda: rows.exists() and rows.stat().st_size > 0, timeout_s=240)
    job = known(job_of(cluster, 0))
    cluster.ask("scontrol", "suspend", job)
    wait_for(lambda: cluster.jobs()[job]["state"] == "SUSPENDED")
    time.sleep(5)  # SLURM asks first (SIGTSTP), and stops two seconds later
    stopped = rows.stat().st_size
    time.sleep(2)
    assert rows.stat().st_size == stopped
    cluster.ask("scontrol", "resume", job)
    rows = folder.trial(1).metrics
    wait_for(lambda: rows.exists() and rows.stat().st_size > 0, timeout_s=240)
    requeued = known(job_of(cluster, 1))
    cluster.ask("scontrol", "requeue", requeued)
    wait_for(lambda: job_of(cluster, 1, "PENDING") == requeued)
    output, _ = sweep.communicate(timeout=400)
    assert sweep.returncode == 0, output
    records = assert_whole(folder, 2, cluster, site)
    assert [(record.outcome.status, record.lost_attempts) for record in records] == [("ok", 1), ("ok", 1)]
    assert all(len(list(folder.trial(number).root.glob("metrics.interrupted-*"))) == 1 for number in (0, 1))


def test_blocks_run_as_steps_of_an_allocation_that_ends_and_of_the_next_one(site: Site, cluster: Cluster):
    site.profile = "allocation"
    folder = site.prepared()
    study = site.study(window=2, throughput=THROUGHPUT | {"repeats": 2, "block": "all"}, learning=None)
    script = site.folder / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {' '.join(site.command(study))}\n", encoding="utf-8")
    nodes = ["--nodes=2", "--exclusive", "--gres=gpu:2", "--mem=0", "--time=60"]
    submitted = site.run(["sbatch", "--parsable", "--output=said.log", *nodes, script.name], timeout_s=60)
    job = submitted.stdout.strip()
    # Two blocks side by side. SLURM tells the sweep that the end is near, as `sbatch --signal=B:USR1@300` would.
    hung = hang(site, folder, 0, 3)
    # Of their launchers, behind whose keepers they run.
    steps = [psutil.Process(process).parents()[1].environ() for process in hung]
    assert {step["SLURM_JOB_ID"] for step in steps} == {job} and len({step["SLURM_STEP_ID"] for step in steps}) == 2
    assert {(step["SLURM_CPUS_PER_TASK"], step["SLURM_GPUS_ON_NODE"]) for step in steps} == {("4", "1")}
    assert len({(step["SLURMD_NODENAME"], step["CUDA_VISIBLE_DEVICES"]) for step in steps}) == 2
    cluster.ask("scancel", "--batch", "--signal=USR1", job)
    wait_for(folder.closing.exists, timeout_s=20)
    for process in hung:
        os.kill(process, signal.SIGCONT)
    wait_for(lambda: job not in cluster.jobs())
    said = (site.folder / "said.log").read_text(encoding="utf-8")
    assert "[2/6] throughput stock" in said, said
    signalled = f"SLURM sent a signal (USR1): job {job} ends soon, and no further trial begins. Run this again in"
    assert signalled in said, said
    assert "Error" not in said.replace("WorkflowError:\nAt least one job did not complete", ""), said
    measured = {path: path.stat().st_mtime_ns for path in folder.trial_files("outcome.json")}
    assert [int(path.parent.name) for path in measured] == [0, 3]

    # Another allocation, from a login node. It is too short at first, then Ctrl-C ends the sweep, and then it comes to its end.
    site.run(
        ["salloc", "--no-shell", "--job-name=mine", "--nodes=1", "--gres=gpu:2", "--cpus-per-task=8", "--time=4"],
        timeout_s=60,
    )
    (other,) = [number for number, seen in cluster.jobs().items() if seen["name"] == "mine"]
    site.environment |= {"SLURM_JOB_ID": other}
    result = site.sweep(study)
    assert result.returncode != 0
    too_short = rf"job {other} ends in [34] minutes, and no trial begins in its last 5"
    assert re.search(too_short, result.stdout), result.stdout
    cluster.ask("scontrol", "update", f"JobId={other}", "TimeLimit=60")
    sweep = site.start(study)
    hung = hang(site, folder, 1, 4)
    os.killpg(sweep.pid, signal.SIGINT)
    for process in hung:
        os.kill(process, signal.SIGCONT)
    output, _ = sweep.communicate(timeout=60)
    assert sweep.returncode != 0 and "stopped by SIGINT; run the sweep again to go on" in output, output
    assert not trial_processes(site.folder)
    assert not cluster.ask("squeue", "--noheader", "--steps", f"--jobs={other}")

    result = site.sweep(study, *(str(folder.trial(number).record.relative_to(site.folder)) for number in range(6)))
    assert result.returncode == 0 and "[6/6] throughput stock" in result.stdout, result.stdout
    cluster.ask("scancel", other)
    records = assert_whole(folder, 6, cluster, site)
    assert [record.outcome.status for record in records] == ["ok"] * 6
    assert [record.lost_attempts for record in records] == [0, 1, 0] * 2
    assert {path: path.stat().st_mtime_ns for path in measured} == measured
    assert not any(record.queue_wait_s for record in records)  # the allocation waited, not they


def test_a_sweep_that_cannot_work_submits_nothing(site: Site, cluster: Cluster):
    before = len(cluster.ended())
    site.edit_site(partition="gpuu")
    result = site.sweep(site.study())
    assert result.returncode != 0 and "Traceback" not in result.stdout
    assert "slurm/site.yaml and this cluster do not fit" in result.stdout
    unknown = "partition 'gpuu' does not exist on this cluster (did you mean 'gpu'?); it has cheap, closed, gpu, short, urgent"
    assert unknown in result.stdout
    site.edit_site(partition="gpu", max_gpus="1")
    result = site.sweep(site.study(arms={"two": {"gpus": 2}}))
    assert "arms.two: a trial asks for 2 GPUs, and max_gpus of the site is 1" in result.stdout
    section = THROUGHPUT | {"num_envs": [4, 8, 16], "sampler": "tpe"}
    dry = site.sweep(site.study(throughput=section | {"workers": 2}, learning=None, window=2), "-n")
    assert "workers 2 need 2 devices (GPUs, or a CPU as one), and max_gpus of the site is 1" in succeeded(dry)
    site.edit_site(max_gpus="3", constraint="warm&dry")
    result = site.sweep(site.study(throughput=section, learning=None, window=2))
    assert "constraint 'warm&dry': no node of partition 'gpu' has these features; there: none" in result.stdout
    (site.folder / "slurm/site.local.yaml").write_text("partition: mine\n", encoding="utf-8")
    result = site.sweep(site.study())
    assert "slurm/site.local.yaml and this cluster do not fit" in result.stdout and "'mine'" in result.stdout
    assert len(cluster.ended()) == before and not cluster.jobs()
    assert not list((site.folder / "results").glob("*/trials"))


def test_a_sweep_without_a_profile_trains_on_no_login_node(site: Site):
    study = site.study(arms={"fake": an_arm()}, task=None, throughput=THROUGHPUT, learning=None)
    folder = site.prepared()
    request = folder.trial(0).request
    words = ["snakemake", str(request.relative_to(site.folder)), "--configfile", study.name]
    ways = ("is it a login node?", "make sweep PROFILE=slurm", "ENVKNEE_HERE=1 make sweep")
    refused(site.run(words, timeout_s=60), *ways)
    assert not request.exists()
    assert "login node" not in succeeded(site.run([*words, "-n"], timeout_s=60))  # a dry run trains nowhere
    site.environment |= {"ENVKNEE_HERE": "1"}
    succeeded(site.run(words, timeout_s=60))
    assert request.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a node its own view of folders")
def test_what_a_node_with_a_sensor_takes_is_told_to_the_trial(site: Site, cluster: Cluster):
    # The sensor is a file, as Cray's nodes have it; SLURM reads it every second. The job itself lets it grow, then ends as trials do.
    counters, sys_folder = "/sys/cray/pm_counters", site.folder / "sys"
    sys_folder.mkdir()
    ask = "from envknee.run import cost; print(cost.Costs([]).start()().slurm.energy_j)"
    job = f"cd {counters} && echo 8200 J > new && mv new energy && sleep 3 && {sys.executable} -c '{ask}'"
    words = ["srun", "--nodelist=n2", "--comment=rule_trial_wildcards_0000", "bash", "-c", job]
    try:
        restart(cluster, "n2", [
            f"mount --rbind /sys {sys_folder}", "mount -t tmpfs none /sys",
            f"for part in {sys_folder}/*; do mkdir /sys/${{part##*/}} && mount --rbind $part /sys/${{part##*/}}; done",
            f"mkdir -p {counters}", f"echo 0 W > {counters}/power", f"echo 1000 J > {counters}/energy",
        ])  # fmt: skip
        assert site.run(words, timeout_s=60).stdout.splitlines()[-1] == "7200.0"
    finally:
        restart(cluster, "n2")
    assert site.run(words[:-1] + [f"{sys.executable} -c '{ask}'"], timeout_s=60).stdout.splitlines()[-1] == "None"


def restart(cluster: Cluster, node: str, mounts: Sequence[str] = ()) -> None:
    cluster.wait_until_idle()  # stopped before it has said that a job is over, it would be waited for
    cluster.kill(f"slurmd-{node}")
    cluster.start_node(node, mounts)
    cluster.wait_until_idle()


def test_workers_are_jobs_and_the_verdict_waits_for_none_that_has_not_started(site: Site, cluster: Cluster):
    site.edit_site(cpus_per_gpu="8")  # a job takes a whole node
    cluster.ask("sbatch", "--nodelist=n2", "--exclusive", "--mem=100", "--output=/dev/null", "--wrap=sleep 900")
    sizes = {
        "num_envs": [2, 4, 8],
        "horizon": 4,
        "batch_size": "library",
        "sampler": "tpe",
        "repeats": 2,
        "iterations": 20,
    }
    section = sizes | {"workers": 2}
    study = site.study(task="foreign", phases="off", arms={"program": an_arm()}, throughput=section, learning=None)
    folder = site.prepared()
    sweep, begun_s = site.start(study), time.monotonic()

    def waiting() -> list[str]:
        jobs = cluster.jobs().items()
        return [
            job for job, seen in jobs if seen["comment"].startswith("rule_worker_0000_") and seen["state"] == "PENDING"
        ]

    wait_for(lambda: len(list(folder.trial_files("record.json"))) >= 1 and len(waiting()) == 1)
    cluster.ask("scontrol", "hold", *waiting())
    wait_for(folder.verdict.exists)
    assert len(waiting()) == 1, "one worker alone has finished the study"
    assert sweep.poll() is None
    second_look_s = begun_s + 2 * waits.FIRST_S + waits.LONGER_S + 5.0  # after it has started
    time.sleep(max(0.0, second_look_s - time.monotonic()))
    cluster.ask("scontrol", "release", *waiting())
    output, _ = sweep.communicate(timeout=300)
    print(output)
    print(what_jobs_said(site, cluster))
    assert sweep.returncode == 0, output
    why = re.findall(r"1 job waits: .*\((\w+)\)", output)
    # n2 is taken, then the job is held: how quick the other worker is decides which of the two a look meets.
    assert why and set(why) <= {"Resources", "JobHeldAdmin"}
    assert all(told != before for before, told in pairwise(why)), "told once, and when it changes: held meanwhile"
    records = load_records(folder)
    assert [record.outcome.status for record in records] == ["ok"] * 6
    assert [record.queue_wait_s is not None for record in records] == [True] + [False] * 5, (
        "the job's first trial waited"
    )
    assert not any(record.lost_attempts for record in records)
    assert "Nothing to be done" in succeeded(site.sweep(study))
    cluster.ask("scancel", f"--user={psutil.Process().username()}")
    wait_until_none(cluster.jobs, timeout_s=20)


def of_two_workers(site: Site) -> Path:
    """Write a study of six trials of a fake program, which two workers measure."""
    section = {
        "num_envs": [2, 4, 8],
        "horizon": 4,
        "batch_size": "library",
        "sampler": "tpe",
        "repeats": 2,
        "iterations": 60,
        "workers": 2,
    }
    return site.study(task="foreign", phases="off", arms={"program": an_arm()}, throughput=section, learning=None)


def test_a_killed_workers_job_is_started_again_while_another_takes_its_trial_over(site: Site, cluster: Cluster):
    study = of_two_workers(site)
    folder = site.prepared()
    sweep = site.start(study, site.verdict_of(study))
    wait_for(lambda: len(list(folder.trial_files("attempts.json"))) == 2)
    running = [job for job, seen in cluster.jobs().items() if seen["comment"].startswith("rule_worker_0000_")]
    cluster.ask("scancel", running[0])
    output, _ = sweep.communicate(timeout=400)
    print(what_jobs_said(site, cluster))
    assert sweep.returncode == 0, output
    records = load_records(folder)
    assert [record.outcome.status for record in records] == ["ok"] * 6
    assert sum(record.lost_attempts for record in records) <= 1
    succeeded(site.module("replay", "--verify", str(folder.root)))
    wait_until_none(cluster.jobs, timeout_s=20)


def test_workers_are_steps_of_an_allocation(site: Site, cluster: Cluster):
    site.profile = "allocation"
    study = of_two_workers(site)
    folder = site.prepared()
    words = ["salloc", "--no-shell", "--job-name=mine", "--nodes=1", "--gres=gpu:2", "--cpus-per-task=8", "--time=60"]
    site.run(words, timeout_s=60)
    (job,) = [number for number, seen in cluster.jobs().items() if seen["name"] == "mine"]
    site.environment |= {"SLURM_JOB_ID": job}
    sweep = site.start(study, site.verdict_of(study))
    wait_for(lambda: len(list(folder.trial_files("attempts.json"))) == 2)
    steps = [process.environ()["SLURM_STEP_ID"] for process in workers_in(site.folder)]
    assert len({*steps}) == 2, "each trial has a step of its own"
    output, _ = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, output
    assert [record.outcome.status for record in load_records(folder)] == ["ok"] * 6
    cluster.ask("scancel", job)
    wait_until_none(cluster.jobs, timeout_s=20)


def knee(site: Site, *words: str) -> "subprocess.Popen[str]":
    """Start `envknee knee` on a fake program, whose trials need no GPU."""
    (site.folder / "fake.yaml").write_text(CLIMBING_PRESET, encoding="utf-8")
    return site.begin(
        [sys.executable, "-m", "envknee", *KNEE, "--preset", "fake.yaml", "--name", "tiny", *words,
         "--", sys.executable, str(FAKE)]
    )  # fmt: skip


def test_knee_has_a_job_for_each_size_and_repeat(site: Site, cluster: Cluster):
    before = len(cluster.ended())
    site.prepared()
    sweep = knee(site, "--profile", "slurm", "--num-envs", "8,16", "--repeats", "2", "--iterations", "2")
    output, _ = sweep.communicate(timeout=400)
    print(what_jobs_said(site, cluster))
    assert sweep.returncode == 0, output
    records = load_records(site.results())
    assert sorted((record.request.num_envs, record.request.repeat) for record in records) == [
        (8, 0), (8, 1), (16, 0), (16, 1),
    ]  # fmt: skip
    assert len(cluster.ended()) - before == 4
    assert output.splitlines()[-1].startswith(f"  {sys.executable} {FAKE} --envs ")
    wait_until_none(cluster.jobs, timeout_s=20)


def test_knee_searches_on_all_gpus_of_an_allocation_in_turns(site: Site, cluster: Cluster):
    site.prepared()
    words = ["salloc", "--no-shell", "--job-name=mine", "--nodes=1", "--gres=gpu:2", "--cpus-per-task=8", "--time=60"]
    site.run(words, timeout_s=60)
    (job,) = [number for number, seen in cluster.jobs().items() if seen["name"] == "mine"]
    site.environment |= {"SLURM_JOB_ID": job}
    sweep = knee(site, "--profile", "allocation", "--from", "8", "--to", "16", "--repeats", "4", "--iterations", "40")
    wait_for(lambda: len(list(site.results().trial_files("attempts.json"))) == 2, timeout_s=120)
    steps = [process.environ()["SLURM_STEP_ID"] for process in workers_in(site.folder)]
    assert len({*steps}) == 2, "each trial has a step of its own"
    output, _ = sweep.communicate(timeout=400)
    print(output)
    assert sweep.returncode == 0 and "envknee: 2 trials run at once" in output
    ran_here = without_skipped(load_records(site.results()))
    assert {record.request.num_envs for record in ran_here} == {8, 16}
    size = re.search(r"\nAlone, (\d+) environments have [\d,]+ FPS \(3 trials", output)
    assert size is not None and "beside 1 other trial" in output.replace("\n", " ")
    assert len(load_records(site.results(f"tiny-alone-{size[1]}"))) == 3
    assert output.splitlines()[-1].startswith(f"  {sys.executable} {FAKE} --envs {size[1]}"), "the last line stays"
    succeeded(site.module("replay", "--verify", str(site.results().root)))
    cluster.ask("scancel", job)
    wait_until_none(cluster.jobs, timeout_s=20)
