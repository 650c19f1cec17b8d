"""A trial with `trainer: command`, in this process: it starts the program, follows its log, and decides how it ended.

Input: a trial's folder and request. Output: metrics.jsonl, environment.json and outcome.json in it, and the program's own files in run/.
Imports neither torch nor Isaac Lab.

A program with enough rows is a success, whatever its exit status: some programs hang at their end (Isaac Sim's Kit), and some exit
with 0 after an exception. Then all its processes are ended.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from envknee.machine import control_group, environment
from envknee.machine.nvml import Gpu, is_only_gpu
from envknee.machine.processes import (
    GRACE_S,
    NO_BYTECODE,
    USERS_NO_BYTECODE,
    adopt_orphans,
    age_s,
    dying_with_parent,
    end_all,
    exit_status,
    pauses,
)
from envknee.measure import validity
from envknee.measure.out_of_memory import requested_gb
from envknee.measure.rows import PAUSED, TrialDone, end_if_done, has_enough
from envknee.record.schema import Failure, Request, Row
from envknee.record.status import TRAINED
from envknee.record.trial_files import TrialFiles
from envknee.run import attempts, deadline, outside
from envknee.run.container import enter
from envknee.run.ends import outcome_of
from envknee.run.printed import BoundedLog, Reader
from envknee.study.errors import Crash, ToMend, TryAgain, UserError
from envknee.study.paths import TrialFolder
from envknee.trainers.command import bounded, ends, program, sources, telling
from envknee.trainers.command.clock import LogClock
from envknee.trainers.command.idle import idle_gpus
from envknee.trainers.command.rows import Builder, LogRow, transitions, unlike_asked, unlike_clock
from envknee.trainers.command.usage import SAMPLED, Usage
from envknee.words.idle import idle_words

POLL_S = 0.1
SETTLED_S = 1.0
"""Nothing new for so long: what belongs to the newest row is there, if it has as much as the row before."""
FLUSH_S = 150.0
"""Some writers of TensorBoard's events keep them back for two minutes (flush_secs=120), or the rest of a row."""
MEDIANS = 10
"""A program hangs if it logs no row for this many median intervals, and for `hang_s`."""
OOM_GRACE_S = 15.0
"""A program that logged an out-of-memory error, and then nothing for this time, will not go on."""

COMPILING_TIMES = 4
"""How many times `first_row_s` the first row may take while the newest lines say that kernels are compiled."""

HINT_LINES = 5
"""Newest lines that may say that a program wanted something of a person: earlier ones are warnings that it outlived."""

MOST_JUMPS = 3
"""Jumps of a log's clock that the outcome names."""

PACKAGES = (
    *environment.PACKAGES,
    "mjlab", "jax", "jaxlib", "brax", "playground", "mani-skill", "sapien", "rl-zoo3", "isaacsim", "isaaclab-rl", "physx",
)  # fmt: skip


class SteadyClock:
    """Seconds since 1970 by a clock that is never set: the wall clock is read once."""

    def __init__(self) -> None:
        """Read the wall clock."""
        self._began_unix_s = time.time() - time.monotonic()

    def now_unix_s(self) -> float:
        """Return the time."""
        return self._began_unix_s + time.monotonic()


