"""Receives every trainer's steps and iterations, and appends a row per iteration to metrics.jsonl."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from envknee.machine.nvml import GB, Gpu
from envknee.machine.processes import age_s, pauses
from envknee.measure import diagnosis
from envknee.measure.episodes import Episodes
from envknee.measure.load import LoadWatch
from envknee.measure.memory import MemoryWatch, model_tensors
from envknee.measure.phases import Timeline
from envknee.measure.ranks import ALONE, Heart, Ranks
from envknee.measure.rows import PAUSED, Collected, Part, TrialDone, end_if_done, parts_of_collectors, whole_row
from envknee.measure.watch import NEVER, Watch
from envknee.record.schema import Failure, Load, MemoryUse, Pipeline, RankResult, Request, Row, StartUp
from envknee.record.status import Status
from envknee.study import remedies
from envknee.study.errors import UserError
from envknee.study.paths import TrialFolder


class Meter:
    """Measures one trial. With several ranks each has a meter, and all reach the same rows and the same end.

    A trainer sets `learned` and calls `start_training` once its learner is made. Then it calls `end_step` after every environment
    step and `end_iteration` after learning, which may raise `TrialDone`. It opens phases of `timeline` in between.
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
        before_gb: float = 0.0,
    ) -> None:
        """Open metrics.jsonl of `trial` for appending, on rank 0.

        Args:
            request: what the trial runs
            trial: the trial's folder
            device: 'cpu' or 'cuda:0'
            gpu: NVML's handle of that GPU
            on_first_step: called after the first environment step, when all kernels of the environment are compiled
            ranks: this rank among several
            writes: False for a collector, whose rows another process writes (`end_rollout`)
            began_s: start of the trial on the monotonic clock; None: the start of this process
            before_gb: GPU memory in use by others, before this process had a context there
        """
        self.request = request
        self.trial = trial
        self.device = torch.device(device)
        self.memory = MemoryWatch(self.device, request.memory.memory_cap_gb, before_gb)
        self.timeline = Timeline(self.device, request.phases, request.horizon)
        self.rows: list[Row] = []
        self.iterations = 0
        """How many iterations have ended; the row of the newest may be still to be written."""
        self.stage = "imports"
        """Current stage: one of `StartUp`, then rollout or learning. An out-of-memory outcome names it."""
        self.num_mini_batches: int | None = None
        self.micro_batches: int | None = None
        """Parts of each mini-batch, if the learner split mini-batches to save memory."""
        self.rollout_gb: float | None = None
        self.rollout_observations: Callable[[], Mapping[str, torch.Tensor]] = dict
        """Returns, by group, the policy's observations in the newest rollout [horizon, num_envs, ...]."""
        self.learned_from: Mapping[str, torch.Tensor] = {}
        """The same for the rollout that a pipeline learns from, collected one iteration earlier."""
        self.export_policy: Callable[[Path], None] | None = None
        """Writes the policy to a file; the trainer sets it."""
        self.learned: Callable[[], Mapping[str, torch.Tensor]] = dict
        """Returns the learner's state by name: `torch.nn.Parameter`s, and running statistics as plain tensors."""
        self.watch = Watch(request.num_envs, self.device)
        """Finds the first broken number; the task stores actions and states in it."""
        self.learner_memory: MemoryWatch | None = None
        """Memory of the learner's own GPU, if it has one."""
        self.warnings: list[str] = []
        """Sentences for readers of the results."""
        self.collectors: list[RankResult] = []
        """Newest results of collectors in other processes."""
        self.close_simulation: Callable[[], None] = lambda: None
        """Called by `release`; the task sets it."""
        self.ranks = ranks
        self._heart = Heart(ranks)
        self._load = LoadWatch(gpu, is_alone=ranks.world_size == 1)
        self._on_first_step = on_first_step
        self._stream = trial.metrics.open("a", encoding="utf-8") if ranks.rank == 0 and writes else None
        self._stage_began = time.monotonic() - age_s() if began_s is None else began_s
        self._startup_s: dict[str, float] = {}
        self._steps = 0
        self._newest: dict[str, torch.Tensor] = {}
        """By name, observations and rewards of the newest step of this rollout."""
        self.learner_calls_back = False
        """Whether the learner calls `while_gpu_learns` in each update; the trainer sets it."""
        self._largest: list[torch.Tensor] = []
        """Largest magnitude of the parameters before this iteration's learning, and after it, on the device: only if rollouts are checked
        after learning (`_checks_late`)."""
        self._used: tuple[MemoryUse, Load] | None = None
        """Memory and load of this iteration, if they are taken already."""
        self._rollout_ended: torch.Event | None = None
        self._fetched: torch.Tensor | None = None
        """`Episodes.take` and `Watch.first_step` of this iteration [4], under way to the host: they are there when learning has ended."""
        self._unwritten: Callable[[], None] | None = None
        """Writes the row of the newest iteration, if that is still to be done."""

    def begin(self, stage: str) -> None:
        """End the current stage and begin `stage`."""
        if self.stage == "environment":
            self.memory.environment_made()
        now = time.monotonic()
        self._startup_s[self.stage] = now - self._stage_began
        self.stage, self._stage_began = stage, now
        self.beat()
        if stage == "environment":
            self.memory.environment_begins()

    def beat(self) -> None:
        """Record this rank's progress: called at each stage, environment step and optimizer step."""
        self._heart.beat(self.stage)

    @property
    def startup_s(self) -> StartUp | None:
        """Seconds of each stage until the first environment step; None before that step."""
        return StartUp.model_validate(self._startup_s) if set(self._startup_s) == set(StartUp.model_fields) else None

    def start_training(
        self,
        num_mini_batches: int | None = None,
        rollout_observations: Callable[[], Mapping[str, torch.Tensor]] = dict,
        stored_bytes: int | None = None,
        optimizers: Sequence[torch.optim.Optimizer] = (),
    ) -> None:
        """Begin the stage `first_step` and start the clocks, when environment and learner exist.

        Args:
            num_mini_batches: optimizer steps per epoch; None if batches are drawn from a replay buffer
            rollout_observations: returns, by group, the storage of the newest rollout's observations [horizon, num_envs, ...]; slot t
                has the policy's observations before step t
            stored_bytes: size of the whole rollout or replay buffer on the device; None: `memory` knows the learner already
            optimizers: of the tensors in `learned`; their state is the model's memory, too
        """
        if stored_bytes is not None:
            self.memory.learner_made(stored_bytes, lambda: model_tensors(self.learned(), optimizers))
        self.begin("first_step")
        self.num_mini_batches = num_mini_batches
        # Storage on the host takes no GPU memory.
        kept = rollout_observations().values()
        kept_bytes = sum(tensor.nbytes for tensor in kept if tensor.device.type == self.device.type)
        self.rollout_gb = (kept_bytes if kept else stored_bytes or 0) / GB
        self.rollout_observations = rollout_observations
        self._episodes = Episodes(self.request.num_envs, self.device)
        if self._checks_late:
            self._note_parameters()
        self._start_iteration()
        self._load.start()
        self.warnings += self._load.warnings
        self.timeline.start()
        self._pauses_before = pauses()
        self._training_started = self._iteration_began = time.perf_counter()

    def end_step(self, observations: Mapping[str, torch.Tensor], rewards: torch.Tensor, *dones: torch.Tensor) -> None:
        """Take the results of an environment step. Waits for the device only at the end of a rollout, to check it.

        On one device, if the learner calls `while_gpu_learns`, the check is queued there, and its result is read in `end_iteration`.

        Args:
            observations: by group, each [num_envs, ...]
            rewards: [num_envs]
            dones: each [num_envs], non-zero where an episode ended; boolean dones are not copied, so nobody may write to them

        Raises:
            TrialDone: at the end of a rollout, if a value in it broke; names tensor and environments. After a rollout's first step, if
                the row of the iteration before ends the trial.
        """
        if self.stage == "first_step":
            self.begin("rollout")
            self._on_first_step()
        self.stage = "rollout"
        named = {f"observations/{group}": tensor for group, tensor in observations.items()} | {"rewards": rewards}
        copies = self.watch.end_step({name: tensor for name, tensor in named.items() if not diagnosis.is_image(tensor)})
        self._newest = named
        self._episodes.note(copies[:, -1], *dones)  # rewards come last
        self._steps += 1
        self.beat()
        if not (self.learner_calls_back and self._goes_on()):
            self._write_row()
        if self._steps == self.request.horizon:
            if not self._checks_late:
                self.check_rollout()
            elif rewards.is_cuda:
                self._rollout_ended = torch.cuda.current_stream(self.device).record_event()
            self.stage = "learning"
            self.memory.learning_begins()

    def while_gpu_learns(self, beside: torch.cuda.Stream | None = None) -> None:
        """Do what can be done while the GPU works: a learner calls it when all its work is queued, before it waits for the GPU.

        `beside` is a stream on which the GPU takes the results of the rollout while it learns; None: it takes them afterwards.
        """
        self._write_row()
        if self._checks_late:
            with self._beside_learning(beside):
                results = torch.cat([self._episodes.take(), self.watch.first_step().double()[None]])
                self._fetched = results.to("cpu", non_blocking=True)
            self._note_parameters()
        else:
            self._episodes.add_up()
        self._used = self._use()

    @contextmanager
    def _beside_learning(self, beside: torch.cuda.Stream | None) -> Iterator[None]:
        """Let a GPU work on the ended rollout while it learns."""
        if self._rollout_ended is None or beside is None:
            yield
            return
        learning = torch.cuda.current_stream(self.device)
        beside.wait_event(self._rollout_ended)
        with torch.cuda.stream(beside):
            yield
        learning.wait_stream(beside)  # what is freed here may be used again there

    def _use(self) -> tuple[MemoryUse, Load]:
        """End the learning in the memory's accounts, and return memory and load of this iteration."""
        self.memory.learning_ended()
        return self.memory.use(), self._load.take()

    def end_rollout(self) -> Collected:
        """Return a collector's figures of its rollout. It replaces `end_iteration` in processes that do not learn."""
        times = self.timeline.end_iteration()()
        self.memory.learning_ended()
        return_sum, length_sum, episodes = self._episodes.take().tolist()
        self._start_iteration()
        self.iterations += 1
        self.stage = "rollout"
        return Collected(
            env_step_s=times.env_step_s,
            phases_s=times.phases_s,
            episodes=int(episodes),
            return_sum=return_sum,
            length_sum=length_sum,
            memory=self.memory.use(),
            memory_map=self.memory.map(),
            **self._load.take().model_dump(),
        )

    def rollouts_gathered(self) -> None:
        """Begin learning when the rollouts of collectors in other processes have arrived."""
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
        """Write the row of an iteration, and end the trial when it has its result.

        On one GPU that comes after the next environment step, or while the GPU learns again if the row cannot end the trial.

        Args:
            losses: means over the iteration, by name
            learning_rate: current value
            action_std: mean over the actions' dimensions
            gradient_squares: with several ranks, mean squared norm of the rank's own gradients, and of the shared ones
            pipeline: the learner's side of the iteration, if it learned while others collected
            collected: figures of collectors in other processes about the rollout that was learned from

        Raises:
            TrialDone: if the timed iterations are done, the target is reached, the budget is spent, or learning broke.
        """
        before_clearing = remedies.after_learning(self.request.memory, self)
        times = self.timeline.end_iteration()
        now = self.timeline.ended_at_s  # both clocks count the rest of this function as the next iteration
        fetched = self._episodes.take() if self._fetched is None else self._fetched
        return_sum, length_sum, episodes, *first_broken = fetched.tolist()
        if self._checks_late and first_broken != [NEVER]:
            self.check_rollout()
        wall_s, iteration_s, self._iteration_began = now - self._training_started, now - self._iteration_began, now
        for name, value in losses.items():
            self._end_if_broken(f"losses/{name}", value)
        self._end_if_broken("action_std", action_std)
        memory, load = self._used or self._use()
        unix_time_s, memory = time.time(), before_clearing or memory

        def write_row() -> None:
            own = Part(
                rank=self.ranks.rank,
                iteration_s=iteration_s,
                **vars(times()),
                episodes=int(episodes),
                memory=memory,
                **load.model_dump(),
                wall_s=wall_s,
                unix_time_s=unix_time_s,
                return_sum=return_sum,
                length_sum=length_sum,
                losses=losses,
                learning_rate=learning_rate,
                action_std=action_std,
                gradient_squares=gradient_squares,
                pipeline=pipeline,
            )
            parts = parts_of_collectors(own, collected) if collected else self.ranks.gather(own)
            row = whole_row(parts, self.rows, self.num_mini_batches, self.request)
            self.rows.append(row)
            if self._stream:
                self._stream.write(row.model_dump_json() + "\n")
                self._stream.flush()

        self._start_iteration()
        self.stage = "rollout"
        self.iterations += 1
        self._unwritten = write_row
        if self.device.type == "cpu" or self.ranks.world_size > 1 or pipeline or collected:
            self._write_row()
        # Else the GPU gets work first: see `end_step` and `while_gpu_learns`.

    @property
    def _checks_late(self) -> bool:
        """Whether a rollout is checked after it was learned from. Among ranks the one that broke must be the first to say so."""
        return self.learner_calls_back and self.ranks.world_size == 1

    def _goes_on(self) -> bool:
        """Tell whether the trial goes on, whatever the row of the newest iteration says."""
        request = self.request
        timed = self.iterations - request.untimed_iterations
        return request.kind == "throughput" and request.precision is None and timed < (request.iterations or 0)

    def _write_row(self) -> None:
        """Write the newest iteration's row if it is not written yet, and end the trial if it has its result.

        Raises:
            TrialDone: if it has its result.
            UserError: if this process was paused since training began.
        """
        if self._flush():
            if pauses() > self._pauses_before:
                raise UserError(f"{self.trial.root}: {PAUSED}")
            # On a CPU two iterations take longer than that, and all of them cost the time of a study.
            least_timed_s = self.request.least_timed_s if self.device.type == "cuda" else 0.0
            end_if_done(self.rows, self.request, least_timed_s)

    def _flush(self) -> bool:
        """Write the newest iteration's row if it is not written yet; return whether it was not."""
        write, self._unwritten = self._unwritten, None
        if write is not None:
            write()
        return write is not None

    def check_parameters(self, symptom: str) -> None:
        """Check the learner's parameters; `symptom` ends the reason of a failure.

        Raises:
            TrialDone: if a parameter holds NaN, an infinity, or a magnitude above `DIVERGED_ABOVE`.
        """
        for name, tensor in self._parameters().items():
            self._end_if_broken(f"parameters/{name}", float(tensor.abs().max()), f": {symptom}")

    def _note_parameters(self) -> None:
        """Queue the largest magnitude of the parameters as they are now."""
        self._largest.append(torch.nn.utils.get_total_norm(self._parameters().values(), math.inf))

    def _parameters(self) -> dict[str, torch.Tensor]:
        """Return the learner's parameters by name, without running statistics: some of those count transitions."""
        return {
            name: tensor.detach()
            for name, tensor in self.learned().items()
            if isinstance(tensor, torch.nn.Parameter) and tensor.numel()
        }

    def close(self) -> None:
        """Close metrics.jsonl, and stop watching the load."""
        self._flush()
        self._load.close()
        if self._stream:
            self._stream.close()

    def release(self) -> None:
        """Free simulation, networks and storage, so that this process can measure another trial."""
        self.timeline.release()
        self.close_simulation()
        self.memory.release()
        self.rollout_observations, self.learned_from, self._newest = dict, {}, {}
        self.export_policy, self.learned, self.watch.joints = None, dict, dict
        self.close_simulation = lambda: None

    def check_rollout(self, images: bool = False) -> None:
        """Check all steps since the last learning for broken values.

        Args:
            images: whether to read all images that the trainer keeps, too

        Raises:
            TrialDone: for the earliest broken value. It names tensor, iteration, step and environments; their last good state and
                observations are dumped.
        """
        broken = self.watch.first_broken()
        iteration, seen = self.iterations, self._tensors_of
        if broken is None and images:
            broken = diagnosis.broken_image(self.rollout_observations(), self._newest, self._steps)
        if broken is None and images and self.learned_from:
            broken = diagnosis.broken_image(self.learned_from, {}, self.request.horizon)
            iteration, seen = iteration - 1, partial(_stored_after, self.learned_from)
        if broken is None:
            return
        rank = self.ranks.rank
        dump = self.trial.root / (f"nan_dump-rank-{rank}.npz" if rank else "nan_dump.npz")
        reason, failure = diagnosis.of_rollout(self.watch, broken, iteration, seen, dump)
        were_fine = bool(self._largest) and float(self._largest[0]) <= diagnosis.DIVERGED_ABOVE
        if failure.tensor == "actions" and not were_fine:  # broken parameters may be the cause
            self.check_parameters(reason)
        raise self._broke("nan", reason, failure)

    def _start_iteration(self) -> None:
        self._steps = 0
        self._newest = {}
        self._largest, self._used, self._fetched = self._largest[-1:], None, None
        self.watch.begin_rollout()

    def _tensors_of(self, step: int) -> dict[str, torch.Tensor]:
        """Return the observations after environment step `step` of this rollout, as far as they are still stored."""
        if step == self._steps:
            return {}  # the step did not end
        if step == self._steps - 1:
            return self._newest
        return _stored_after(self.rollout_observations(), step)

    def _end_if_broken(self, name: str, value: float, symptom: str = "") -> None:
        """End the trial if a loss, an action std or a parameter's largest magnitude is NaN or above `DIVERGED_ABOVE`."""
        if abs(value) <= diagnosis.DIVERGED_ABOVE:
            return
        if not name.startswith("parameters/"):
            self.check_rollout(images=True)  # the rollout may be the cause
        status, verb = ("diverged", "grew to") if math.isfinite(value) else ("nan", "became")
        failure = Failure(iteration=self.iterations, tensor=name, hints=diagnosis.hints(name, {}, 0.0))
        raise self._broke(status, f"{name} {verb} {value:.3g} at iteration {self.iterations}{symptom}", failure)

    def _broke(self, status: Status, reason: str, failure: Failure) -> TrialDone:
        """Return the end of a broken trial."""
        drill = f"{self.request.inject.warning}: " if self.request.inject else ""
        return TrialDone(status, drill + reason, failure)


def _stored_after(rollout: Mapping[str, torch.Tensor], step: int) -> dict[str, torch.Tensor]:
    """Return the observations after a step of a stored rollout. Those after its last step are not stored."""
    return {f"observations/{group}": kept[step + 1] for group, kept in rollout.items() if step + 1 < len(kept)}
