"""TorchRL's PPO behind the trainers' interface, for real in Isaac Lab on the CPU."""

from typing import Any

import gymnasium
import pytest
import quick
import torch
from envknee import tasks
from envknee.record.read import read_rows
from envknee.record.schema import Request
from envknee.study.files import read_model

pytest.importorskip("torchrl", reason="TorchRL is not installed: make setup TRAINERS=all")

from envknee.trainers.common.metered import MeteredEnv
from envknee.trainers.torchrl import trainer  # once it is known to be there
from envknee.trainers.torchrl.learner import Learner
from envknee.trainers.torchrl.rollouts import next_values
from trained import REFUSED, assert_refused, assert_whole, refusal
from trained_here import HORIZON, NUM_ENVS, SMALL, a_torchrl_trial, trained_here


def a_request(folder, **changes: Any) -> Request:
    return read_model(a_torchrl_trial(folder, **changes).request, Request, "")


def test_rows_are_those_of_every_trainer(tmp_path):
    trial = a_torchrl_trial(tmp_path / "trial", warmup_iterations=1, iterations=2)
    record, rows = quick.launch(trial), read_rows(trial)
    assert_whole(record, rows, observation_bytes=(6 * 24 * 24 + 4) * 4)  # the actor's frames, the critic's four numbers
    assert record.num_mini_batches == 2  # 8 x 8 transitions in batches of 32
    assert {row.learning_rate for row in rows} == {3e-4}
    assert sum(row.episodes or 0 for row in rows) >= NUM_ENVS  # of 6 steps each, in 24 steps
    assert trial.frames.exists()


def test_the_same_request_learns_the_same_in_as_many_optimizer_steps_as_asked(tmp_path, monkeypatch):
    steps = 0

    def counted(self: Any, *arguments: Any, **keywords: Any) -> Any:
        nonlocal steps
        steps += 1
        return stepped(self, *arguments, **keywords)

    stepped = torch.optim.Adam.step
    monkeypatch.setattr(torch.optim.Adam, "step", counted)
    rows = []
    for name in ("first", "again"):
        meter, done = trained_here(a_torchrl_trial(tmp_path / name, iterations=2))
        assert done.status == "ok"
        rows.append([(row.reward_mean, row.losses, row.action_std) for row in meter.rows])
    assert steps == 2 * 2 * 4 * 2  # trials x iterations x epochs x mini-batches
    assert rows[0] == rows[1]
    assert meter.export_policy is not None
    meter.export_policy(tmp_path / "policy.pt")
    policy, frames = torch.jit.load(tmp_path / "policy.pt"), torch.rand(5, 6, 24, 24)
    assert policy(torch.zeros(5, 0), [frames]).shape == (5, 1)
    assert not torch.equal(policy(torch.zeros(5, 0), [frames]), policy(torch.zeros(5, 0), [1 - frames]))


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
    assert meter.export_policy is not None
    meter.export_policy(tmp_path / "policy.pt")
    images = torch.rand(5, 6, 24, 24) - 0.5
    actions = torch.jit.load(tmp_path / "policy.pt")(torch.zeros(5, 0), [images])
    assert len(set(actions.flatten().tolist())) == 5


def test_a_policy_of_isaac_labs_own_networks_is_written_too(tmp_path):
    trial = a_torchrl_trial(tmp_path / "trial", task_id="Isaac-Cartpole-Direct", overrides={}, iterations=1)
    meter, done = trained_here(trial)
    assert done.status == "ok" and meter.export_policy is not None
    meter.export_policy(tmp_path / "policy.pt")
    states = torch.randn(5, 4)
    actions = torch.jit.load(tmp_path / "policy.pt")(states)
    assert actions.shape == (5, 1) and len(set(actions.flatten().tolist())) == 5


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


def test_a_broken_reward_is_found_where_it_broke(tmp_path, monkeypatch):
    class Breaking(gymnasium.Wrapper):
        steps = 0

        def step(self, action: Any) -> Any:
            given: Any = self.env.step(action)
            observations, rewards, *others = given
            self.steps += 1
            if self.steps == HORIZON + 3:
                rewards[5] = torch.nan
            return observations, rewards, *others

    made = tasks.make
    monkeypatch.setattr(tasks, "make", lambda *arguments: Breaking(made(*arguments)))
    meter, done = trained_here(a_torchrl_trial(tmp_path / "trial", iterations=3))
    assert done.status == "nan" and done.failure is not None
    assert (done.failure.iteration, done.failure.tensor, done.failure.env_indices) == (1, "rewards", [5])
    assert "step 2" in (done.reason or "")
    assert len(meter.rows) == 1


def test_a_network_that_breaks_is_a_result(tmp_path):
    _, done = trained_here(
        a_torchrl_trial(tmp_path / "trial", iterations=5, overrides=SMALL | {"agent.learning_rate": 1e30})
    )
    assert done.status in ("nan", "diverged")
    assert done.failure is not None and done.failure.tensor is not None


@pytest.mark.parametrize("named", [option for option in REFUSED if option != "observations: lean"])
def test_what_it_cannot_do_is_refused(tmp_path, named):
    assert_refused(tmp_path / "trial", "torchrl", named)


def test_a_batch_that_does_not_divide_the_rollout_is_refused(tmp_path):
    said = refusal(tmp_path / "trial", "torchrl", num_envs=3, horizon=3, batch_size=None)
    assert "batch_size: library: 16 mini-batches do not divide num_envs 3" in said


def test_networks_are_those_of_rsl_rl(tmp_path):
    agent = trainer.resolve(a_request(tmp_path / "trial"), "cpu").agent
    assert agent.actor_cnn == {
        "output_channels": [8, 16, 16], "kernel_size": [5, 3, 3], "stride": [2, 2, 2], "activation": "relu",
    }  # fmt: skip
    assert (agent.actor_groups, agent.critic_groups, agent.critic_cnn) == (["policy"], ["critic"], None)
    assert (agent.actor_hidden_dims, agent.critic_hidden_dims, agent.loss_critic_type) == ([64], [32, 32], "l2")
    assert (agent.clip_actions, agent.value_loss_coef, agent.desired_kl, agent.gamma) == (1.0, 2.0, None, 0.99)


def test_the_value_after_the_end_of_an_episode_is_the_one_before_it():
    values = torch.tensor([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])[..., None]
    dones = torch.tensor([[False, True], [False, False], [True, False]])[..., None]
    following = next_values(values, torch.tensor([[4.0], [40.0]]), dones)
    # Environment 0: 1 leads to 2 leads to 3, which ended. Environment 1: 10 ended; 20 leads to 30 leads to 40.
    assert following[..., 0].tolist() == [[2.0, 10.0], [3.0, 30.0], [3.0, 40.0]]
