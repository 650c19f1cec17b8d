"""Nodes that a person already has: what they offer, how a step is started on them, and when no further trial begins."""

import os
import shlex
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from envknee.run import launch, nodes
from envknee.slurm import admission, allocation, facts, jobs, rule_resources
from envknee.slurm.allocation import Allocation, Closing
from envknee.slurm.facts import Node
from envknee.slurm.jobs import Shape
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.paths import StudyFolder
from programs import run_main
from records import a_study, a_trial

JOB = (  # scontrol --oneliner show job --details of SLURM 22.05, shortened
    "JobId=7 JobName=mine JobState=RUNNING StartTime=2026-11-24T19:27:59 EndTime=2026-11-24T20:27:59 Partition=gpu"
    " NodeList=n[1-3] NumNodes=3 NumCPUs=36 JOB_GRES=gpu:h100:8"
    " Nodes=n[1-2] CPU_IDs=0-7,16-23 Mem=64000 GRES=gpu:h100:4(IDX:0-3) Nodes=n3 CPU_IDs=0-3 Mem=8000 GRES= MinCPUsNode=1"
)
HOSTS = {"n[1-2]": "n1\nn2\n", "n3": "n3\n"}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    said = {"job": JOB}

    def ask(command: Sequence[str]) -> str:
        if command[0] == "sinfo":
            return "1\n2\n"
        return HOSTS[command[-1]] if "hostnames" in command else said["job"]

    monkeypatch.setattr(facts, "ask", ask)
    return said


def alike(count: int, gpus: int, cpus: int = 16, mem_mb: int = 64000) -> Allocation:
    kinds = ((None, gpus),) if gpus else ()
    return Allocation("7", tuple(Node(f"n{number}", kinds, cpus, mem_mb) for number in range(count)))


def test_an_allocation_is_what_the_controller_says_of_the_job(cluster: dict[str, str]):
    observed = allocation.observe({"SLURM_JOB_ID": "7"})
    assert observed.nodes[1:] == (Node("n2", (("h100", 4),), 16, 64000), Node("n3", (), 4, 8000))
    assert (observed.devices, observed.threads_per_core) == (9, 2)
    cluster["job"] = "JobId=7 JobState=PENDING NodeList="
    with pytest.raises(UserError, match="names no nodes of job 7"):
        allocation.observe({"SLURM_JOB_ID": "7"})
    with pytest.raises(UserError, match=r"this is no SLURM job .* `salloc "):
        allocation.observe({})


def test_a_step_gets_its_devices_with_their_share_of_cores_and_memory():
    step = shlex.split(alike(2, gpus=4).prefix(Shape(2)))
    assert step[:4] == ["srun", "--jobid=7", "--nodes=1", "--ntasks=1"]
    assert {"--exact", "--gres=gpu:2", "--cpus-per-task=8", "--mem=32000M"} <= {*step}
    on_cpu = shlex.split(alike(2, gpus=4).prefix(Shape(0)))
    assert {"--gres=none", "--cpus-per-task=4", "--mem=16000M"} <= {*on_cpu}
    assert {"--gres=none", "--cpus-per-task=16"} <= {*shlex.split(alike(1, gpus=0).prefix(Shape(0)))}
    assert "--cpus-per-task=14" in replace(alike(1, gpus=4, cpus=60), threads_per_core=2).prefix(Shape(1))
    one_core = alike(1, gpus=4, cpus=1, mem_mb=4000)  # what `salloc --gres=gpu:4` gives
    assert {"--cpus-per-task=1", "--mem=4000M"} <= {*shlex.split(one_core.prefix(Shape(0)))}, "one such step at a time"
    assert {"--cpus-per-task=1", "--mem=1000M"} <= {*shlex.split(one_core.prefix(Shape(1)))}
    assert {"--cpus-per-task=1", "--mem=4000M"} <= {*shlex.split(one_core.prefix(Shape(4)))}, "SLURM has no more cores"
    assert "--mem" not in alike(1, gpus=1, mem_mb=0).prefix(Shape(1))  # memory is not shared out there


def test_a_trial_on_several_nodes_starts_its_step_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    program, assignment = shlex.split(alike(2, gpus=4).prefix(Shape(4, nodes=2)))
    assert program == "env"
    name, _, options = assignment.partition("=")
    monkeypatch.setenv(name, options)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    request = a_trial(16).request.model_copy(update={"nodes": 2, "gpus": 4})
    command, _ = nodes.command_of(launch.TrialFolder(tmp_path), request, tmp_path, None)
    assert {"--nodes=2", "--exact", "--gres=gpu:4", "--cpus-per-task=16", "--mem=64000M"} <= {*command}
    assert command.index("--exact") < command.index("-m")


