"""Trains with RSL-RL's PPO and Isaac Lab's wrapper for it; wraps the algorithm's methods to measure them.

Upstream: rsl-rl-lib 5.5.1. `train` follows the steps of `isaaclab train --rl_library rsl_rl` (Isaac Lab 3.0.0).
"""

import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from isaaclab.utils import to_dict
from isaaclab_rl.rsl_rl import RslRlVecEnvWrapper
from isaaclab_rl.rsl_rl.utils import create_rsl_rl_runner, handle_deprecated_rsl_rl_cfg
from leanframes.captured import stream_of
from leanframes.rsl_rl import AccumulatingPPO, FrameStorage, LeanPPO
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from envknee import tasks
from envknee.measure.learner import LearnerDescription
from envknee.measure.meter import Meter
from envknee.measure.out_of_memory import is_out_of_memory
from envknee.record.schema import Phase, Request
from envknee.study import remedies
from envknee.study.errors import UserError
from envknee.study.overrides import apply_overrides, hydra
from envknee.study.value_types import Overrides
from envknee.tasks.lean_errors import asked_by
from envknee.trainers import TrialConfig
from envknee.trainers.command import program
from envknee.trainers.common import configure, isaac_lab, metered

ALGORITHM_PHASES: dict[str, Phase] = {
    "act": "inference",
    "process_env_step": "storage",
    "compute_returns": "learning",
    "update": "learning",
}
"""Methods of the algorithm that `OnPolicyRunner.learn` calls, and their phases."""


def resolve(request: Request, device: str, rank: int = 0) -> TrialConfig:
    """Return the complete configuration of one rank of a trial (`Trainer.resolve`)."""
    env_cfg, registered, agent_overrides = configure.resolve_task(request, configure.RSL_RL, device, rank)
    # Any: its fields depend on the task.
    agent_cfg: Any = handle_deprecated_rsl_rl_cfg(registered, version("rsl-rl-lib"))
    requested: Overrides = {"device": device, "seed": request.seed + rank, "num_steps_per_env": request.horizon}
    if request.staggered is not None:
        requested["init_at_random_ep_len"] = request.staggered
    agent_cfg.save_interval = metered.UNREACHABLE
    agent_cfg.check_for_nan = False  # the meter's check also finds infinities, and names their tensor and step
    apply_overrides(agent_cfg, requested | remedies.agent_fields(request.memory, request.trainer), "agent")
    if request.observations == "lean":  # as docs/leanframes.md shows
        agent_cfg.algorithm.class_name = "leanframes.rsl_rl:LeanPPO"
        agent_cfg.algorithm.fused = None  # so that an arm's overrides name it
        for model in (agent_cfg.actor, agent_cfg.critic):
            if model.class_name == "CNNModel":
                model.class_name = "leanframes.rsl_rl:LeanCNNModel"
    mini_batches = configure.fields_set_by_batch_size(request, "algorithm.num_mini_batches")
    apply_overrides(agent_cfg, agent_overrides, "agent", (*requested, *mini_batches))
    algorithm = agent_cfg.algorithm
    if request.observations == "lean" and not isinstance(algorithm.fused, bool | None):
        raise UserError(f"agent.algorithm.fused: {algorithm.fused!r} is neither true nor false")
    configure.use_rule(
        request, agent_cfg, agent_overrides, learning_rate="algorithm.learning_rate", epochs="algorithm.num_learning_epochs",
        adapts="agent.algorithm.schedule: fixed" if algorithm.schedule == "adaptive" else None,
    )  # fmt: skip
    algorithm.num_mini_batches = configure.num_mini_batches(request, algorithm.num_mini_batches)
    return TrialConfig(request.task_id, env_cfg, agent_cfg)


def command_line(request: Request, device: str) -> list[str]:
    """Return Isaac Lab's own command for the same training: task, seed, sizes, overrides and asset. The baseline of `make overhead`.

    Upstream: `isaaclab train` of Isaac Lab 3.0.0, which sets fields with Hydra.
    """
    registered, _ = tasks.resolve(request.task_id, configure.RSL_RL, request.overrides.get("presets"))
    config = resolve(request, device)
    command = isaac_lab.train_command(request)
    assert command is not None, "Isaac Lab has RSL-RL"
    known = program.values(request.model_copy(update={"command": command}), Path(), 1) | {
        "device": device,
        "num_mini_batches": str(config.agent.algorithm.num_mini_batches),
        "iterations": str(request.warmup_iterations + (request.iterations or 0)),
    }
    words = [program.filled(word, known) for word in (*command.argv, *command.arguments, *command.batch_arguments)]
    sizes = {word.partition("=")[0] for word in words}
    fields = isaac_lab.train_overrides(request) | _changed(to_dict(registered), to_dict(config.env), "env")
    overrides = [f"{name}={hydra(value)}" for name, value in fields.items() if name not in sizes]
    return [sys.executable, "-m", *words, *overrides]