class Follower:
    """Follows one program from its start to its end."""

    def __init__(
        self,
        request: Request,
        trial: TrialFolder,
        run_dir: Path,
        process: "subprocess.Popen[bytes]",
        usage: Usage,
        clock: SteadyClock,
    ) -> None:
        """Begin to follow `process`, which prints into a pipe, and writes files into `run_dir`."""
        assert process.stdout is not None, "the command prints into a pipe"
        self.request, self.trial, self.process, self.usage = request, trial, process, usage
        self.clock = clock
        self.rollout = request.num_envs * request.horizon * request.world_size
        """Transitions of an iteration."""
        self.rows: list[Row] = []
        self.logged_fps: list[float] = []
        self.made: list[float] = []
        """Transitions of each row but the first, by the log."""
        command = program.command_of(request)
        self.command, self.started_s = command, time.monotonic()
        self.pauses_before = pauses()
        self.source = sources.of(command.rows, run_dir)
        self.builder = Builder(command.rows)
        self.output = ends.Output(command.oom, command.invalid)
        self.newest_s = self.started_s
        self.compile_s = 0.0
        self.arrivals_s: list[float] = []
        self.first_step = 0.0
        self.before: LogRow | None = None
        self.origin_unix_s = 0.0
        self.origin_frames = 0
        self.origin_is_known = False
        self.kills = control_group.oom_kills(anywhere=False)
        self.log_clock = LogClock(max(command.hang_s, FLUSH_S))
        self.printed = Reader(process.stdout.fileno(), BoundedLog(sys.stdout.buffer), self._note_printed)

    def to_its_end(self) -> NoReturn:
        """Follow the program until it has logged enough, breaks, hangs or ends.

        Raises:
            TrialDone: with the trial's result.
            UserError: when it ended, or logged nothing, without a result.
        """
        while exit_status(self.process) is None:
            if not self.rows and self.output.is_compiling():
                self.compile_s += POLL_S
            self._check_pauses()
            self._look(is_last=False)
            self._check_silence()
            time.sleep(POLL_S)
        self.printed.wait(GRACE_S)  # the last lines tell why
        self._check_pauses()
        self._look(is_last=True)
        raise self._of_ended()

    def _look(self, is_last: bool) -> None:
        """Read new events, and write the rows that they complete."""
        for event in self.source.poll(self.clock.now_unix_s()):
            self.newest_s = time.monotonic()
            for entry in self.builder.add([event]):
                self._take(entry)
        quiet_s = time.monotonic() - self.newest_s
        if is_last or quiet_s > FLUSH_S or (quiet_s > SETTLED_S and self.builder.is_complete()):
            for entry in self.builder.close():
                self._take(entry)

    def _note_printed(self, lines: str) -> None:
        """Note printed lines, in the thread that reads them."""
        self.output.take(lines)
        if isinstance(self.source, sources.Printed):
            self.source.take(self.clock.now_unix_s(), lines)

    def _take(self, entry: LogRow) -> None:
        """Write a row, and end the trial if that has its result."""
        row = self._row(entry)
        if row is None:
            return
        self.rows.append(row)
        self.arrivals_s.append(time.monotonic())
        with self.trial.metrics.open("a", encoding="utf-8") as file:
            file.write(row.model_dump_json() + "\n")
        losses = {f"losses/{name}": value for name, value in self.builder.losses(entry).items()}
        ends.check_figures({"rewards": self.builder.figure(entry, "reward"), **losses}, row.iteration)
        end_if_done(self.rows, self.request, start_s=self._start_s())

    def _start_s(self) -> float:
        """Return the seconds from the command's start to its first timed iteration, as far as there are rows."""
        return self.arrivals_s[: self.request.untimed_iterations][-1] - self.started_s

    def _row(self, entry: LogRow) -> Row | None:
        """Return a row from a log entry; None if its step or time does not follow the entry before."""
        request, figure, rollout, before = self.request, self.builder.figure, self.rollout, self.before
        if before is not None and entry.step <= before.step:
            return None
        arrived_unix_s = entry.unix_time_s if entry.arrived_unix_s is None else entry.arrived_unix_s
        timed = self.log_clock.time(entry.unix_time_s, arrived_unix_s)
        if timed is None:
            return None
        if before is not None and timed.elapsed_s is None:
            self.before = entry
            return None
        fps = iteration_s = None
        if before is None:
            self._set_origin(entry, timed.unix_time_s)
        elif timed.elapsed_s is not None:
            made = self._transitions(entry.step - before.step)
            self.made.append(made)
            fps, iteration_s = _finite(made / timed.elapsed_s), timed.elapsed_s * rollout / made
        self.before = entry
        memory, load = self.usage.take()
        is_warmup = len(self.rows) < request.untimed_iterations
        if not is_warmup and (said := _finite(figure(entry, "fps"))) is not None:
            self.logged_fps.append(said)
        collect_s, env_step_s = _seconds(figure(entry, "collect_s")), _seconds(figure(entry, "env_step_s"))
        fps_collecting = _finite(rollout / collect_s) if collect_s else _finite(figure(entry, "fps_env_step_inference"))
        reward = _finite(statistics.fmean(entry.episodes) if entry.episodes else figure(entry, "reward"))
        return Row(
            **load.model_dump(),
            iteration=len(self.rows),
            warmup=is_warmup,
            frames=self.origin_frames + round(self._transitions(entry.step - self.first_step)),
            wall_s=max(0.0, timed.unix_time_s - self.origin_unix_s),
            unix_time_s=timed.unix_time_s,
            iteration_s=iteration_s,
            env_step_s=env_step_s,
            collect_s=collect_s,
            learn_s=_seconds(figure(entry, "learn_s")),
            fps_env_step=_finite(rollout / env_step_s) if env_step_s else _finite(figure(entry, "fps_env_step")),
            fps_env_step_inference=fps_collecting,
            fps_total=fps,
            reward_mean=reward,
            episode_length_mean=_finite(figure(entry, "episode_length")),
            episodes=len(entry.episodes) if self.command.rows.reward_is == "episode" else None,
            losses={name: value for name, value in self.builder.losses(entry).items() if _finite(value) is not None},
            learning_rate=_finite(figure(entry, "learning_rate")),
            action_std=_finite(figure(entry, "action_std")),
            memory=memory,
        )

    def _transitions(self, steps: float) -> float:
        """Return how many transitions `steps` of the log are."""
        return transitions(self.command.rows, steps, self.rollout, self.request.num_envs * self.request.world_size)

    def _set_origin(self, entry: LogRow, unix_time_s: float) -> None:
        """Set the start of training: before the first row by that row's own seconds, or at the row if it has none."""
        seconds = [_seconds(self.builder.figure(entry, name)) for name in ("collect_s", "learn_s")]
        known = [second for second in seconds if second is not None]
        self.first_step = entry.step
        self.origin_is_known = len(known) == len(seconds)
        self.origin_unix_s = unix_time_s - (sum(known) if self.origin_is_known else 0.0)
        self.origin_frames = self.rollout
        if self.command.rows.step != "iterations":
            self.origin_frames = max(self.rollout, round(self._transitions(entry.step)))

    def _check_pauses(self) -> None:
        """Raise a TryAgain if this process was paused: it then does not know when rows arrived, nor whether the command went on."""
        if pauses() > self.pauses_before:
            raise TryAgain(f"{self.trial.root}: {PAUSED}")

    def _check_silence(self) -> None:
        """End the trial of a running program that hangs."""
        now_s = time.monotonic()
        since_s = now_s - max([self.newest_s, *self.arrivals_s[-1:]])
        if self.output.oom_line is not None and since_s > OOM_GRACE_S:
            raise self._out_of_memory(self.output.oom_line)
        if not self.rows:
            self._check_first_row(now_s - self.started_s)
        intervals = [later - earlier for earlier, later in pairwise(self.arrivals_s)]
        usual_s = statistics.median(intervals) if intervals else 0.0
        allowed_s = max(self.command.hang_s, MEDIANS * usual_s)
        if self.command.rows.source == "tensorboard":
            allowed_s = max(allowed_s, FLUSH_S)
        if self.rows and since_s > allowed_s and has_enough(self.rows, self.request):
            raise TrialDone("ok")  # it ran fewer iterations than it was told, and hangs at its end
        if self.rows and since_s > allowed_s:
            reason = (
                f"it hangs: no row for {since_s:.0f} s, where they came every {usual_s:.1f} s."
                f" The last that it printed: {self.output.last_error()}"
            )
            raise TrialDone("timeout", reason)

    def _check_first_row(self, waited_s: float) -> None:
        """Raise a UserError if the first row takes longer than it may."""
        compiles = self.output.is_compiling()
        first_row_s = patience_s(self.command.first_row_s, compiles)
        if waited_s <= first_row_s:
            return
        setting = f"{COMPILING_TIMES} x command.first_row_s, because it compiles" if compiles else "command.first_row_s"
        raise UserError(
            f"no row came within {first_row_s:g} s ({setting}), while the command still ran: {self.builder.missing()}."
            f" The last that it printed: {self.output.last_error()}"
        )

    def _of_ended(self) -> TrialDone:
        """Return the end of a program that ended by itself before it logged enough."""
        if self.output.oom_line is not None:
            return self._out_of_memory(self.output.oom_line)
        if control_group.oom_kills(anywhere=False) > self.kills:
            return self._out_of_memory(f"the kernel killed a process: host memory ran out{control_group.limit_words()}")
        if self.output.nan_line is not None:
            failure = Failure(iteration=len(self.rows), tensor="training")
            return TrialDone("nan", f"its log says: {self.output.nan_line}", failure)
        if has_enough(self.rows, self.request):
            return TrialDone("ok")  # it ran fewer iterations than it was told
        wanted = self.request.untimed_iterations + (self.request.iterations or 0)
        status = exit_status(self.process) or 0
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
        of = f" of {wanted}" if self.request.kind == "throughput" else ""
        ended = f"The command ended {how} after {len(self.rows)}{of} rows."
        hint = telling.hint_of(self.output.newest[-HINT_LINES:])
        if (why := outside.why_ended(status, self.output.newest)) is not None:
            raise UserError(
                f"the command did not end by itself: {why}. {ended} That is no crash. Run the sweep again."
                f" The last that it printed: {self.output.last_error()}"
            )
        if status or self.output.error_line is not None:
            raise Crash(f"{self.output.last_error()}\n{ended}{'' if hint is None else f' {hint}'}")
        if status == 0 and not self.rows:
            unreadable = self.source.problems.unreadable
            line = f" The first line that cannot be read: {unreadable}" if unreadable else ""
            raise ToMend(
                f"the command ended {how} and left no row: {self.builder.missing()}.{line}"
                f" The last that it printed: {self.output.last_error()}{'' if hint is None else f'. {hint}'}"
            )
        if status == 0 and self.request.kind == "learning":
            raise ToMend(
                f"the command ended by itself after {len(self.rows)} rows, before its target and its budget. Raise"
                " command.learning_iterations"
            )
        raise ToMend(
            f"{ended} Its log says: {self.output.last_error()}. Let it run for {{iterations}} or more: one row each is expected"
        )

    def _out_of_memory(self, line: str) -> TrialDone:
        stage = "learning" if self.rows else "environment"
        failure = Failure(iteration=len(self.rows), tensor=stage, requested_gb=requested_gb(line))
        return TrialDone("oom", f"memory ran out: {line}", failure)

    def checked(self, end: TrialDone) -> TrialDone:
        """Return an end, or the end "invalid" if the program's log shows that its simulation was wrong."""
        timed = [row for row in self.rows if not row.warmup]
        used_gb = [
            row.memory.rss_gb if row.memory.device_used_gb is None else row.memory.device_used_gb for row in timed
        ]
        reasons = (validity.growing(used_gb), validity.at_once([row.episode_length_mean for row in timed]))
        wrong = [*validity.sentences(self.output.invalid_lines), *filter(None, reasons)]
        if end.status not in TRAINED or not wrong:
            return end
        return TrialDone("invalid", "; ".join(wrong), validity.FAILURE)

    def warnings(self) -> list[str]:
        """Return the limits of the figures, as sentences."""
        clock = [row.fps_total for row in self.rows if not row.warmup and row.fps_total is not None]
        notes = [SAMPLED, self._other_size(), unlike_clock(self.logged_fps, clock, self.request.world_size)]
        if self.request.kind == "learning" and not self.origin_is_known:
            notes.append(
                "seconds to the target count from the end of the first iteration: the command does not say when it began"
            )
        if self.rows and (late_s := self.arrivals_s[0] - self.started_s) > self.command.first_row_s:
            notes.append(
                f"the first row came after {late_s:,.0f} s, because the command compiled: later trials may be quicker"
            )
        if any(row.memory.device_used_gb is not None for row in self.rows):
            grew = validity.growing([row.memory.rss_gb for row in self.rows if not row.warmup])
            notes.append(None if grew is None else f"host {grew}")
        if idle := idle_gpus(self.rows):
            notes.append(idle_words(idle, self.usage.gpus, self.request.world_size))
        if self.usage.before_gb is not None and self.usage.before_gb > 0.5:
            notes.append(f"another process used {self.usage.before_gb:.1f} GB of the GPU before; it is taken off")
        return [note for note in [*notes, *self._log_notes()] if note is not None]

    def _other_size(self) -> str | None:
        """Return a warning if the log counts other transitions than the command was told to make."""
        request, timed = self.request, self.made[self.request.untimed_iterations - 1 :]
        return unlike_asked(self.command.rows, timed, request.num_envs * request.world_size, request.horizon)

    def _log_notes(self) -> list[str]:
        """Return what of the program's log was not read, or is not what it says, as sentences."""
        notes, problems, reader = self.log_clock.jumps[:MOST_JUMPS], self.source.problems, self.printed
        if problems.count:
            notes.append(f"{problems.count:,} entries of its log cannot be read. The first: {problems.unreadable}")
        if reader.lines.cut_lines:
            notes.append(
                f"{reader.lines.cut_lines:,} printed lines were read to {bounded.MOST_LINE_BYTES:,} bytes only"
            )
        if reader.log.left_out:
            notes.append(f"{self.trial.log.name} lacks {reader.log.left_out:,} bytes of what it printed")
        if reader.log.error is not None:
            notes.append(f"{self.trial.log.name} could not be written to its end: {reader.log.error.strerror}")
        return notes


