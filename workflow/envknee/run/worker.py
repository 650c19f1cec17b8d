"""A block: one process, or one for each rank, measures its trials one after the other, until one ends badly or leaves memory behind.

Before and after a trial with `Request.fresh` it ends, too. Input: the block's trials. Output: `Worker.measure`, which writes outcome and
cost of one trial. Each trial has its own lock, attempts, time limit and record, as if it had its own process: nothing is lost, and
nothing is measured twice.
"""

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from envknee.machine import gpus
from envknee.machine.processes import GRACE_S, adopt_orphans, end_all, gpus_here
from envknee.record.schema import Request
from envknee.run import attempts, cost, progress, turns
from envknee.run.command import command_of
from envknee.run.container.enter import Entrance, leave
from envknee.run.hang_watch import beats_here
from envknee.run.supervise import Supervised
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
        self._trials = trials
        self._reserved: list[str] | None = None
        self._stack = ExitStack()
        self._own = ExitStack()
        """Resources of the running process."""
        self._running: _Running | None = None

    def close(self) -> None:
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
            self._job = cost.Shared()
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
        if request.fresh:
            self._end()  # what earlier trials left there may change FPS that the host limits
        supervised = Supervised(trial, request, lambda: beats_here(running.meeting))
        trial.log.touch()
        running = self._running or self._start(trial, request, entrance)
        turn = turns.Turn(number=running.turns, trial=trial.root.resolve(), attempt=attempts.own_number())
        running.turns += 1
        turns.name(running.meeting, turn)
        supervised.wait(running.process, alive, POLL_S, lambda: turns.ended(running.meeting, turn) is not None)
        progress.clear()
        returncode, ended = running.process.poll(), turns.ended(running.meeting, turn)
        if ended != "" or request.fresh:
            self._end()
        supervised.conclude(returncode)

    def _start(self, trial: TrialFolder, request: Request, entrance: Entrance | None) -> _Running:
        """Start a fresh process. Until its first turn it prints into the log of `trial`."""
        meeting = Path(self._own.enter_context(tempfile.TemporaryDirectory(prefix="envknee-block-")))
        self._own.callback(leave, entrance, meeting)
        command, variables = command_of(self._trials, request, self._reserved or [], meeting, entrance, in_turns=True)
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
