"""`strategy: async2`: simulation and learning side by side. Real Isaac Lab and TorchRL, both sides on the CPU in two threads."""

import threading
import time
from typing import Any

import pytest
import quick
import torch
from envknee.measure.meter import Meter
from envknee.record.read import read_rows
from envknee.record.schema import Row
from envknee.study.paths import TrialFolder
from needs import need
from trained import a_torchrl_trial, refusal, trained_here

need("torchrl")

from envknee.trainers.common.metered import MeteredEnv
from envknee.trainers.torchrl import async2
from envknee.trainers.torchrl.learner import Learner
from envknee.trainers.torchrl.rollouts import SampledActor
from records import known
from tensordict import TensorDict
from tensordict.nn import AddStateIndependentNormalScale, InteractionType, TensorDictModule, set_interaction_type
from torch import nn
from torchrl.modules import IndependentNormal, ProbabilisticActor


def a_pipeline(folder, **changes: Any) -> TrialFolder:
    return a_torchrl_trial(folder, strategy="async2", **changes)


def staleness(rows: list[Row]) -> list[int | None]:
    return [row.pipeline.staleness if row.pipeline else -1 for row in rows]


def test_one_side_simulates_while_the_other_learns(tmp_path, monkeypatch):
    updates, steps = [], []

    def update(self: Learner, rollout: Any) -> Any:
        began = time.perf_counter()
        losses = updated(self, rollout)
        updates.append((threading.current_thread().name, began, time.perf_counter()))
        return losses

    def step(self: Any, action: torch.Tensor) -> Any:
        assert threading.current_thread() is threading.main_thread()
        result = stepped(self, action)
        steps.append(time.perf_counter())
        return result

    updated, stepped = Learner.update, MeteredEnv.step
    monkeypatch.setattr(Learner, "update", update)
    monkeypatch.setattr(MeteredEnv, "step", step)
    meter, _ = trained_here(a_pipeline(tmp_path / "trial", iterations=3))
    assert len(meter.rows) == 4 and len(steps) == 4 * 8  # the first only fills the pipeline
    assert len(updates) == 3 and all(name.startswith("learner") for name, _, _ in updates)
    assert any(began < moment < ended for _, began, ended in updates for moment in steps)
    assert "two threads" in meter.warnings[0]

    filling, *others = meter.rows
    assert filling.warmup and filling.losses == {} and filling.frames == 64
    assert not any(row.warmup for row in others) and others[-1].frames == 4 * 64
    assert staleness(meter.rows) == [None, 0, 1, 1]
    for row in others:
        assert set(row.losses) == {"value", "surrogate", "entropy"}
        assert 0 < row.learn_s < known(row.pipeline).learner_s + 0.01  # what was waited for, of what was done


def test_lean_frames_are_handed_over_as_bytes(tmp_path):
    trial = a_pipeline(tmp_path / "trial", observations="lean", iterations=2)
    record, rows = quick.launch(trial), read_rows(trial)
    assert record.outcome.status == "ok" and staleness(rows) == [None, 0, 1]
    stock = quick.launch(a_pipeline(tmp_path / "stock", iterations=2))
    assert record.rollout_gb < 0.26 * stock.rollout_gb
    assert [row.losses for row in rows] == [row.losses for row in read_rows(TrialFolder(tmp_path / "stock"))]


def test_what_acts_has_its_noise_while_a_loss_computes():
    spread = nn.Sequential(nn.Linear(3, 1), AddStateIndependentNormalScale(1))
    actor = ProbabilisticActor(
        TensorDictModule(spread, in_keys=["policy"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=IndependentNormal,
        return_log_prob=True,
    )
    seen = TensorDict({"policy": torch.zeros(4, 3)}, [4])
    with set_interaction_type(InteractionType.DETERMINISTIC):  # as another thread's loss does, for the whole process
        assert actor(seen.clone())["action"].std() == 0
        acted = SampledActor(actor)(seen.clone())
    assert acted["action"].std() > 0
    expected = torch.distributions.Normal(acted["loc"], acted["scale"]).log_prob(acted["action"]).sum(-1)
    torch.testing.assert_close(acted["action_log_prob"], expected)


def test_weights_that_act_are_as_old_as_asked(tmp_path, monkeypatch):
    differ = []

    def end_iteration(self: Meter, *arguments: Any, **keywords: Any) -> None:
        learned = self.learner.state()
        acting = {f"actor.{name}": value for name, value in rollouts[0].actor.state_dict().items()}
        differ.append(any(not torch.equal(value, learned[name]) for name, value in acting.items()))
        ended(self, *arguments, **keywords)

    def pipeline(learner: Any, collected: Any, meter: Meter) -> None:
        rollouts.append(collected)
        piped(learner, collected, meter)

    rollouts: list[Any] = []
    ended, piped = Meter.end_iteration, async2.pipeline
    monkeypatch.setattr(Meter, "end_iteration", end_iteration)
    monkeypatch.setattr(async2, "pipeline", pipeline)
    meter, _ = trained_here(a_pipeline(tmp_path / "trial", iterations=5, sync_every=2))
    assert staleness(meter.rows) == [None, 0, 1, 2, 1, 2]
    # After 0, 1, 2, 3, 4, 5 updates: the same when their number is even.
    assert differ == [False, True, False, True, False, True]


def test_a_trial_says_what_it_was_and_repeats(tmp_path):
    trial = a_pipeline(tmp_path / "first", iterations=2)
    record, rows = quick.launch(trial), read_rows(trial)
    assert record.outcome.status == "ok", record.outcome
    assert record.outcome.warnings == [
        "strategy: async2 had one device (cpu) for both sides: simulation and learning share it, in two threads."
        " Two GPUs (gpus: 2) are what it is made for"
    ]
    assert record.outcome.learner_device is None and record.world_size == 1
    assert record.staleness is not None and record.staleness.median == 0.5  # 0 and 1
    assert record.learner_s is not None and record.fps_total is not None
    rollout_gb = 8 * 8 * (6 * 24 * 24 + 4) * 4 / 1e9
    assert record.rollout_gb == pytest.approx(rollout_gb)
    # One to fill, one to learn from.
    assert known(record.outcome.memory_map).rollout_gb == pytest.approx(2 * rollout_gb, rel=0.02)
    for row in rows:
        assert sum(known(row.phases_s).values()) == pytest.approx(row.iteration_s, rel=0.03, abs=0.005)
        assert row.fps_total <= row.fps_env_step_inference < row.fps_env_step
    again, _ = trained_here(a_pipeline(tmp_path / "again", iterations=2))
    assert [(row.reward_mean, row.losses) for row in again.rows] == [(row.reward_mean, row.losses) for row in rows]


def test_what_a_pipeline_cannot_do_is_refused(tmp_path):
    for changes, said in (
        ({"deterministic": True}, "async2 cannot be deterministic"),
        ({"memory": {"memory_cap_gb": 2.0}}, "async2 cannot have memory.memory_cap_gb 2"),
    ):
        assert said in refusal(tmp_path / said, "torchrl", strategy="async2", **changes)
