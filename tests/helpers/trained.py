"""What a trial of any trainer has to say, a way to count the optimizer steps that it really makes, and trials in this process."""

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import quick
import torch
from camera_trials import a_trial, camera
from envknee import tasks
from envknee.measure.meter import Meter
from envknee.measure.rows import TrialDone
from envknee.record.schema import Record, Request, Row
from envknee.run import resources
from envknee.study.files import read_model
from envknee.study.paths import TrialFolder
from envknee.trainers import load
from programs import told
from records import known


def a_learning_trial(px: int, **changes: Any) -> dict[str, Any]:
    """Return what asks for three iterations of two mini-batches each with square frames.

    Episodes take 12 steps of rollouts of 8: whole ones end in the third, and the target is below any reward.
    """
    return {
        "kind": "learning", "num_envs": 8, "horizon": 8, "batch_size": 32, "iterations": None, "target_reward": -100.0,
        "target_episodes": 8, "budget_s": 120.0, "deterministic": True, "staggered": False,
        "overrides": camera(px, episode_length_s=0.2), **changes,
    }  # fmt: skip


def optimizer_steps(trial: TrialFolder) -> int:
    """Run a trial in a process of its own, as the launcher does, and return how many steps its optimizer made."""
    counted = trial.root / "steps"
    variables = resources.environment_of(read_model(trial.request, Request, ""))
    with mock.patch.dict(os.environ, variables):
        quick.run_script("count_steps.py", trial.root, counted, folder=trial.root)
    return counted.stat().st_size


def assert_whole(record: Record, rows: list[Row], observation_bytes: int) -> None:
    """Check what every trainer reports alike; `observation_bytes` are those of one environment at one step."""
    request = record.request
    assert record.outcome.status == ("target_reached" if request.kind == "learning" else "ok"), record.outcome
    assert record.rollout_gb == pytest.approx(observation_bytes * request.num_envs * request.horizon / 1e9)
    for row in rows:
        assert sum(known(row.phases_s).values()) == pytest.approx(row.iteration_s, rel=0.03, abs=0.005)
        assert min(known(row.phases_s).values()) > 0  # none is missing
        assert row.fps_total < row.fps_env_step_inference < row.fps_env_step
        assert {"value", "surrogate", "entropy"} <= set(row.losses)
        assert row.learning_rate > 0 and 0.5 < row.action_std < 2
    memory = record.outcome.memory_map
    assert memory is not None and memory.static_gb > 0.2 and memory.model_gb > 0
    # Beside observations, all that the library keeps: actions, rewards, values, ... which are few bytes.
    assert record.rollout_gb < memory.rollout_gb < record.rollout_gb + 60 * request.num_envs * request.horizon / 1e9


def assert_same_training(rows: list[Row], other: list[Row]) -> None:
    for row, again in zip(rows, other, strict=True):
        assert (row.losses, row.action_std, row.reward_mean, row.episodes) == (
            again.losses, again.action_std, again.reward_mean, again.episodes,
        )  # fmt: skip


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "2 ranks": ({"gpus": 0, "cpu_ranks": 2}, "gpus: 1 or 0"),
    "observations: lean": ({"observations": "lean"}, "observations: stock"),
    "memory.mixed_precision: true": ({"memory": {"mixed_precision": True}}, "mixed_precision: false"),
    "memory.on_oom: retry_accumulate": ({"memory": {"on_oom": "retry_accumulate"}}, "on_oom: record"),
}
"""What only RSL-RL can do, as a refusal names it, and what to use instead."""


def a_request(folder: Path, trainer: str, **changes: Any) -> Request:
    return read_model(a_trial(folder, trainer=trainer, **changes).request, Request, "")


def refusal(folder: Path, trainer: str, **changes: Any) -> str:
    request = a_request(folder, trainer, **changes)
    return told(lambda: load(trainer).resolve(request, "cpu"))


def assert_refused(folder: Path, trainer: str, words: str) -> None:
    changes, instead = REFUSED[words]
    text = refusal(folder, trainer, **changes)
    assert text.startswith(f"trainer: {trainer} cannot do {words}") and f"Use {instead}, or trainer: rsl_rl" in text


SMALL = camera(24, episode_length_s=0.1)
NUM_ENVS, HORIZON = 8, 8


def a_torchrl_trial(folder: Path, **changes: Any) -> TrialFolder:
    """Write the request of a small trial of TorchRL's: two mini-batches, episodes of six steps."""
    sizes = {"trainer": "torchrl", "num_envs": NUM_ENVS, "horizon": HORIZON, "batch_size": 32, "overrides": SMALL}
    return a_trial(folder, **(sizes | changes))


def trained_here(trial: TrialFolder) -> tuple[Meter, TrialDone]:
    """Train as `trial` asks in this process, where a second environment takes a second and calls can be watched.

    Return the meter and how it ended.
    """
    request = read_model(trial.request, Request, "")
    meter, trainer, make, made = Meter(request, trial, "cpu"), load(request.trainer), tasks.make, []

    def make_and_keep(*arguments: Any) -> Any:
        made.append(make(*arguments))
        return made[-1]

    threads = torch.get_num_threads()
    # As the launcher does on two cores: threads that wait for each other by spinning take minutes.
    torch.set_num_threads(1)
    try:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(TrialDone) as done:
            patch.setattr(tasks, "make", make_and_keep)
            trainer.train(trainer.resolve(request, "cpu"), meter)
    finally:
        torch.set_num_threads(threads)
    meter.close()
    made[0].close()  # Isaac Lab has one simulation at a time
    return meter, done.value
