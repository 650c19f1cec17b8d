"""TorchRL's PPO behind the trainers' interface, for real in Isaac Lab on the CPU."""

from pathlib import Path
from typing import Any

import pytest
import torch
from alike import AlikeTests
from needs import need

need("torchrl")

from envknee.trainers import torchrl  # once it is known to be there
from envknee.trainers.common.metered import MeteredEnv
from envknee.trainers.torchrl.learner import Learner
from envknee.trainers.torchrl.rollouts import next_values
from trained import HORIZON, NUM_ENVS, REFUSED, SMALL, a_request, a_torchrl_trial, assert_refused, refusal, trained_here


class TestTorchRl(AlikeTests):
    trainer = "torchrl"
    px = 24
    observation_bytes = (6 * 24 * 24 + 4) * 4  # the actor's frames, the critic's four numbers

    @pytest.mark.parametrize("words", [option for option in REFUSED if option != "observations: lean"])
    def test_what_it_cannot_do_is_refused(self, tmp_path: Path, words: str) -> None:
        assert_refused(tmp_path / "refused", self.trainer, words)


def test_lean_frames_give_the_same_training_from_a_quarter_of_the_bytes(tmp_path):
    rows, rollouts_gb = {}, {}
    for observations in ("stock", "lean"):
        meter, done = trained_here(a_torchrl_trial(tmp_path / observations, observations=observations, iterations=2))
        assert done.status == "ok"
        rows[observations] = [(row.reward_mean, row.losses, row.action_std) for row in meter.rows]
        rollouts_gb[observations] = meter.rollout_gb
    assert rows["lean"] == rows["stock"]
    frames, numbers = HORIZON * NUM_ENVS * 6 * 24 * 24 / 1e9, HORIZON * NUM_ENVS * 4 * 4 / 1e9
    assert rollouts_gb == pytest.approx({"stock": 4 * frames + numbers, "lean": frames + numbers})


def test_isaac_labs_own_networks_train_too(tmp_path):
    trial = a_torchrl_trial(tmp_path / "trial", task_id="Isaac-Cartpole-Direct", overrides={}, iterations=1)
    _, done = trained_here(trial)
    assert done.status == "ok"


def test_what_is_learned_from_is_what_the_environment_gave(tmp_path, monkeypatch):
    # Isaac Lab writes rewards and ends of episodes into the same tensors at every step.
    seen: dict[str, list[torch.Tensor]] = {"observations": [], "rewards": [], "terminated": [], "truncated": []}
    buffers, rollouts = set(), []

    def watched(self: Any, action: torch.Tensor) -> Any:
        observations, rewards, terminated, truncated, extras = stepped(self, action)
        buffers.add(terminated.data_ptr())
        values = (observations["policy"], rewards, terminated, truncated)
        for name, value in zip(seen, values, strict=True):
            seen[name].append(value.clone())
        return observations, rewards, terminated, truncated, extras

    def kept(self: Learner, rollout: Any, *arguments: Any, **keywords: Any) -> Any:
        rollouts.append(rollout.clone())
        return updated(self, rollout, *arguments, **keywords)

    stepped, updated = MeteredEnv.step, Learner.update
    monkeypatch.setattr(MeteredEnv, "step", watched)
    monkeypatch.setattr(Learner, "update", kept)
    trained_here(a_torchrl_trial(tmp_path / "trial", iterations=2))
    assert len(buffers) == 1, "the environment no longer reuses its tensors: this test has lost its subject"
    learned: Any = torch.cat(rollouts)
    after = learned["next"]
    assert after["reward"].shape == (2 * HORIZON, NUM_ENVS, 1)
    assert torch.equal(after["reward"][..., 0], torch.stack(seen["rewards"]))
    assert torch.equal(after["terminated"][..., 0], torch.stack(seen["terminated"]))
    assert torch.equal(after["truncated"][..., 0], torch.stack(seen["truncated"]))
    assert after["done"].any() and torch.equal(after["done"], after["terminated"] | after["truncated"])
    # What the policy saw before step t + 1 is what step t gave, also where an episode ended, and across rollouts.
    assert torch.equal(learned["policy"][1:], torch.stack(seen["observations"])[:-1])
    assert after.get("policy", None) is None, "each frame is stored once"


def test_a_network_that_breaks_is_a_result(tmp_path):
    overrides = SMALL | {"agent.learning_rate": 1e30}
    _, done = trained_here(a_torchrl_trial(tmp_path / "trial", iterations=5, overrides=overrides))
    assert done.status in ("nan", "diverged")
    assert done.failure is not None and done.failure.tensor is not None


def test_a_batch_that_does_not_divide_the_rollout_is_refused(tmp_path):
    said = refusal(tmp_path / "trial", "torchrl", num_envs=3, horizon=3, batch_size=None)
    assert "batch_size: library: 16 mini-batches do not divide num_envs 3" in said


def test_networks_are_those_of_rsl_rl(tmp_path):
    agent = torchrl.resolve(a_request(tmp_path / "trial", "torchrl"), "cpu").agent
    assert agent.actor_cnn == {
        "output_channels": [8, 16, 16], "kernel_size": [5, 3, 3], "stride": [2, 2, 2], "activation": "relu", "dilation": 1,
        "padding": "none", "norm": "none", "max_pool": False, "global_pool": "none", "flatten": True,
    }  # fmt: skip
    assert (agent.actor_groups, agent.critic_groups, agent.critic_cnn) == (["policy"], ["critic"], None)
    assert (agent.actor_hidden_dims, agent.critic_hidden_dims, agent.loss_critic_type) == ([64], [32, 32], "l2")
    assert (agent.clip_actions, agent.value_loss_coef, agent.desired_kl, agent.gamma) == (1.0, 2.0, None, 0.99)
    assert agent.learning_rate == 3e-4


def test_the_value_after_the_end_of_an_episode_is_the_one_before_it():
    values = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])[..., None]
    dones = torch.tensor([[False, True], [False, False], [True, False]])[..., None]
    following = next_values(values, torch.tensor([[4.0], [40.0]]), dones)
    # Environment 0: 1 leads to 2 leads to 3, which ended. Environment 1: 10 ended; 20 leads to 30 leads to 40.
    assert following[..., 0].tolist() == [[2.0, 10.0], [3.0, 30.0], [3.0, 40.0]]
