"""A real SLURM, and more than a job for each trial: trainings of several nodes, steps of allocations, workers, and knee."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from envknee.record.read import load_records, without_skipped
from envknee.slurm import waits
from foreign_commands import CLIMBING_PRESET, FAKE, KNEE, an_arm
from needs import need
from programs import refused, succeeded
from records import known
from running import ranks_among, trial_processes, workers_in
from slurm_cluster import Cluster
from slurm_site import Site
from slurm_trials import THROUGHPUT, assert_whole, hang, job_of, logs_of_jobs, what_jobs_said
from waiting import wait_for, wait_until_none

need("slurm")


def test_two_nodes_train_together_and_one_that_hangs_ends_both(site: Site, cluster: Cluster):
    # Nodes of this machine share its loopback interface; others name theirs in the same variable.
    site.environment |= {"GLOO_SOCKET_IFNAME": "lo"}
    arms = {"two": {"gpus": 0, "nodes": 2}}
    study = site.study(arms=arms, throughput=THROUGHPUT | {"num_envs": 4, "iterations": 40}, learning=None)
    folder = site.results()
    succeeded(site.sweep(study, "prepare"))  # on two nodes, too
    sweep = site.start(study, site.verdict_of(study))
    rows = folder.trial(0).metrics
    wait_for(lambda: rows.exists() and rows.stat().st_size > 0, timeout_s=600)
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


def allocated(site: Site, cluster: Cluster, minutes: int = 60) -> str:
    """Allocate a node from a login node, let sweeps of the site run in it, and return its job."""
    node = ["--nodes=1", "--gres=gpu:2", "--cpus-per-task=8", f"--time={minutes}"]
    site.run(["salloc", "--no-shell", "--job-name=mine", *node], timeout_s=60)
    (job,) = [number for number, seen in cluster.jobs().items() if seen["name"] == "mine"]
    site.environment |= {"SLURM_JOB_ID": job}
    return job


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
    wait_for(folder.closing.exists, timeout_s=60)
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
    other = allocated(site, cluster, minutes=4)
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
    wait_until_none(lambda: cluster.ask("squeue", "--noheader", "--steps", f"--jobs={other}").split(), timeout_s=60)

    result = site.sweep(study, *(str(folder.trial(number).record.relative_to(site.folder)) for number in range(6)))
    assert result.returncode == 0 and "[6/6] throughput stock" in result.stdout, result.stdout
    cluster.ask("scancel", other)
    records = assert_whole(folder, 6, cluster, site)
    assert [record.outcome.status for record in records] == ["ok"] * 6
    assert [record.lost_attempts for record in records] == [0, 1, 0] * 2
    assert {path: path.stat().st_mtime_ns for path in measured} == measured
    assert not any(record.queue_wait_s for record in records)  # the allocation waited, not they


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
    study = of_two_workers(site, iterations=20)
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
    wait_until_none(cluster.jobs, timeout_s=60)


def of_two_workers(site: Site, iterations: int = 60) -> Path:
    """Write a study of six trials of a fake program, which two workers measure."""
    section = {
        "num_envs": [2, 4, 8],
        "horizon": 4,
        "batch_size": "library",
        "sampler": "tpe",
        "repeats": 2,
        "iterations": iterations,
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
    wait_until_none(cluster.jobs, timeout_s=60)


def test_workers_are_steps_of_an_allocation(site: Site, cluster: Cluster):
    site.profile = "allocation"
    study = of_two_workers(site)
    folder = site.prepared()
    job = allocated(site, cluster)
    sweep = site.start(study, site.verdict_of(study))
    wait_for(lambda: len(list(folder.trial_files("attempts.json"))) == 2)
    steps = [process.environ()["SLURM_STEP_ID"] for process in workers_in(site.folder)]
    assert len({*steps}) == 2, "each trial has a step of its own"
    output, _ = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, output
    assert [record.outcome.status for record in load_records(folder)] == ["ok"] * 6
    cluster.ask("scancel", job)
    wait_until_none(cluster.jobs, timeout_s=60)


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
    wait_until_none(cluster.jobs, timeout_s=60)


def test_knee_searches_on_all_gpus_of_an_allocation_in_turns(site: Site, cluster: Cluster):
    site.prepared()
    job = allocated(site, cluster)
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
    wait_until_none(cluster.jobs, timeout_s=60)