def patience_s(first_row_s: float, compiles: bool) -> float:
    """Return how long the first row may take: longer while the newest lines say that kernels are compiled."""
    return first_row_s * COMPILING_TIMES if compiles else first_row_s


def _seconds(value: float | None) -> float | None:
    """Return a duration that can be; None for others."""
    return value if value is not None and 0.0 <= value < bounded.LATEST_TIME_S else None


def _finite(value: float | None) -> float | None:
    """Return a finite number; None for NaN and infinity, which JSON does not have."""
    return value if value is not None and abs(value) < float("inf") else None


def measure(trial: TrialFolder, request: Request) -> None:
    """Run the command of `trial`, and write how it ended.

    Raises:
        UserError: when it cannot be run, or ended without a result.
    """
    files = TrialFiles(trial)
    lived_s, clock = age_s(), SteadyClock()
    started, started_unix_s = time.monotonic() - lived_s, clock.now_unix_s() - lived_s
    enter.check_runtime(request.runtime)
    uuids = [uuid for uuid in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if uuid]
    gpus = [gpu for uuid in uuids if (gpu := Gpu.named(uuid)) is not None]
    for gpu in gpus:
        gpu.check_usable()
    trial.run.mkdir()
    run_dir = trial.run.resolve()
    argv = program.located(program.arguments(request, run_dir, len(uuids)), program.users_path(os.environ), Path.cwd())
    machine = environment.observe_from_outside(gpus, program.packages_beside(argv[0], PACKAGES))
    files.write_environment(machine)
    usage, others = Usage(gpus), adopt_orphans()
    print("envknee runs:", " ".join(argv), flush=True)
    process = subprocess.Popen(
        [*dying_with_parent(), *argv], cwd=run_dir, env=_variables(request, run_dir, len(uuids)),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    follower = Follower(request, trial, run_dir, process, usage, clock)
    usage.start(process.pid)
    try:
        follower.to_its_end()
    except TrialDone as done:
        end = follower.checked(done)
    finally:
        usage.close()
        end_all(process, GRACE_S, others)
        follower.printed.wait(SETTLED_S)
    batches = None if request.batch_size is None else int(program.values(request, run_dir, 0)["num_mini_batches"])
    outcome = outcome_of(
        trial, started, status=end.status, reason=end.reason, failure=end.failure, environment=machine,
        setup_s=max(0.0, follower.origin_unix_s - started_unix_s) if follower.rows else None,
        num_mini_batches=batches if follower.rows else None, rollout_gb=None, warnings=follower.warnings(),
        idle_gpus=idle_gpus(follower.rows), compile_s=round(follower.compile_s, 1) or None,
    )  # fmt: skip
    attempts.check_newest(trial)
    files.write_outcome(outcome)


def _variables(request: Request, run_dir: Path, gpus: int) -> dict[str, str]:
    """Return the environment of the command: the user's own, without the settings of envknee's Python."""
    inherited = dict(os.environ) | {"PATH": program.users_path(os.environ), "PYTHONUNBUFFERED": "1"}
    for name in (
        "PYTHONSAFEPATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        attempts.TOLD,
        program.USERS_PATH,
        deadline.VARIABLE,
    ):
        inherited.pop(name, None)
    if no_bytecode := inherited.pop(USERS_NO_BYTECODE, None):
        inherited[NO_BYTECODE] = no_bytecode
    if is_only_gpu(os.environ.get("CUDA_VISIBLE_DEVICES", "")):
        # Some programs read a number there, and no UUID (mjlab before 1.6). With a single GPU there is no choice.
        inherited["CUDA_VISIBLE_DEVICES"] = "0"
    return inherited | program.variables(request, run_dir, gpus)