def test_what_the_nodes_cannot_hold_is_known_beforehand():
    study = a_study(arms={"one": {"gpus": 1}, "pair": {"gpus": 2, "nodes": 2}, "many": {"gpus": 8}})
    named = [line.partition(":")[0] for line in allocation.problems(study, alike(1, gpus=2))]
    assert named == ["arms.many", "arms.pair"]
    assert allocation.problems(study, alike(2, gpus=8)) == []
    auto = a_study(arms={"auto": {}})
    shapes = [jobs.shape_of(auto, "auto", alike(1, gpus=count).auto) for count in (0, 2)]
    assert shapes == [Shape(0), Shape(1)]


def test_what_asked_for_the_nodes_is_not_asked_of_steps():
    environment = {"SLURM_JOB_ID": "7", "SLURM_CONF": "x", "SLURM_MEM_PER_CPU": "9", "SLURM_NTASKS": "2", "PATH": "y"}
    allocation.enter(environment)
    assert environment == {"SLURM_JOB_ID": "7", "SLURM_CONF": "x", "PATH": "y"}


def test_time_left_follows_the_jobs_end(cluster: dict[str, str]):
    ends = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 600))
    cluster["job"] = f"JobId=7 EndTime={ends}"
    assert allocation.left_s("7") == pytest.approx(600, abs=5)
    cluster["job"] = "JobId=7 EndTime=Unknown"
    assert allocation.left_s("7") is None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StudyFolder]:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(allocation, "POLL_S", 0.05)
    before = signal.getsignal(signal.SIGUSR1)
    yield StudyFolder(tmp_path)
    signal.signal(signal.SIGUSR1, before)


def test_no_trial_begins_in_the_last_minutes_even_where_the_end_was_changed(folder: StudyFolder, monkeypatch):
    closed, was_changed, ends = threading.Event(), threading.Event(), iter([290.0, 120.0])
    monkeypatch.setattr(allocation, "left_s", lambda _: next(ends) if was_changed.is_set() else 3600.0)
    closing = Closing(folder, "7", 300.0, closed.set)
    folder.closing.write_text("7", encoding="ascii")  # left by a sweep before, in the same allocation
    closing.start()
    assert closing.why is None and not allocation.is_closing(folder)
    was_changed.set()
    assert closed.wait(20) and allocation.is_closing(folder)
    assert closing.why == "job 7 ends in 5 minutes, and no trial begins in its last 5 (allocation_margin_minutes)"
    folder.closing.write_text("6", encoding="ascii")
    assert not allocation.is_closing(folder)  # of another allocation
    with pytest.raises(UserError, match=r"job 7 ends in 2 minutes.*Ask for an allocation that lasts longer"):
        Closing(folder, "7", 300.0, closed.set).start()


def test_a_signal_of_slurms_closes_a_sweep_and_its_blocks(folder: StudyFolder, monkeypatch, capsys):
    closed = threading.Event()
    monkeypatch.setattr(allocation, "left_s", lambda _: None)
    closing = Closing(folder, "7", 300.0, closed.set)
    closing.start()
    os.kill(os.getpid(), signal.SIGUSR1)
    assert closed.wait(20)
    assert closing.why is not None and "SLURM sent a signal (USR1): job 7 ends soon" in closing.why
    trials = [str(folder.trial(number).root) for number in range(2)]  # nothing is there: each would be an error
    monkeypatch.setattr(launch, "raise_at_signals", lambda _: None)
    assert run_main(launch.main, *trials) != 0
    assert capsys.readouterr().err == f"{trials[0]}: not begun, because this job ends soon\n"


def test_a_study_is_admitted_to_an_allocation_that_has_what_it_asks_for(cluster: dict[str, str]):
    environment = {"SLURM_JOB_ID": "7"}
    assert admission.to_allocation(a_study(), 5, environment).job_id == "7"
    for margin in ("5", -1, True, None):
        with pytest.raises(UserError, match="allocation_margin_minutes .*expected minutes"):
            admission.to_allocation(a_study(), margin, environment)
    with pytest.raises(UserError, match=r"this study does not fit here:\n  arms\.stock: 8 GPUs asked for"):
        admission.to_allocation(a_study(arms={"stock": {"gpus": 8}}), 5, environment)


def test_a_rules_resources_are_those_of_its_trials(cluster: dict[str, str]):
    study = a_study()
    slots = space.plan(study)[:2]
    assert rule_resources.of_rule(study, lambda _: slots, None, None) == {}
    here = allocation.observe({"SLURM_JOB_ID": "7"})
    step = rule_resources.of_rule(study, lambda _: slots, None, here)["step"]
    assert step(wildcards=None) == here.prefix(jobs.block_work(study, slots, here.auto)[0])


def test_a_site_is_sought_in_the_working_directory_first(tmp_path: Path):
    here, shipped = tmp_path / "here/site.yaml", tmp_path / "shipped/site.yaml"
    folders = [here.parent, shipped.parent]
    assert admission.find_site("site.yaml", folders) == here, "where a user would put it"
    for path in (shipped, here):
        path.parent.mkdir()
        path.write_text("")
        assert admission.find_site("site.yaml", folders) == path
