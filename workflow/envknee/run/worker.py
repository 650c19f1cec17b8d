"""Measures a trial, or those of a block or a pool, on this machine or on all nodes of a SLURM job.

Input: requests. Output: cost.json of each trial, and its outcome.json unless its own process wrote that. A trial alone has processes of
its own. The trials of a block share one, or one for each rank, until one ends badly or leaves memory behind; so do those of a pool that
one worker measures. Before and after a trial with `Request.fresh` it ends, too, and before and after a round of fresh repeats of FPS. Each
trial has its own lock, attempts, time limit and record, as if it had its own process: nothing is lost, and nothing is measured twice.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path

from envknee.machine import gpus, lock
from envknee.machine.processes import GRACE_S, adopt_orphans, end_all, exit_status
from envknee.record.schema import Request
from envknee.record.trial_files import TrialFiles
from envknee.run import attempts, cost, nodes, quiet, turns
from envknee.run.command import command_of
from envknee.run.container.enter import Entrance, leave
from envknee.run.hang_watch import beats_here
from envknee.run.resources import gpus_here
from envknee.run.supervise import Supervised
from envknee.study.paths import TrialFolder
from envknee.study.strategies import STRATEGIES, joins_cluster


@dataclass
class _Running:
    """The processes that measure now."""

    process: subprocess.Popen[bytes]
    meeting: Path
    entrance: Entrance | None
    others: frozenset[int] | None
    """The launcher's earlier children, which must not be ended with this process."""
    turns: int = 0
    """Number of turns so far."""
    round: int | None = None
    """The round of fresh repeats that they measure; None: other trials."""


class Worker:
    """Measures a trial, or those of a block. GPUs are reserved from the first measurement until `close`."""

    def __init__(self, trials: Sequence[TrialFolder], in_turns: bool = False, costs: cost.Costs | None = None) -> None:
        """Take the trials that the processes may be named, one after the other.

        `in_turns`: a process is named its trial even if there is a single one. `costs`: those of GPUs that the caller has reserved; None:
        reserve them here.
        """
        self._trials = trials
        self._in_turns = in_turns
        self._costs = costs
        self._stack = ExitStack()
        self._meeting = ExitStack()
        """Removes the newest processes' meeting place."""
        self._running: _Running | None = None

    def close(self) -> None:
        """End the processes, and release the GPUs."""
        self._end()
        self._meeting.close()
        self._stack.close()

    def measure(self, trial: TrialFolder, request: Request, entrance: Entrance | None) -> None:
        """Measure a trial in the block's process (a fresh one if none runs), and write its cost.

        Raises:
            UserError: when the trial ended without a result.
        """
        if self._costs is None:
            most = STRATEGIES[request.strategy].gpus_of_auto
            # Each of several nodes reserves its own.
            here = gpus.reserved_for(gpus_here(request), most) if request.nodes == 1 else nullcontext([])
            self._costs = cost.Costs(self._stack.enter_context(here))
        waited_s = quiet.wait(trial, request, on_gpu=bool(self._costs.gpu_uuids))
        with attempts.counted(trial) as (lost, alive):
            spent = self._costs.start()
            try:
                meeting = self._measure(trial, request, entrance, alive)
            except BaseException:
                self._end()
                raise
            whole = nodes.cost_of(meeting, request, spent()) if request.nodes > 1 else spent()
            if joins_cluster(request.strategy, os.environ) and whole.gpus:
                # Collectors use GPUs of other machines, whose energy counters are not read.
                whole = whole.model_copy(update={"gpus": request.world_size, "energy_j": None})
            TrialFiles(trial).write_cost(whole.model_copy(update={"lost": lost, "waited_s": waited_s}))

    def _measure(
        self, trial: TrialFolder, request: Request, entrance: Entrance | None, alive: Callable[[], None]
    ) -> Path:
        """Measure a trial; return the folder where its processes met."""
        fresh_round = _round_of(request)
        if request.fresh or (self._running is not None and self._running.round != fresh_round):
            self._end()  # what earlier trials left there may change FPS that the host limits
        beats = nodes.beats if request.nodes > 1 else beats_here
        supervised = Supervised(trial, request, lambda: beats(running.meeting))
        trial.log.touch()
        running = self._running or self._start(trial, request, entrance)
        running.round = fresh_round
        # A trial alone is named on its command line, and ends with its processes.
        turn = turns.Turn(number=running.turns, trial=trial.root.resolve(), attempt=attempts.own_number())
        running.turns += 1
        turns.name(running.meeting, turn)
        supervised.wait(running.process, alive, lambda: turns.ended(running.meeting, turn) is not None)
        returncode, ended = exit_status(running.process), turns.ended(running.meeting, turn)
        if ended != "" or request.fresh:
            self._end()
        supervised.conclude(returncode)
        return running.meeting

    def _start(self, trial: TrialFolder, request: Request, entrance: Entrance | None) -> _Running:
        """Start fresh processes. Those of a block print into the log of `trial` until their first turn."""
        self._meeting.close()
        if request.nodes > 1:
            meeting = self._meeting.enter_context(nodes.meeting(trial))
            command, variables = nodes.command_of(trial, request, meeting, entrance)
        else:
            uuids = self._costs.gpu_uuids if self._costs else []
            meeting = Path(self._meeting.enter_context(tempfile.TemporaryDirectory(prefix="envknee-ranks-")))
            command, variables = command_of(self._trials, request, uuids, meeting, entrance, in_turns=self._in_turns)
        others = None if request.runtime == "docker" else adopt_orphans()  # a container's processes end with it
        # In an image, the container runtime ends them all, and closes what it inherits.
        locks = lock.held() if entrance is None else []
        with trial.log.open("a", encoding="utf-8") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=variables, start_new_session=True, pass_fds=locks
            )
        self._running = _Running(process, meeting, entrance, others)
        return self._running

    def _end(self) -> None:
        """End the running processes, if any, and all that they started."""
        if self._running is not None:
            running, self._running = self._running, None
            # Between two turns they have nothing to save.
            is_idle = (running.meeting / f"ended-{running.turns - 1}").exists()
            end_all(running.process, 0.0 if is_idle else GRACE_S, running.others)
            leave(running.entrance, running.meeting)


def _round_of(request: Request) -> int | None:
    """Return the round of a fresh repeat of FPS, on which claims rest: processes measure no trial beside those of its round."""
    return request.repeat if request.confirms and request.kind == "throughput" else None
