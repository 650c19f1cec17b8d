"""Clocks, episodes and memory while a trial runs: one row per iteration, appended to metrics.jsonl.

Input: the begin and end of every step and iteration, from a trainer. Output: rows, and the signal that ends the trial.
The same meter serves every trainer; it knows torch, and nothing of Isaac Lab.
"""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
import psutil
import torch

from envknee.files import TrialFolder
from envknee.record import Failure, MemoryUse, Request, Row, Status, reward_average

DIVERGED_ABOVE = 1e6
"""A loss or an action std of this size never comes back: PPO's clipped losses and a useful std stay below 100."""

MAX_ENV_INDICES = 64
"""How many of the environments with a NaN are named in the record and dumped."""

GB = 1e9


class TrialDone(Exception):
    """Raised into the trainer's loop when the trial has its result."""

    def __init__(self, status: Status, reason: str | None = None, failure: Failure | None = None) -> None:
        """Take what the outcome will say."""
        super().__init__(reason or status)
        self.status: Status = status
        self.reason = reason
        self.failure = failure


class Meter:
    """Measures one trial.

    A trainer calls `start_training` once, `begin_step` and `end_step` around every environment step, and
    `end_iteration` after every learning phase; the last two may raise `TrialDone`.
    """

    def __init__(self, request: Request, trial: TrialFolder, device: str) -> None:
        """Open metrics.jsonl of `trial` for appending; `device` is 'cpu' or 'cuda:0'."""
        self.request = request
        self.trial = trial
        self.device = torch.device(device)
        self.rows: list[Row] = []
        self.phase = "start"
        """What the trial is doing: start, rollout or learning; an out-of-memory outcome names it."""
        self.num_mini_batches: int | None = None
        self.rollout_gb: float | None = None
        self.training_started_unix_s: float | None = None
        self._stream = trial.metrics.open("a", encoding="utf-8")
        self._process = psutil.Process()
        self._frames = 0

    def start_training(self, num_mini_batches: int, rollout_bytes: int) -> None:
        """Start the clocks: the environment and the learner exist; `rollout_bytes` is the memory of one rollout's observations."""
        self.num_mini_batches = num_mini_batches
        self.rollout_gb = rollout_bytes / GB
        self.phase = "rollout"
        num_envs = self.request.num_envs
        self._returns = torch.zeros(num_envs, device=self.device)
        self._lengths = torch.zeros(num_envs, device=self.device)
        # Trainers start environments in mid-episode, so that they don't all end at once. Such a first episode
        # is not a whole one: its return would count as too high or too low.
        self._is_whole_episode = torch.zeros(num_envs, dtype=torch.bool, device=self.device)
        self._start_iteration()
        self.training_started_unix_s = time.time()
        self._training_started = time.perf_counter()

    def begin_step(self) -> None:
        """Note that the environment starts to step. The policy's inference has been queued, so wait for it first."""
        self.phase = "rollout"
        self._synchronize()
        self._step_began = time.perf_counter()

    def end_step(self, observations: Mapping[str, torch.Tensor], rewards: torch.Tensor, dones: torch.Tensor) -> None:
        """Note that the environment has stepped.

        Args:
            observations: by group, each [num_envs, ...]
            rewards: [num_envs]
            dones: [num_envs], non-zero where an episode ended

        Raises:
            TrialDone: when a value is NaN or infinite, naming its tensor and environments.
        """
        self._synchronize()
        self._env_step_s += time.perf_counter() - self._step_began
        self._check_finite(
            {f"observations/{group}": tensor for group, tensor in observations.items()} | {"rewards": rewards}
        )
        ended = dones > 0
        self._returns += rewards
        self._lengths += 1
        counted = ended & self._is_whole_episode
        self._episode_sums += torch.stack(
            [(self._returns * counted).sum(), (self._lengths * counted).sum(), counted.sum().to(self._returns.dtype)]
        )
        self._returns.masked_fill_(ended, 0.0)
        self._lengths.masked_fill_(ended, 0.0)
        self._is_whole_episode |= ended
        self._steps += 1
        if self._steps == self.request.horizon:
            self.phase = "learning"

    def end_iteration(
        self, collect_s: float, learn_s: float, losses: dict[str, float], learning_rate: float, action_std: float
    ) -> None:
        """Write the row of an iteration (times in seconds, losses by name) and end the trial when it has its result.

        Raises:
            TrialDone: when the timed iterations are done, the target is reached or the budget spent, or learning broke.
        """
        wall_s = time.perf_counter() - self._training_started
        transitions = self._steps * self.request.num_envs
        self._frames += transitions
        return_sum, length_sum, episodes = self._episode_sums.tolist()
        for name, value in {**losses, "action_std": action_std}.items():
            self._check_loss(name, value)
        row = Row(
            iteration=len(self.rows),
            warmup=len(self.rows) < self.request.warmup_iterations,
            frames=self._frames,
            wall_s=wall_s,
            unix_time_s=time.time(),
            env_step_s=self._env_step_s,
            collect_s=collect_s,
            learn_s=learn_s,
            fps_env_step=transitions / self._env_step_s,
            fps_env_step_inference=transitions / collect_s,
            fps_total=transitions / (collect_s + learn_s),
            reward_mean=return_sum / episodes if episodes else None,
            episode_length_mean=length_sum / episodes if episodes else None,
            episodes=int(episodes),
            losses=losses,
            learning_rate=learning_rate,
            action_std=action_std,
            memory=self.memory_use(),
        )
        self.rows.append(row)
        self._stream.write(row.model_dump_json() + "\n")
        self._stream.flush()
        self._start_iteration()
        self._end_when_done(row)

    def check_parameters(self, parameters: Mapping[str, torch.Tensor], symptom: str) -> None:
        """Say whether the learner's parameters (by name, any shape) have exploded; `symptom` is how that showed.

        Raises:
            TrialDone: when one holds a NaN, an infinity, or a number past `DIVERGED_ABOVE`.
        """
        for name, tensor in parameters.items():
            largest = float(tensor.detach().abs().max())
            if not largest <= DIVERGED_ABOVE:  # so that NaN counts, too
                status: Status = "diverged" if math.isfinite(largest) else "nan"
                reason = f"parameters/{name} grew to {largest:.3g} at iteration {len(self.rows)}: {symptom}"
                raise TrialDone(
                    status,
                    reason,
                    Failure(iteration=len(self.rows), tensor=f"parameters/{name}", env_indices=[], dump=None),
                )

    def close(self) -> None:
        """Close metrics.jsonl."""
        self._stream.close()

    def memory_use(self) -> MemoryUse:
        """Return the memory in use now, and the peaks so far."""
        rss_gb = self._process.memory_info().rss / GB
        if self.device.type != "cuda":
            return MemoryUse(rss_gb=rss_gb, peak_rss_gb=_peak_rss_gb())
        free_bytes, total_bytes = torch.cuda.mem_get_info(self.device)
        return MemoryUse(
            rss_gb=rss_gb,
            peak_rss_gb=_peak_rss_gb(),
            torch_peak_allocated_gb=torch.cuda.max_memory_allocated(self.device) / GB,
            torch_peak_reserved_gb=torch.cuda.max_memory_reserved(self.device) / GB,
            device_used_gb=(total_bytes - free_bytes) / GB,
        )

    def _start_iteration(self) -> None:
        self._steps = 0
        self._env_step_s = 0.0
        self._episode_sums = torch.zeros(3, dtype=torch.float32, device=self.device)  # returns, lengths, episodes

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _end_when_done(self, row: Row) -> None:
        request = self.request
        if request.kind == "throughput":
            if len(self.rows) == request.warmup_iterations + (request.iterations or 0):
                raise TrialDone("ok")
            return
        average = reward_average(self.rows, request.target_episodes or 1)
        if average is not None and request.target_reward is not None and average >= request.target_reward:
            raise TrialDone("target_reached")
        if request.budget_s is not None and row.wall_s >= request.budget_s:
            raise TrialDone(
                "timeout", f"{request.budget_s:g} s of training were spent below reward {request.target_reward:g}"
            )

    def _check_finite(self, tensors: Mapping[str, torch.Tensor]) -> None:
        # One pass without a temporary: a minimum or maximum is NaN or infinite exactly when some element is.
        extremes = [torch.stack(torch.aminmax(tensor.detach())) for tensor in tensors.values()]
        if torch.isfinite(torch.cat([extreme.float() for extreme in extremes])).all().item():
            return
        for name, tensor in tensors.items():
            broken = ~torch.isfinite(tensor).reshape(tensor.shape[0], -1).all(dim=1)
            if broken.any():
                indices = broken.nonzero()[:MAX_ENV_INDICES, 0]
                dump = self._dump({key: value[indices] for key, value in tensors.items()} | {"env_indices": indices})
                raise TrialDone(
                    "nan",
                    f"{name} became NaN or infinite in {int(broken.sum())} of {self.request.num_envs} environments"
                    f" at iteration {len(self.rows)}, step {self._steps}",
                    Failure(iteration=len(self.rows), tensor=name, env_indices=indices.tolist(), dump=dump),
                )

    def _check_loss(self, name: str, value: float) -> None:
        tensor = name if name == "action_std" else f"losses/{name}"
        failure = Failure(iteration=len(self.rows), tensor=tensor, env_indices=[], dump=None)
        if not math.isfinite(value):
            raise TrialDone("nan", f"{tensor} became {value} at iteration {len(self.rows)}", failure)
        if abs(value) > DIVERGED_ABOVE:
            raise TrialDone("diverged", f"{tensor} grew to {value:.3g} at iteration {len(self.rows)}", failure)

    def _dump(self, tensors: Mapping[str, torch.Tensor]) -> str:
        path: Path = self.trial.root / "nan_dump.npz"
        arrays: dict[str, Any] = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
        numpy.savez_compressed(path, **arrays)
        return path.name


def _peak_rss_gb() -> float:
    """Return the largest resident set of this process so far (VmHWM of proc(5))."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / GB
    raise OSError("/proc/self/status has no VmHWM line")