def _changed(before: dict[str, Any], after: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the values of a configuration that differ from another's, by dotted name."""
    changed = {}
    for name, value in after.items():
        if isinstance(value, dict) and isinstance(before[name], dict):
            changed |= _changed(before[name], value, f"{path}.{name}")
        elif value != before[name]:
            changed[f"{path}.{name}"] = value
    return changed


def train(config: TrialConfig, meter: Meter) -> None:
    """Train with `OnPolicyRunner.learn` until the meter raises `TrialDone`."""
    env = RslRlVecEnvWrapper(metered.start(config, meter), clip_actions=config.agent.clip_actions)
    is_lean = meter.request.observations == "lean"
    # Stock frames keep RSL-RL's log, as its users have it. It waits for the GPU in every step, so lean frames have none.
    log_dir = None if is_lean else str(meter.trial.root / "rsl_rl")
    runner: Any
    gradients = None
    with asked_by("observations: lean", "observations: stock"):
        if meter.ranks.world_size == 1:
            runner = create_rsl_rl_runner(env, config.agent, log_dir=log_dir)
        else:
            meter.ranks.join(config.agent.device)
            runner = RankRunner(env, to_dict(config.agent), log_dir=log_dir, device=config.agent.device)
            runner.alg.optimizer.register_step_post_hook(lambda *_: meter.beat())
            gradients = GradientWatch(runner.alg)
    runner.cfg["logger"] = {"class_name": metered.NoWriter}
    if is_lean:  # rows are written while the GPU learns
        # All graphs are captured on this stream, so it has cuBLAS's workspace already.
        beside = stream_of(meter.device.index or 0) if meter.device.type == "cuda" else None
        runner.alg.while_gpu_learns = partial(meter.while_gpu_learns, beside)
    if isinstance(runner.alg, AccumulatingPPO):
        runner.alg.is_out_of_memory = is_out_of_memory
    runner.save = lambda *_, **__: None  # RSL-RL would save the untrained networks of the first iteration
    with asked_by("memory.on_oom: retry_accumulate", "on_oom: record"):
        remedies.prepare(meter.request.memory, runner.alg, meter)
    for method, phase in ALGORITHM_PHASES.items():
        meter.timeline.wrap(runner.alg, method, phase)
    end_iterations(runner.alg, meter, gradients)
    networks = torch.nn.ModuleDict({"actor": runner.alg.actor, "critic": runner.alg.critic})
    storage = runner.alg.storage
    frames = storage.newest_frames if isinstance(storage, FrameStorage) else {}
    observations = storage.observations.to_dict() | frames
    stored = {name: value for name, value in vars(storage).items() if isinstance(value, torch.Tensor | TensorDict)}
    learner = LearnerDescription(
        state=lambda: networks.state_dict(keep_vars=True),
        num_mini_batches=config.agent.algorithm.num_mini_batches,
        rollout_observations=lambda: observations,
        stored_bytes=TensorDict(stored, batch_size=[]).bytes(),
        optimizers=[runner.alg.optimizer],
        export_policy=lambda path: runner.export_policy_to_jit(str(path.parent), path.name),
        calls_while_gpu_learns=is_lean,
    )
    meter.start_training(learner)
    runner.learn(metered.UNREACHABLE, init_at_random_ep_len=config.agent.init_at_random_ep_len)


class RankRunner(OnPolicyRunner):
    """RSL-RL's runner as one of several ranks, which are already connected (`Ranks.join`).

    Upstream 5.5.1 connects ranks through a TCP port that listens on every address, and only on GPUs.
    """

    def _configure_multi_gpu(self) -> None:
        self.gpu_world_size = torch.distributed.get_world_size()
        self.gpu_global_rank = self.gpu_local_rank = torch.distributed.get_rank()
        self.is_distributed = True
        self.cfg["multi_gpu"] = {
            "global_rank": self.gpu_global_rank,
            "local_rank": self.gpu_local_rank,
            "world_size": self.gpu_world_size,
        }


class GradientWatch:
    """Sums a rank's squared gradient norms, before and after gradients are averaged over the ranks."""

    def __init__(self, algorithm: Any) -> None:
        """Wrap `algorithm.reduce_parameters`, which upstream calls in every optimizer step before clipping."""
        self._algorithm = algorithm
        self._sums = torch.zeros(3, device=algorithm.device)
        """Sum of own squares, sum of averaged ones, number of optimizer steps; on the device, because a CUDA graph may add to them."""
        reduce = algorithm.reduce_parameters

        def reduce_and_watch() -> None:
            of_rank = self._square()
            reduce()
            self._sums += torch.stack([of_rank, self._square(), torch.ones_like(of_rank)])

        algorithm.reduce_parameters = reduce_and_watch

    def take(self) -> tuple[float, float] | None:
        """Return the means of (own square, averaged square) over the optimizer steps since the last call; None without steps."""
        of_rank, shared, steps = self._sums.tolist()
        self._sums.zero_()
        return (of_rank / steps, shared / steps) if steps else None

    def _square(self) -> torch.Tensor:
        parameters = (*self._algorithm.actor.parameters(), *self._algorithm.critic.parameters())
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        return torch.nn.utils.get_total_norm(gradients).square()


def end_iterations(algorithm: Any, meter: Meter, gradients: GradientWatch | None) -> None:
    """Make each update of `algorithm` end an iteration of `meter`, on every rank. RSL-RL itself logs only on rank 0."""
    update = algorithm.update

    def update_and_report() -> dict[str, float]:
        losses = update()
        has_fetched_std = isinstance(algorithm, LeanPPO)
        meter.end_iteration(
            losses=losses,
            learning_rate=algorithm.learning_rate,
            action_std=algorithm.action_std if has_fetched_std else algorithm.get_policy().output_std.mean().item(),
            gradient_squares=gradients.take() if gradients else None,
        )
        return losses

    algorithm.update = update_and_report
