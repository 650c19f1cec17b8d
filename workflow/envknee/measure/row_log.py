"""Clocks the iterations of a trial, appends a row for each to metrics.jsonl, and ends the trial with the row that has its result."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from envknee.machine.processes import pauses
from envknee.measure.phases import IterationTimes, Timeline
from envknee.measure.ranks import Ranks
from envknee.measure.rows import PAUSED, Collected, Part, end_if_done, parts_of_collectors, whole_row
from envknee.record.schema import Request, Row
from envknee.record.trial_files import TrialFiles
from envknee.study.errors import TryAgain
from envknee.study.paths import TrialFolder


class Clocked(NamedTuple):
    """The clocks at the end of an iteration."""

    wall_s: float
    """Seconds since training began."""
    iteration_s: float
    """Seconds of this iteration by the host's clock."""
    read_times: Callable[[], IterationTimes]
    """Reads the seconds of its phases by the device's clock."""


class RowLog:
    """The clocks and rows of one trial. With several ranks each has a log with the same rows, and rank 0 writes the file."""

    def __init__(self, request: Request, trial: TrialFolder, device: torch.device, ranks: Ranks, writes: bool) -> None:
        """Open metrics.jsonl of `trial` for appending, on rank 0 if this process `writes` rows."""
        self.timeline = Timeline(device, request.phases, request.horizon)
        self.rows: list[Row] = []
        self.iterations = 0
        """How many iterations have ended; the row of the newest may be still to be written."""
        self.device = device
        self._request = request
        self._trial = trial
        self._ranks = ranks
        self._stream = TrialFiles(trial).open_rows() if ranks.rank == 0 and writes else None
        self._unwritten: Callable[[], None] | None = None
        """Writes the row of the newest iteration, if that is still to be done."""

    def start(self) -> None:
        """Start the clocks."""
        self.timeline.start()
        self._pauses_before = pauses()
        self._training_began_s = self._iteration_began_s = time.perf_counter()

    def end_iteration(self) -> Clocked:
        """Wait for the device, and end the iteration by all clocks. What follows counts as the next one."""
        read_times = self.timeline.end_iteration()
        now_s = self.timeline.ended_at_s
        iteration_s = now_s - self._iteration_began_s
        self._iteration_began_s = now_s
        return Clocked(now_s - self._training_began_s, iteration_s, read_times)

    def count_iteration(self) -> None:
        """Count an iteration whose row another process writes."""
        self.iterations += 1

    def add(
        self,
        make_part: Callable[[], Part],
        num_mini_batches: int | None,
        collected: Sequence[Collected],
        may_wait: bool,
    ) -> None:
        """Count an iteration, and write its row: on a CPU at once, on a GPU at the next `write` if it may wait so long.

        Args:
            make_part: returns this rank's part of the row
            num_mini_batches: as in `LearnerDescription`
            collected: figures of collectors in other processes, if they collected the rollout
            may_wait: whether the GPU shall get its next work first

        Raises:
            TrialDone, TryAgain: as `write` does.
        """

        def write_row() -> None:
            part = make_part()
            parts = parts_of_collectors(part, collected) if collected else self._ranks.gather(part)
            row = whole_row(parts, self.rows, num_mini_batches, self._request)
            self.rows.append(row)
            if self._stream:
                self._stream.write(row.model_dump_json() + "\n")
                self._stream.flush()

        self.iterations += 1
        self._unwritten = write_row
        if self.device.type == "cpu" or not may_wait:
            self.write()

    @property
    def goes_on(self) -> bool:
        """Whether the trial goes on, whatever the row of the newest iteration says."""
        request = self._request
        timed = self.iterations - request.untimed_iterations
        return request.kind == "throughput" and request.precision is None and timed < (request.iterations or 0)

    def write(self) -> None:
        """Write the newest iteration's row if it is not written yet, and end the trial if it has its result.

        Raises:
            TrialDone: if it has its result.
            TryAgain: if this process was paused since training began.
        """
        if not self._flush():
            return
        if pauses() > self._pauses_before:
            raise TryAgain(f"{self._trial.root}: {PAUSED}")
        # On a CPU two iterations take longer than that, and all of them cost the time of a study.
        least_timed_s = self._request.least_timed_s if self.device.type == "cuda" else 0.0
        end_if_done(self.rows, self._request, least_timed_s)

    def close(self) -> None:
        """Write the newest row, and close metrics.jsonl."""
        self._flush()
        if self._stream:
            self._stream.close()

    def _flush(self) -> bool:
        """Write the newest iteration's row if it is not written yet; return whether it was not."""
        write_row, self._unwritten = self._unwritten, None
        if write_row is None:
            return False
        write_row()
        return True
