"""Studies on a real SLURM, a job for each trial or block: whole, two at once, and with everything that goes wrong on a cluster.

Nodes, controller and queue are real (see slurm_cluster); trials are real ones on the CPU. After each: nothing is lost, nothing was
measured twice, no process is left.
"""

import os
import re
import signal
import time

import psutil
import pytest
import yaml
from envknee.machine import gpus
from envknee.record.read import load_records
from foreign_commands import an_arm
from needs import need
from programs import refused, succeeded
from records import known
from running import trial_processes
from slurm_cluster import Cluster
from slurm_site import Site
from slurm_trials import THROUGHPUT, assert_whole, hang, job_of, logs_of_jobs, what_jobs_said
from waiting import wait_for, wait_until_none
from workspaces import TINY

need("slurm")


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
    wait_for(site.results("other").trial(0).metrics.exists, timeout_s=600)
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
    wait_for(lambda: not psutil.pid_exists(hung[victim]), timeout_s=60)
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
    wait_for(lambda: not {job, other} & set(cluster.jobs()), timeout_s=60)
    wait_until_none(lambda: trial_processes(site.folder), timeout_s=60)
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
    hang(site, folder, 0)
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
    long = THROUGHPUT | {"num_envs": 4, "iterations": 1500, "repeats": 2}  # of 0.02 s
    study = site.study(window=1, arms={"fake": an_arm()}, task=None, throughput=long, learning=None)
    sweep = site.start(study, site.verdict_of(study))
    rows = folder.trial(0).metrics
    wait_for(lambda: rows.exists() and rows.stat().st_size > 0, timeout_s=600)
    job = known(job_of(cluster, 0))
    cluster.ask("scontrol", "suspend", job)
    wait_for(lambda: cluster.jobs()[job]["state"] == "SUSPENDED")

    def is_stopped() -> bool:
        """SLURM asks first (SIGTSTP), and stops two seconds later. A row takes 0.02 s."""
        before = rows.stat().st_size
        time.sleep(2)
        return rows.stat().st_size == before

    wait_for(is_stopped)
    assert cluster.jobs()[job]["state"] == "SUSPENDED" and not folder.trial(0).outcome.exists()
    cluster.ask("scontrol", "resume", job)
    rows = folder.trial(1).metrics
    wait_for(lambda: rows.exists() and rows.stat().st_size > 0, timeout_s=600)
    requeued = known(job_of(cluster, 1))
    cluster.ask("scontrol", "requeue", requeued)
    wait_for(lambda: job_of(cluster, 1, "PENDING") == requeued)
    output, _ = sweep.communicate(timeout=400)
    assert sweep.returncode == 0, output
    records = assert_whole(folder, 2, cluster, site)
    assert [(record.outcome.status, record.lost_attempts) for record in records] == [("ok", 1), ("ok", 1)]
    assert all(len(list(folder.trial(number).root.glob("metrics.interrupted-*"))) == 1 for number in (0, 1))


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
