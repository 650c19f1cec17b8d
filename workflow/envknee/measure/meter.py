"""What trainers report to: one row per iteration, appended to metrics.jsonl.

Input: the begin and end of every step and iteration, from a trainer. Output: rows, and the signal that ends the trial.
The same meter serves every trainer; it knows torch, and nothing of Isaac Lab.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import torch

from envknee.machine.nvml import Gpu
from envknee.machine.processes import age_s
from envknee.measure import diagnosis
from envknee.measure.episodes import Episodes
from envknee.measure.load import LoadWatch
from envknee.measure.memory import MemoryWatch
from envknee.measure.phases import Timeline
from envknee.measure.ranks import ALONE, Heart, Ranks, beat_file
from envknee.measure.rows import Collected, Part, is_known_within, parts_of_collectors, whole_row
from envknee.measure.watch import Watch
from envknee.record.build import reward_average
from envknee.record.schema import (
    Failure,
    Pipeline,
    RankResult,
    RankRow,
    Request,
    Row,
    StartUp,
)
from envknee.record.status import Status
from envknee.study import remedies
from envknee.study.paths import TrialFolder

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
    """Measures one trial; of several ranks, each has one, and all come to the same rows and the same end.

    A trainer calls `begin` at each stage of its start and `start_training` once; then `end_step` after every
    environment step and `end_iteration` after learning, both of which may raise `TrialDone`. It tells
    `timeline` what it does meanwhile.
    """

    def __init__(
        self,
        request: Request,
        trial: TrialFolder,
        device: str,
        gpu: Gpu | None = None,
        on_first_step: Callable[[], None] = lambda: None,
        ranks: Ranks = ALONE,
        writes: bool = True,
        began_s: float | None = None,
        before_gb: float | None = None,
    ) -> None:
        """Open metrics.jsonl of `trial` for appending, on rank 0.

        Args:
            request: what the trial runs
            trial: where its files lie
            device: 'cpu' or 'cuda:0'
            gpu: what NVML calls that
            on_first_step: called when the environment has stepped once: every kernel it needs is compiled
            ranks: which of several ranks this is
            writes: False for a collector's, whose figures another process writes (`end_rollout`)
            began_s: when the trial began, by the monotonic clock; without it with this process
            before_gb: what others used of the GPU before this process did, where it has measured a trial before
        """
        self.request = request
        self.trial = trial
        self.device = torch.device(device)
        self.memory = MemoryWatch(self.device, gpu, request.memory.memory_cap_gb, before_gb)
        self.timeline = Timeline(self.device, request.phases)
        self.rows: list[Row] = []
        self.stage = "imports"
        """What the trial is doing: a stage of its `StartUp`, then rollout or learning; an out-of-memory outcome names it."""
        self.num_mini_batches: int | None = None
        self.micro_batches: int | None = None
        """Parts of each mini-batch, where memory made the learner split them."""
        self.rollout_gb: float | None = None
        self.rollout_observations: Mapping[str, torch.Tensor] = {}
        """By group, what the policy saw in the newest rollout [horizon, num_envs, ...]."""
        self.learned_from: Mapping[str, torch.Tensor] = {}
        """The same of the rollout that a pipeline learns from, which was collected one iteration before."""
        self.export_policy: Callable[[Path], None] | None = None
        """How the trainer writes its policy to a file, once it has one."""
        self.learned: Callable[[], Mapping[str, torch.Tensor]] = dict
        """Gives all that the learner has learned, by name: `torch.nn.Parameter`s, and running statistics as plain tensors."""
        self.watch = Watch(request.num_envs, self.device)
        """What finds out what broke first; the task notes actions and states in it, where it has any to tell."""
        self.learner_memory: MemoryWatch | None = None
        """Of the learner's own GPU, where it has one."""
        self.warnings: list[str] = []
        """What a reader of the figures should know."""
        self.collectors: list[RankResult] = []
        """Those in other processes, where there are such, as they were last heard of."""
        self.at_release: list[Callable[[], None]] = []
        """What gives back what the trial has made, once its result is safe and its process measures another."""
        self.ranks = ranks
        self._heart = Heart(None if ranks.folder is None else beat_file(ranks.folder, ranks.rank))
        self._load = LoadWatch(gpu, is_alone=ranks.world_size == 1)
        self._on_first_step = on_first_step
        self._stream = trial.metrics.open("a", encoding="utf-8") if ranks.rank == 0 and writes else None
        self._stage_began = time.monotonic() - age_s() if began_s is None else began_s
        self._startup_s: dict[str, float] = {}
        self._frames = 0
        self._steps = 0
        self._newest: dict[str, torch.Tensor] = {}
        """By name, what the newest step of this rollout gave."""
        self._told = 0
        """Rollouts of which `end_rollout` has told: rows of another process."""

    def begin(self, stage: str) -> None:
        """Note that the stage before has ended and `stage` begins."""
        if self.stage == "environment":
            self.memory.environment_made()
        now = time.monotonic()
        self._startup_s[self.stage] = now - self._stage_began
        self.stage, self._stage_began = stage, now
        self.beat()
        if stage == "environment":
            self.memory.environment_begins()

    def beat(self) -> None:
        """Note that this rank gets on: called at each stage, environment step and optimizer step."""
        self._heart.beat(self.stage)

    @property
    def startup_s(self) -> StartUp | None:
        """How long each stage took until the first environment step; None when there was none."""
        return StartUp.model_validate(self._startup_s) if set(self._startup_s) == set(StartUp.model_fields) else None

    def start_training(
        self,
        num_mini_batches: int | None = None,
        rollout_observations: Mapping[str, torch.Tensor] = MappingProxyType({}),
        replay_bytes: int | None = None,
    ) -> None:
        """Start the clocks: the environment and the learner exist.

        Args:
            num_mini_batches: optimizer steps per epoch; None where batches are drawn from a replay buffer
            rollout_observations: by group, the storage of a rollout's observations [horizon, num_envs, ...]; slot t is
                what the policy saw before step t
            replay_bytes: of a replay buffer on the device, which is there in place of a rollout
        """
        self.num_mini_batches = num_mini_batches
        # What a library keeps on the host is none of the GPU's.
        kept = [tensor for tensor in rollout_observations.values() if tensor.device.type == self.device.type]
        kept_bytes = sum(tensor.nbytes for tensor in kept) if replay_bytes is None else replay_bytes
        self.rollout_gb = kept_bytes / GB
        self.rollout_observations = rollout_observations
        self._episodes = Episodes(self.request.num_envs, self.device)
        self._start_iteration()
        self._load.start()
        self.timeline.start()
        self._training_started = self._iteration_began = time.perf_counter()

    def end_step(self, observations: Mapping[str, torch.Tensor], rewards: torch.Tensor, dones: torch.Tensor) -> None:
        """Note that the environment has stepped. Nothing here waits for the device but the end of a rollout.

        Args:
            observations: by group, each [num_envs, ...]
            rewards: [num_envs]
            dones: [num_envs], non-zero where an episode ended; truth values are kept, and nobody may write to them

        Raises:
            TrialDone: at the end of a rollout, when a value in it was NaN or infinite, naming tensor and environments.
        """
        if self.stage == "first_step":
            self.begin("rollout")
            self._on_first_step()
        self.stage = "rollout"
        named = {f"observations/{group}": tensor for group, tensor in observations.items()} | {"rewards": rewards}
        self.watch.end_step({name: tensor for name, tensor in named.items() if not diagnosis.is_image(tensor)})
        self._newest = named
        self._episodes.note(rewards, dones)
        self._steps += 1
        self.beat()
        if self._steps == self.request.horizon:
            self.check_rollout()
            self.stage = "learning"
            self.memory.learning_begins()

    def end_rollout(self) -> Collected:
        """Return what a collector tells of its rollout, instead of `end_iteration`: nothing is learned in its process."""
        times = self.timeline.end_iteration()
        self.memory.learning_ended()
        return_sum, length_sum, episodes = self._episodes.take()
        self._start_iteration()
        self._told += 1
        self.stage = "rollout"
        return Collected(
            env_step_s=times.env_step_s,
            rollout_s=times.total_s,
            phases_s=times.phases_s,
            episodes=episodes,
            return_sum=return_sum,
            length_sum=length_sum,
            memory=self.memory.use(),
            memory_map=self.memory.map(),
            **self._load.take().model_dump(),
        )

    def rollouts_gathered(self) -> None:
        """Note, where other processes step, that what they collected is here."""
        if self.stage == "first_step":
            self.begin("rollout")
            self._on_first_step()
        self.stage = "learning"
        self.memory.learning_begins()

    def end_iteration(
        self,
        losses: dict[str, float],
        learning_rate: float,
        action_std: float,
        gradient_squares: tuple[float, float] | None = None,
        pipeline: Pipeline | None = None,
        collected: Sequence[Collected] = (),
    ) -> None:
        """Write the row of an iteration and end the trial when it has its result.

        Args:
            losses: means over the iteration, by name
            learning_rate: now
            action_std: mean over the actions' dimensions
            gradient_squares: of one of several ranks: mean squared norm of its own gradients, and of the shared ones
            pipeline: of a learner that worked meanwhile: its side of the iteration
            collected: of collectors in other processes, what each tells of the rollout that was learned from

        Raises:
            TrialDone: when the timed iterations are done, the target is reached or the budget spent, or learning broke.
        """
        before_clearing = remedies.after_learning(self.request.memory, self)
        times = self.timeline.end_iteration()
        now = time.perf_counter()  # at once: what follows is the next iteration's on the device's clock, too
        self.memory.learning_ended()
        wall_s, iteration_s, self._iteration_began = now - self._training_started, now - self._iteration_began, now
        return_sum, length_sum, episodes = self._episodes.take()
        for name, value in losses.items():
            self._end_if_broken(f"losses/{name}", value)
        self._end_if_broken("action_std", action_std)
        own = Part(
            row=RankRow(
                rank=self.ranks.rank,
                iteration_s=iteration_s,
                env_step_s=times.env_step_s,
                collect_s=times.collect_s,
                learn_s=times.learn_s,
                phases_s=times.phases_s,
                episodes=episodes,
                memory=before_clearing or self.memory.use(),
                **self._load.take().model_dump(),
            ),
            wall_s=wall_s,
            unix_time_s=time.time(),
            return_sum=return_sum,
            length_sum=length_sum,
            losses=losses,
            learning_rate=learning_rate,
            action_std=action_std,
            gradient_squares=gradient_squares,
            pipeline=pipeline,
        )
        if collected:
            parts = parts_of_collectors(own, collected, times.total_s)
        else:
            gathered = self.ranks.gather(own.model_dump_json(), self.device)
            parts = [Part.model_validate_json(text) for text in gathered]
        rollout = (self.request.horizon if collected else self._steps) * self.request.num_envs
        rank_batch = rollout // (self.num_mini_batches or 1)
        row = whole_row(parts, len(self.rows), rollout, rank_batch, self.request, self._frames)
        self._frames = row.frames
        self.rows.append(row)
        if self._stream:
            self._stream.write(row.model_dump_json() + "\n")
            self._stream.flush()
        self._start_iteration()
        self.stage = "rollout"
        self._end_when_done(row)

    def check_parameters(self, symptom: str) -> None:
        """Say whether the learner's parameters have exploded; `symptom` is how that showed.

        Raises:
            TrialDone: when one holds a NaN, an infinity, or a number past `DIVERGED_ABOVE`.
        """
        for name, tensor in self.learned().items():
            if isinstance(tensor, torch.nn.Parameter):  # running statistics may be large: they count transitions, too
                self._end_if_broken(f"parameters/{name}", float(tensor.detach().abs().max()), f": {symptom}")

    def close(self) -> None:
        """Close metrics.jsonl, and watch no more."""
        self._load.close()
        if self._stream:
            self._stream.close()

    def release(self) -> None:
        """Give back simulation, networks and storage: this process measures another trial."""
        self.timeline.release()
        for give_back in reversed(self.at_release):
            give_back()
        self.at_release.clear()
        self.memory.release()
        self.rollout_observations, self.learned_from, self._newest = {}, {}, {}
        self.export_policy, self.learned = None, dict

    def check_rollout(self, images: bool = False) -> None:
        """Say whether a value of the steps since the last learning was NaN or infinite: the earliest one is named.

        Args:
            images: look at those that the trainer keeps, too: all of them are read

        Raises:
            TrialDone: names the tensor, the iteration, the step and the environments, and dumps their last good state and what
                they observed.
        """
        broken = self.watch.first_broken()
        iteration, seen = len(self.rows) + self._told, self._tensors_of
        if broken is None and images:
            broken = diagnosis.broken_image(self.rollout_observations, self._newest, self._steps)
        if broken is None and images and self.learned_from:
            broken = diagnosis.broken_image(self.learned_from, {}, self.request.horizon)
            iteration, seen = iteration - 1, self._learned_from_at
        if broken is None:
            return
        rank = self.ranks.rank
        dump = self.trial.root / (f"nan_dump-rank-{rank}.npz" if rank else "nan_dump.npz")
        reason, failure = diagnosis.of_rollout(self.watch, broken, iteration, seen, dump)
        if failure.tensor == "actions":  # which networks give that are broken: then those are the cause
            self.check_parameters(reason)
        raise self._broke("nan", reason, failure)

    def _start_iteration(self) -> None:
        self._steps = 0
        self._newest = {}
        self.watch.begin_rollout()

    def _tensors_of(self, step: int) -> dict[str, torch.Tensor]:
        """Return what environment step `step` of this rollout observed, as far as it is still known."""
        if step == self._steps:
            return {}  # it did not come to its end
        if step == self._steps - 1:
            return self._newest
        return {f"observations/{group}": kept[step + 1] for group, kept in self.rollout_observations.items()}

    def _learned_from_at(self, step: int) -> dict[str, torch.Tensor]:
        """Return what step `step` of the rollout that was learned from observed: the last one's is in none."""
        return {
            f"observations/{group}": kept[step + 1] for group, kept in self.learned_from.items() if step + 1 < len(kept)
        }

    def _end_when_done(self, row: Row) -> None:
        request = self.request
        if request.kind == "throughput":
            rows = self.rows[request.untimed_iterations :]
            timed = [row.fps_total for row in rows if row.fps_total is not None]  # an own trainer always tells
            if len(timed) == (request.iterations or 0) or is_known_within(timed, request.precision):
                raise TrialDone("ok")
            return
        average = reward_average(self.rows, request.target_episodes or 1)
        if average is not None and request.target_reward is not None and average >= request.target_reward:
            raise TrialDone("target_reached")
        if request.budget_s is not None and row.wall_s >= request.budget_s:
            raise TrialDone(
                "timeout", f"{request.budget_s:g} s of training were spent below reward {request.target_reward:g}"
            )

    def _end_if_broken(self, name: str, value: float, symptom: str = "") -> None:
        """End the trial when a loss or a parameter is no number that learning goes on from."""
        broken = diagnosis.of_value(name, value, len(self.rows))
        if broken is not None:
            if not name.startswith("parameters/"):
                self.check_rollout(images=True)  # what was learned from may be the cause
            reason, failure = broken
            raise self._broke("diverged" if math.isfinite(value) else "nan", reason + symptom, failure)

    def _broke(self, status: Status, reason: str, failure: Failure) -> TrialDone:
        """Return the end of a trial that broke."""
        drill = f"{self.request.inject.warning}: " if self.request.inject else ""
        return TrialDone(status, drill + reason, failure)
