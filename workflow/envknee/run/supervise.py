"""Supervises the processes of a trial: time limit, ranks that hang, kills by the kernel.

Input: the running processes. Output: outcome.json of a trial whose own process wrote none, or a `UserError`; the trial may then be tried
again.
"""

import subprocess
import time
from collections.abc import Callable, Mapping

from envknee.machine import control_group
from envknee.machine.processes import exit_status, pauses
from envknee.measure.out_of_memory import KernelKills
from envknee.record.schema import Beat, Request
from envknee.record.status import TRAINED
from envknee.record.trial_files import TrialFiles
from envknee.run import attempts, ends, progress
from envknee.run.hang_watch import HangWatch
from envknee.study.errors import ToMend, UserError
from envknee.study.paths import TrialFolder
from envknee.words.progress import trial_words

POLL_S = 0.1
"""Between two looks at a trial."""

CRASHES = 2
"""Attempts that crash before a size counts as one that does not run: a single crash may be the machine's."""

LATE_S = 60.0
"""How late a file of another node may show here: network file systems cache folders."""


class Supervised:
    """An attempt at a trial, from before its processes start until it has an outcome."""

    def __init__(self, trial: TrialFolder, request: Request, beats: Callable[[], Mapping[int, Beat]]) -> None:
        """Start the time limit, and remove what an interrupted attempt left. `beats` returns each rank's newest beat."""
        self._trial, self._request = trial, request
        self._started, self._pauses_before = time.monotonic(), pauses()
        self._shown = progress.Shown(trial, request)
        self._watch = HangWatch(beats, request.processes) if request.processes > 1 else None
        # A container of Docker or Podman has its own control group, and so does each step of srun.
        self._is_elsewhere = request.runtime == "docker" or request.nodes > 1
        self._kernel_kills = KernelKills(anywhere=self._is_elsewhere)
        self.hang: str | None = None
        """Which of several ranks hung, as a sentence."""
        self._files = TrialFiles(trial)
        self._files.begin_attempt(request.processes)

    def wait(self, process: subprocess.Popen[bytes], alive: Callable[[], None], is_over: Callable[[], bool]) -> None:
        """Return when the process has ended, `is_over`, the time limit is over, a rank hangs, or after a pause; call `alive` meanwhile."""
        try:
            while exit_status(process) is None and not is_over():
                self.hang = self._watch.look() if self._watch else None
                if self.hang or self._is_late() or self._was_paused():
                    return
                alive()
                self._shown.look(time.monotonic() - self._started)
                time.sleep(POLL_S)
        finally:
            progress.clear()

    def conclude(self, returncode: int | None) -> None:
        """Write the trial's outcome, unless its own process wrote one. `returncode` is None if that still runs.

        Raises:
            ToMend: when no other attempt could have a result.
            UserError: when the trial ended without a result, its result is of a time with a pause in it, or a later attempt has begun.
        """
        trial, request = self._trial, self._request
        attempts.check_newest(trial)
        is_late, are_ranks = self._is_late(), request.processes > 1
        if are_ranks:
            may_show_late = request.nodes > 1 and trial.environment.exists() and not (self.hang or is_late)
            ends.merge_ranks(trial, request, wait_s=LATE_S if may_show_late else 0.0)
        name = trial_words(request)
        if self._was_paused() and not self._has_timeless_outcome():
            self._files.forget_ranks(request.processes)
            self._files.set_aside()
            raise UserError(
                f"{name}: paused and continued while it was measured (SIGCONT, as of `scontrol suspend` and `resume`, or of Ctrl-Z and"
                f" `fg`), so its times count for nothing. What was there is kept in {trial.root}. Run the sweep again to measure it."
            )
        if self._files.has_outcome():
            return
        if self.hang:
            raise UserError(f"{name}: {self.hang}. All ranks were ended. See {trial.log}")
        if is_late:
            status, reason = "timeout", f"still running after {request.limit_s:g} s (limit_s) and stopped"
        elif returncode is not None and self._kernel_kills.explain(returncode, trial.log if are_ranks else None):
            limit = "" if self._is_elsewhere else control_group.limit_words()
            status, reason = "oom", f"the kernel killed the process: host memory ran out{limit}"
        elif returncode is not None and ends.is_to_mend(trial, returncode):
            raise ToMend(f"{name}: cannot run. {ends.last_words(trial, request, returncode)}")
        elif returncode is not None and ends.is_crash(trial, returncode):
            line = ends.crash_line(trial, returncode)
            if attempts.note_crash(trial) < CRASHES:
                raise UserError(f"{name}: ended without a result. {ends.last_words(trial, request, returncode)}")
            status, reason = "crashed", line
        else:
            raise UserError(f"{name}: ended without a result. {ends.last_words(trial, request, returncode)}")
        ends.finish(trial, status, reason, self._started)

    def _is_late(self) -> bool:
        return time.monotonic() - self._started > self._request.limit_s

    def _was_paused(self) -> bool:
        return pauses() > self._pauses_before

    def _has_timeless_outcome(self) -> bool:
        """Tell whether the trial ended in a way that a pause does not change, such as for want of memory."""
        return self._files.has_outcome() and self._files.read_outcome().status not in TRAINED
