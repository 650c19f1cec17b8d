"""Supervises the processes of a trial: time limit, ranks that hang, kills by the kernel.

Input: the running processes. Output: outcome.json of a trial whose own process wrote none, or a `UserError`; the trial may then be tried
again.
"""

import subprocess
import time
from collections.abc import Callable, Mapping

from envknee.machine.processes import exit_status
from envknee.measure.out_of_memory import KernelKills
from envknee.record.schema import Beat, Request
from envknee.run import attempts, ends, progress
from envknee.run.hang_watch import HangWatch
from envknee.study.errors import UserError
from envknee.study.paths import TrialFolder

POLL_S = 0.1
"""Between two looks at a trial."""

STOPPED_S = 5.0
"""Longer between two looks, this process itself did not run: it was stopped, and its trial mostly, too."""

LATE_S = 60.0
"""How late a file of another node may show here: network file systems cache folders."""


class Supervised:
    """An attempt at a trial, from before its processes start until it has an outcome."""

    def __init__(self, trial: TrialFolder, request: Request, beats: Callable[[], Mapping[int, Beat]]) -> None:
        """Start the time limit, and remove what an interrupted attempt left. `beats` returns each rank's newest beat."""
        self._trial, self._request = trial, request
        self._started = time.monotonic()
        self._stopped_s = 0.0
        self._beats = beats
        self._watch = self._new_watch()
        # A container of Docker or Podman has its own control group, and so does each step of srun.
        self._kernel_kills = KernelKills(anywhere=request.runtime == "docker" or request.nodes > 1)
        self.hang: str | None = None
        """Which of several ranks hung, as a sentence."""
        for left in (trial.environment, *(trial.rank_outcome(rank) for rank in range(request.processes))):
            left.unlink(missing_ok=True)

    def wait(self, process: subprocess.Popen[bytes], alive: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """Return when the process has ended, `is_over`, the time limit is over, or a rank hangs; call `alive` meanwhile."""
        looked_s = time.monotonic()
        try:
            while exit_status(process) is None and not is_over():
                before_s, looked_s = looked_s, time.monotonic()
                if looked_s - before_s > STOPPED_S:
                    self._stopped_s += looked_s - before_s  # else a trial that was suspended would be a timeout
                    self._watch = self._new_watch()
                self.hang = self._watch.look() if self._watch else None
                if self.hang or self._is_late():
                    return
                alive()
                progress.show(self._trial, self._request, time.monotonic() - self._started)
                time.sleep(POLL_S)
        finally:
            progress.clear()

    def conclude(self, returncode: int | None) -> None:
        """Write the trial's outcome, unless its own process wrote one. `returncode` is None if that still runs.

        Raises:
            UserError: when the trial ended without a result, or a later attempt at it has begun.
        """
        trial, request = self._trial, self._request
        attempts.check_newest(trial)
        is_late, are_ranks = self._is_late(), request.processes > 1
        if are_ranks:
            may_show_late = request.nodes > 1 and trial.environment.exists() and not (self.hang or is_late)
            ends.merge_ranks(trial, request, wait_s=LATE_S if may_show_late else 0.0)
        if trial.outcome.exists():
            return
        name = progress.parameters(request)
        if self.hang:
            raise UserError(f"{name}: {self.hang}. All ranks were ended. See {trial.log}")
        if is_late:
            status, reason = "timeout", f"still running after {request.limit_s:g} s (limit_s) and stopped"
        elif returncode is not None and self._kernel_kills.explain(returncode, trial.log if are_ranks else None):
            status, reason = "oom", "the kernel killed the process: host memory ran out"
        else:
            raise UserError(f"{name}: ended without a result. {ends.last_words(trial, request, returncode)}")
        ends.finish(trial, status, reason, self._started)

    def _is_late(self) -> bool:
        return time.monotonic() - self._started - self._stopped_s > self._request.limit_s

    def _new_watch(self) -> HangWatch | None:
        return HangWatch(self._beats, self._request.processes) if self._request.processes > 1 else None
