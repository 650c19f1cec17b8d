"""A block: one process, or one for each rank, measures its trials one after the other, until one ends badly or leaves memory behind.

Input: the block's trials. Output: `Worker.measure`, which writes outcome and cost of one trial. Each trial has its own lock, attempts,
time limit and record, as if it had its own process: nothing is lost, and nothing is measured twice.
"""

import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from envknee.machine import gpus
from envknee.machine.processes import GRACE_S, adopt_orphans, end_all, gpus_here
from envknee.measure.out_of_memory import KernelKills
from envknee.record.schema import Request
from envknee.run import attempts, cost, ends, live_line, turns
from envknee.run.command import command_of_block
from envknee.run.container.enter import Entrance, leave
from envknee.run.hang_watch import HangWatch, beats_here
from envknee.study.files import canonical_json, write_atomically
from envknee.study.paths import TrialFolder

POLL_S = 0.05


@dataclass
class _Running:
    """The process that measures the block now."""

    process: subprocess.Popen[bytes]
    meeting: Path
    others: frozenset[int] | None
    """The launcher's earlier children, which must not be ended with this process."""
    turns: int = 0
    """Number of turns so far."""


class Worker:
    """Measures the trials of a block. Its GPUs are reserved from the first measurement to the end of the block."""

    def __init__(self, trials: Sequence[TrialFolder]) -> None:
        """Take the folders of the block's trials; nothing starts yet."""
        self._trials = trials
        self._reserved: list[str] | None = None
        self._job = cost.Shared()
        self._stack = ExitStack()
        self._own = ExitStack()
        """Resources of the running process."""
        self._running: _Running | None = None

    def __enter__(self) -> "Worker":
        """Begin the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process, and release the GPUs."""
        self._end()
        self._stack.close()

    def measure(self, trial: TrialFolder, request: Request, entrance: Entrance | None) -> None:
        """Measure a trial in the block's process (a fresh one if none runs), and write its cost.

        Raises:
            UserError: when the trial ended without a result.
        """
        if self._reserved is None:
            self._reserved = self._stack.enter_context(gpus.reserved_for(gpus_here(request)))
        with attempts.counted(trial) as (lost, alive):
            spent = cost.start(self._reserved, self._job)
            try:
                self._measure(trial, request, entrance, alive)
            except BaseException:
                self._end()
                raise
            write_atomically(trial.cost, canonical_json(spent().model_copy(update={"lost": lost})))

    def _measure(
        self, trial: TrialFolder, request: Request, entrance: Entrance | None, alive: Callable[[], None]
    ) -> None:
        started, started_unix_s = time.monotonic(), time.time()
        kernel_kills = KernelKills(request.runtime == "docker")
        for left in (trial.environment, *(trial.rank_outcome(rank) for rank in range(request.processes))):
            left.unlink(missing_ok=True)  # of an interrupted attempt
        trial.log.touch()
        running = self._running or self._start(trial, request, entrance)
        turn = turns.Turn(number=running.turns, trial=trial.root.resolve(), attempt=attempts.own_number())
        running.turns += 1
        turns.name(running.meeting, turn)
        are_ranks = request.processes > 1
        watch = HangWatch(lambda: beats_here(running.meeting), request.processes) if are_ranks else None
        is_late, ended, hang = False, None, None
        while ended is None and running.process.poll() is None and not (is_late or hang):
            hang = watch.look() if watch else None
            is_late = time.monotonic() - started > request.limit_s
            alive()
            live_line.show(trial, request, time.monotonic() - started)
            time.sleep(POLL_S)
            ended = turns.ended(running.meeting, turn)
        live_line.clear()
        returncode = running.process.poll()
        killed = returncode is not None and kernel_kills.explain(returncode, trial.log if are_ranks else None)
        if ended is None or ended.last_because is not None:
            self._end()
        attempts.check_newest(trial)
        if are_ranks:
            ends.merge_ranks(trial, request, wait_s=0.0)
        ends.conclude(trial, request, ends.End(returncode, hang, is_late, killed, started, started_unix_s))

    def _start(self, trial: TrialFolder, request: Request, entrance: Entrance | None) -> _Running:
        """Start a fresh process. Until its first turn it prints into the log of `trial`."""
        meeting = Path(self._own.enter_context(tempfile.TemporaryDirectory(prefix="envknee-block-")))
        if entrance is not None:
            self._own.callback(leave, entrance, meeting)
        command, variables = command_of_block(self._trials, request, self._reserved or [], meeting, entrance)
        others = None if request.runtime == "docker" else adopt_orphans()
        with trial.log.open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=variables, start_new_session=True
            )
        self._running = _Running(process, meeting, others)
        return self._running

    def _end(self) -> None:
        """End the running process, if any, and all that it started."""
        if self._running is not None:
            running, self._running = self._running, None
            # Between two turns it has nothing to save.
            is_idle = running.turns == 0 or (running.meeting / f"ended-{running.turns - 1}").exists()
            end_all(running.process, 0.0 if is_idle else GRACE_S, running.others)
        self._own.close()
        self._own = ExitStack()
