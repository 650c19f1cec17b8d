"""`strategy: ray`: collectors in processes of a real Ray on this machine, each with a real Isaac Lab on the CPU, and one learner."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from camera_trials import has_rows, started_launcher
from envknee.machine import environment
from envknee.record.read import read_rows
from envknee.record.schema import Request
from envknee.run import launch
from envknee.study.errors import UserError
from envknee.study.files import read_model
from envknee.study.paths import TrialFolder
from envknee.study.strategies import own_cluster
from needs import need
from records import known
from running import listening, processes_that
from trained import HORIZON, NUM_ENVS, a_torchrl_trial, refusal
from waiting import wait_for

need("torchrl")

from envknee.trainers.torchrl import collectors, remote

MARK = "ENVKNEE_TEST_MARK"
"""A variable that everything a trial starts inherits: what has it is of that trial."""

STATE_TASK = {"task_id": "Isaac-Cartpole-Direct", "overrides": {"presets": "newton_mjwarp"}}


def a_gathering(folder: Path, **changes: Any) -> TrialFolder:
    """Write the request of a trial with two collectors of eight environments each."""
    return a_torchrl_trial(folder, **({"strategy": "ray", "gpus": 0, "cpu_ranks": 2, "iterations": 2} | changes))


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Mark all that a test starts; what is left of it afterwards is ended."""
    need("ray")
    text = uuid.uuid4().hex
    monkeypatch.setenv(MARK, text)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield text
    for process in marked(text):
        process.kill()


def marked(text: str) -> list[psutil.Process]:
    """Return the processes with that mark, but for this one."""
    return processes_that(lambda process: process.pid != os.getpid() and process.environ().get(MARK) == text)


def test_rollouts_of_two_collectors_are_learned_from_together(tmp_path, mark):
    trial = a_gathering(tmp_path / "trial", warmup_iterations=1, observations="lean")
    record, rows = launch.launch(trial), read_rows(trial)
    assert not marked(mark), "something that Ray started is left"
    assert record.outcome.status == "ok", record.outcome

    rollout = 2 * NUM_ENVS * HORIZON
    assert [row.frames for row in rows] == [rollout, 2 * rollout, 3 * rollout]
    assert (record.world_size, record.num_envs_total) == (2, 2 * NUM_ENVS)
    assert record.num_mini_batches == rollout // 32
    assert record.rollout_gb == pytest.approx(rollout * (6 * 24 * 24 + 4 * 4) / 1e9)  # of all collectors, as bytes
    for row in rows:
        ranks = known(row.ranks)
        assert [rank.rank for rank in ranks] == [0, 1]
        assert row.episodes == sum(rank.episodes for rank in ranks)
        assert row.env_step_s == max(rank.env_step_s for rank in ranks)
        for phases_s in (known(row.phases_s), *(rank.phases_s or {} for rank in ranks)):
            assert sum(phases_s.values()) == pytest.approx(row.iteration_s, rel=0.03, abs=0.005)
            assert min(phases_s.values()) > 0  # none is missing
        assert row.fps_total < row.fps_env_step_inference < row.fps_env_step
        assert {"value", "surrogate", "entropy"} <= set(row.losses)
        assert row.pipeline is not None and row.pipeline.memory is not None and row.pipeline.staleness == 0
        assert row.memory.peak_rss_gb >= max(rank.memory.peak_rss_gb for rank in ranks)
    # Of six steps each, in 24 steps.
    assert sum(row.episodes or 0 for row in rows) >= 2 * NUM_ENVS
    assert {row.episode_length_mean for row in rows if row.episodes} == {6.0}
    # The collectors acted with what was learned: their own noise had not changed.
    assert rows[0].action_std == 1 and len({row.action_std for row in rows}) == 3

    for rank in known(record.outcome.ranks):
        assert rank.startup_s is not None and rank.host
        assert known(rank.memory_map).rollout_gb * 2 == pytest.approx(record.rollout_gb, rel=0.02)
    assert record.ranks is not None and len(record.ranks) == 2
    assert trial.frames.exists()


