"""Receives every trainer's steps and iterations, and tells the parts that measure a trial: clock and rows, memory and load, checks."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch

from envknee.machine.nvml import Gpu
from envknee.measure.checks import NumberChecks
from envknee.measure.device_use import DeviceUse
from envknee.measure.episodes import Episodes
from envknee.measure.learner import NO_LEARNER, LearnerDescription
from envknee.measure.memory import MemoryWatch, model_tensors
from envknee.measure.phases import Timeline
from envknee.measure.ranks import ALONE, Ranks
from envknee.measure.row_log import RowLog
from envknee.measure.rows import Collected, Part
from envknee.measure.stages import Stages
from envknee.measure.watch import NEVER, Watch
from envknee.record.schema import Pipeline, RankResult, Request, Row, StartUp
from envknee.study import remedies
from envknee.study.paths import TrialFolder


class Meter:
    """Measures one trial. With several ranks each has a meter, and all reach the same rows and the same end.

    A trainer calls `start_training` with a description of its learner. Then it calls `end_step` after every environment step and
    `end_iteration` after learning, which may raise `TrialDone`. It opens phases of `timeline` in between. It sets no attribute.

    Each figure of a trial belongs to one part: time and rows to `row_log`, memory and load to `device_use`, broken numbers to `checks`.
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
        self.ranks = ranks
        is_alone = ranks.world_size == 1
        self.device_use = DeviceUse(self.device, gpu, request.memory.memory_cap_gb, before_gb, is_alone)
        self.row_log = RowLog(request, trial, self.device, ranks, writes)
        self.checks = NumberChecks(request, trial, self.device, ranks.rank)
        self.rollout_gb: float | None = None
        """Size of a rollout's observations; None before training."""
        self._stages = Stages(ranks, began_s)
        self._on_first_step = on_first_step
        self._learner = NO_LEARNER
        self._micro_batches: int | None = None
        self._collectors: Sequence[RankResult] = ()
        self._warnings: list[str] = []
        self._close_simulation: Callable[[], None] = lambda: None
        self._rollout_ended: torch.Event | None = None
        self._fetched: torch.Tensor | None = None
        """`Episodes.take` and `Watch.first_step` of this iteration [4], under way to the host: they are there when learning has ended."""

    @property
    def learner(self) -> LearnerDescription:
        """The learner, once training has started."""
        return self._learner

    @property
    def timeline(self) -> Timeline:
        """Phases of the iteration."""
        return self.row_log.timeline

    @property
    def rows(self) -> list[Row]:
        """Rows so far."""
        return self.row_log.rows

    @property
    def iterations(self) -> int:
        """How many iterations have ended; the row of the newest may be still to be written."""
        return self.row_log.iterations

    @property
    def memory(self) -> MemoryWatch:
        """Memory of the simulation's device."""
        return self.device_use.memory

    @property
    def watch(self) -> Watch:
        """Where the task stores actions and states."""
        return self.checks.watch

    @property
    def stage(self) -> str:
        """Current stage: one of `StartUp`, then `rollout` or `learning`."""
        return self._stages.current

    @property
    def startup_s(self) -> StartUp | None:
        """Seconds of each stage until the first environment step; None before that step."""
        return self._stages.startup_s

    @property
    def micro_batches(self) -> int | None:
        """Parts of each mini-batch, if the learner split mini-batches to save memory."""
        return self._micro_batches

    @property
    def collectors(self) -> Sequence[RankResult]:
        """Newest results of collectors in other processes."""
        return self._collectors

    @property
    def warnings(self) -> Sequence[str]:
        """Sentences for readers of the results."""
        return self._warnings

    def warn(self, sentence: str) -> None:
        """Add a sentence for readers of the results."""
        self._warnings.append(sentence)

    def note_micro_batches(self, parts: int) -> None:
        """Note that the learner split each mini-batch into `parts`."""
        self._micro_batches = parts

    def close_at_release(self, close: Callable[[], None]) -> None:
        """Take the function that ends the simulation: `release` calls it."""
        self._close_simulation = close

    def begin(self, stage: str) -> None:
        """End the current stage and begin `stage`."""
        if self.stage == "environment":
            self.memory.environment_made()
        self._stages.begin(stage)
        if stage == "environment":
            self.memory.environment_begins()

    def beat(self) -> None:
        """Record this rank's progress: called at each stage, environment step and optimizer step."""
        self._stages.beat()

    def learn_between_steps(self) -> None:
        """Name the stage `learning` until the next environment step: for a learner that learns before its rollout ends."""
        self._stages.enter("learning")

    def start_training(self, learner: LearnerDescription) -> None:
        """Begin the stage `first_step` and start the clocks, when environment and learner exist."""
        self._learner = learner
        if learner.stored_bytes is not None:
            self.memory.learner_made(
                learner.stored_bytes, lambda: model_tensors(self._learner.state(), self._learner.optimizers)
            )
        self.begin("first_step")
        self.rollout_gb = learner.rollout_gb(self.device)
        self._episodes = Episodes(self.request.num_envs, self.device)
        self.checks.start(learner)
        if self._checks_late:
            self.checks.note_parameters()
        self._begin_iteration(0)
        self.device_use.load.start()
        self._warnings += self.device_use.load.warnings
        self.row_log.start()

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
        self._end_startup()
        self._stages.enter("rollout")
        copied_rewards = self.checks.note_step(observations, rewards)
        self._episodes.note(copied_rewards, *dones)
        self.beat()
        if not (self._learner.calls_while_gpu_learns and self.row_log.goes_on):
            self.row_log.write()
        if self.checks.steps == self.request.horizon:
            if not self._checks_late:
                self.checks.check_rollout()
            elif rewards.is_cuda:
                self._rollout_ended = torch.cuda.current_stream(self.device).record_event()
            self._begin_learning()

    def rollouts_gathered(self, collectors: Sequence[RankResult] = ()) -> None:
        """Begin learning when the rollouts of `collectors` in other processes have arrived."""
        self._collectors = collectors
        self._end_startup()
        self._begin_learning()

    def while_gpu_learns(self, beside: torch.cuda.Stream | None = None) -> None:
        """Do what can be done while the GPU works: a learner calls it when all its work is queued, before it waits for the GPU.

        `beside` is a stream on which the GPU takes the results of the rollout while it learns; None: it takes them afterwards.
        """
        self.row_log.write()
        if self._checks_late:
            with self._beside_learning(beside):
                results = torch.cat([self._episodes.take(), self.watch.first_step().double()[None]])
                self._fetched = results.to("cpu", non_blocking=True)
            self.checks.note_parameters()
        else:
            self._episodes.add_up()
        self.device_use.end_learning()

    def end_rollout(self) -> Collected:
        """Return a collector's figures of its rollout. It replaces `end_iteration` in processes that do not learn."""
        times = self.timeline.end_iteration()()
        self.memory.learning_ended()
        return_sum, length_sum, episodes = self._episodes.take().tolist()
        self._begin_iteration(self.iterations + 1)
        self.row_log.count_iteration()
        self._stages.enter("rollout")
        return Collected(
            env_step_s=times.env_step_s,
            phases_s=times.phases_s,
            episodes=int(episodes),
            return_sum=return_sum,
            length_sum=length_sum,
            memory=self.memory.use(),
            memory_map=self.memory.map(),
            **self.device_use.load.take().model_dump(),
        )

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
        clocked = self.row_log.end_iteration()  # the rest of this function counts as the next iteration
        fetched = self._episodes.take() if self._fetched is None else self._fetched
        return_sum, length_sum, episodes, *first_broken = fetched.tolist()
        if self._checks_late and first_broken != [NEVER]:
            self.checks.check_rollout()
        for name, value in losses.items():
            self.checks.check_figure(f"losses/{name}", value)
        self.checks.check_figure("action_std", action_std)
        memory, load = self.device_use.of_iteration()
        unix_time_s = time.time()

        def make_part() -> Part:
            return Part(
                rank=self.ranks.rank,
                iteration_s=clocked.iteration_s,
                **vars(clocked.read_times()),
                episodes=int(episodes),
                memory=before_clearing or memory,
                **load.model_dump(),
                wall_s=clocked.wall_s,
                unix_time_s=unix_time_s,
                return_sum=return_sum,
                length_sum=length_sum,
                losses=losses,
                learning_rate=learning_rate,
                action_std=action_std,
                gradient_squares=gradient_squares,
                pipeline=pipeline,
            )

        self._begin_iteration(self.iterations + 1)
        self._stages.enter("rollout")
        # A row that may wait is written in `end_step` or `while_gpu_learns`.
        may_wait = self.ranks.world_size == 1 and not pipeline and not collected
        self.row_log.add(make_part, self._learner.num_mini_batches, collected, may_wait)

    def close(self) -> None:
        """Close metrics.jsonl, and stop watching the load."""
        self.row_log.close()
        self.device_use.load.close()

    def release(self) -> None:
        """Free simulation, networks and storage, so that this process can measure another trial."""
        self.timeline.release()
        self._close_simulation()
        self.memory.release()
        self.checks.release()
        self._learner = NO_LEARNER
        self._close_simulation = lambda: None

    @property
    def _checks_late(self) -> bool:
        """Whether a rollout is checked after it was learned from. Among ranks the one that broke must be the first to say so."""
        return self._learner.calls_while_gpu_learns and self.ranks.world_size == 1

    def _begin_iteration(self, iteration: int) -> None:
        self._fetched = None
        self.device_use.begin_iteration()
        self.checks.begin_rollout(iteration)

    def _end_startup(self) -> None:
        """End the trial's start, if this is the first step or rollout."""
        if self.stage == "first_step":
            self.begin("rollout")
            self._on_first_step()

    def _begin_learning(self) -> None:
        """Begin learning from the rollout that ended."""
        self._stages.enter("learning")
        self.memory.learning_begins()

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
