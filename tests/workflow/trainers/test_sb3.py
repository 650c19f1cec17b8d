"""Stable-Baselines3 trains in real trials on the CPU, and says of them what RSL-RL's say."""

from typing import Any

import numpy
import torch
from alike import AlikeTests
from envknee import tasks
from envknee.trainers import load
from gymnasium import spaces
from needs import need
from trained import a_request, refusal

need("sb3")

from envknee.trainers.sb3 import observations_of
from stable_baselines3.common.buffers import RolloutBuffer


class TestStableBaselines3(AlikeTests):
    trainer = "sb3"
    px = 24
    observation_bytes = 6 * 24 * 24 * 4  # the policy's alone


def test_a_batch_that_does_not_fit_is_refused(tmp_path):
    text = refusal(tmp_path / "camera", "sb3", num_envs=5, horizon=5, batch_size=None)
    assert "16 mini-batches do not divide num_envs 5 x horizon 5" in text
    state: dict[str, Any] = {"task_id": "Isaac-Cartpole-Direct", "overrides": {}}
    text = refusal(tmp_path / "state", "sb3", **state, num_envs=8, horizon=8, batch_size=None)
    assert "batches of 4096, which do not divide num_envs 8 x horizon 8" in text


def test_what_a_registered_configuration_may_ask_for_and_not_get_is_named(tmp_path, monkeypatch):
    own, resolve = {"learning_rate": "lin_3e-4", "normalize_input": True}, tasks.resolve
    monkeypatch.setattr(tasks, "resolve", lambda *given: (resolve(*given)[0], resolve(*given)[1] | own))
    state: dict[str, Any] = {"task_id": "Isaac-Cartpole-Direct", "num_envs": 8, "horizon": 8, "batch_size": 32}
    text = refusal(tmp_path / "schedule", "sb3", **state, overrides={})
    assert (
        "agent.learning_rate: 'lin_3e-4' is a schedule" in text and "`overrides: {agent.learning_rate: 3.0e-4}`" in text
    )
    text = refusal(tmp_path / "normalized", "sb3", **state, overrides={"agent.learning_rate": 3.0e-4})
    assert "Set `overrides: {agent.normalize_input: false}`" in text
    told = {"agent.learning_rate": 3.0e-4, "agent.normalize_input": False}
    request = a_request(tmp_path / "as-told", "sb3", **state, overrides=told)
    assert load("sb3").resolve(request, "cpu").agent["learning_rate"] == 3.0e-4


def test_a_rollout_is_read_where_it_lies_before_and_after_learning():
    numbers = spaces.Box(-100.0, 100.0, (2,), numpy.float32)
    rollout = RolloutBuffer(3, numbers, spaces.Box(-1.0, 1.0, (1,), numpy.float32), "cpu", n_envs=4)
    given = numpy.arange(3 * 4 * 2, dtype=numpy.float32).reshape(3, 4, 2)
    nothing = numpy.zeros(4, dtype=numpy.float32)
    for observations in given:
        rollout.add(observations, nothing, nothing, nothing, torch.zeros(4, 1), torch.zeros(4))
    assert torch.equal(observations_of(rollout)["policy"], torch.from_numpy(given))
    next(rollout.get(4))
    assert rollout.observations.shape == (12, 2)  # in the order of environments now
    assert torch.equal(observations_of(rollout)["policy"], torch.from_numpy(given))


def test_a_task_with_a_configuration_for_it_keeps_that(tmp_path):
    state: dict[str, Any] = {"task_id": "Isaac-Cartpole-Direct", "overrides": {"agent.n_epochs": 7}}
    request = a_request(tmp_path / "state", "sb3", **state, num_envs=8, horizon=8, batch_size=32)
    agent = load("sb3").resolve(request, "cpu").agent
    assert agent["policy_kwargs"]["net_arch"] == [32, 32] and (agent["n_epochs"], agent["gamma"]) == (7, 0.99)
    assert (agent["n_steps"], agent["batch_size"]) == (8, 32)


def test_the_camera_task_gets_rsl_rls_network(tmp_path):
    request = a_request(tmp_path / "camera", "sb3")
    agent = load("sb3").resolve(request, "cpu").agent
    stock = load("rsl_rl").resolve(request.model_copy(update={"trainer": "rsl_rl"}), "cpu").agent
    assert agent["policy_kwargs"]["features_extractor_kwargs"]["cnn_cfg"]["output_channels"] == [8, 16, 16]
    assert agent["policy_kwargs"]["net_arch"] == {"pi": stock.actor.hidden_dims, "vf": stock.critic.hidden_dims}
    algorithm = stock.algorithm
    assert (agent["n_epochs"], agent["learning_rate"]) == (algorithm.num_learning_epochs, algorithm.learning_rate)