def test_a_simulation_that_breaks_in_a_collector_is_a_result(tmp_path, mark):
    drill = {"kind": "invalid_reset", "at_step": HORIZON + 2}
    trial = a_gathering(tmp_path / "trial", inject=drill, iterations=5, **STATE_TASK)
    record = launch.launch(trial)
    assert not marked(mark)
    assert record.outcome.status == "nan" and record.outcome.failure is not None, record.outcome
    assert "collector 0: DRILL" in (record.outcome.reason or "")
    assert record.outcome.failure.iteration == 1 and record.outcome.failure.env_indices == [0]
    assert len(read_rows(trial)) == 1


def test_nothing_listens_elsewhere_and_nothing_outlives_a_killed_launcher(tmp_path, mark):
    trial = a_gathering(tmp_path / "trial", iterations=100_000, cpu_ranks=1, **STATE_TASK)
    launcher = started_launcher(trial, **{MARK: mark})
    folders: set[str] = set()
    try:
        wait_for(lambda: has_rows(trial), timeout_s=240)
        running = marked(mark)
        assert {"raylet", "gcs_server"} <= {process.name() for process in running}
        folders |= {process.environ()["RAY_TMPDIR"] for process in running if process.name() == "raylet"}
        addresses = listening(running)
        assert addresses and addresses <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    finally:
        os.kill(launcher.pid, signal.SIGKILL)
        launcher.wait()
    wait_for(lambda: not marked(mark), timeout_s=120)
    assert folders
    wait_for(lambda: not any(map(os.path.exists, folders)), timeout_s=120)


GPUS_OF_ACTORS = """
import os
from types import SimpleNamespace
import ray
from envknee.trainers.torchrl.collectors import start_ray

start_ray(SimpleNamespace(strategy="ray"), 2, on_gpus=True)

@ray.remote(num_cpus=1, num_gpus=1)
class Collector:
    def __init__(self):
        self.gpus = os.environ["CUDA_VISIBLE_DEVICES"]

    def seen(self):
        return self.gpus

both = [Collector.remote() for _ in range(2)]
print("SEEN", *sorted(ray.get([one.seen.remote() for one in both])), os.environ["CUDA_VISIBLE_DEVICES"])
ray.shutdown()
"""


def test_each_collector_sees_one_gpu_of_the_trial_and_the_learner_sees_all(mark):
    # Ray counts GPUs that are only named: which of them a process gets is decided without a driver.
    with tempfile.TemporaryDirectory() as folder:  # a short path: Ray's sockets lie in it
        variables = {**own_cluster("ray", Path(folder)), "CUDA_VISIBLE_DEVICES": "GPU-one,GPU-two"}
        said = subprocess.run(
            [sys.executable, "-c", GPUS_OF_ACTORS],
            env=os.environ | variables,
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert "SEEN GPU-one GPU-two GPU-one,GPU-two\n" in said.stdout, said.stdout + said.stderr


def test_a_collector_without_its_gpu_is_refused_and_never_runs_on_the_cpu(tmp_path):
    trials = {gpus: a_gathering(tmp_path / f"{gpus}", gpus=gpus, cpu_ranks=1) for gpus in (0, 1, 4)}
    asked = {gpus: remote.gpus_of_collector(read_model(own.request, Request, "")) for gpus, own in trials.items()}
    assert asked == {0: 0, 1: 1, 4: 1}
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="gpus"):
            environment.choose_device(1)


def test_what_collectors_cannot_do_is_refused(tmp_path, monkeypatch):
    ray: Any = {"trainer": "torchrl", "strategy": "ray", "gpus": 0, "cpu_ranks": 2}
    for address in ("127.0.0.1:1", "somewhere"):
        with pytest.raises(UserError, match=f"RAY_ADDRESS={address}: expected HOST:PORT"):
            collectors.check_answers(address)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    absent = refusal(tmp_path / "absent", **ray)
    assert "needs the package ray" in absent and "make setup TRAINERS=ray" in absent
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert "ray cannot be deterministic" in refusal(tmp_path / "deterministic", **ray, deterministic=True)
    assert "cannot have memory.memory_cap_gb" in refusal(tmp_path / "cap", **ray, memory={"memory_cap_gb": 2.0})
