"""Times of a log's rows by the log's own clock, which is compared with the times at which rows arrive. Pure.

A program's rows bear its machine's wall clock, which may be set while the program runs: an hour back or on. Arrivals are seconds of a clock
that nobody sets. A row cannot be written after it arrived, and it arrives no later than a program may keep it back. What contradicts
that is a jump, and the time between the arrivals counts instead.
"""

from dataclasses import dataclass, field

SAME_TIME_S = 1.0
"""A clock that goes back by less than this is coarse, or its rows come out of order."""


@dataclass(frozen=True)
class Timed:
    """A row's place in time."""

    unix_time_s: float
    elapsed_s: float | None
    """Since the row before; None if that is not known: for the first row, and where the clock jumped among rows that arrived together."""


@dataclass
class LogClock:
    """The clock of one log."""

    most_late_s: float
    """The longest time for which the program may keep a row back. Smaller jumps forward are not seen."""
    jumps: list[str] = field(default_factory=list)
    """A sentence for each jump."""
    _shift_s: float = 0.0
    """To be added to the log's own times."""
    _before: Timed | None = None
    """The row before."""
    _arrived_s: float = 0.0
    """Arrival of the row before."""
    _rows_together: int = 0
    """How many rows arrived with the row before, itself included."""
    _batch_before_s: float = 0.0
    """The newest arrival before that of the row before."""

    def time(self, own_s: float, arrived_s: float) -> Timed | None:
        """Return the place in time of the next row; None if its clock is too coarse to tell it from the row before.

        Args:
            own_s: the row's time in the log
            arrived_s: when it was read, in seconds since 1970 by a clock that is never set
        """
        if self._before is None:
            if abs(own_s - arrived_s) > self.most_late_s:  # seconds since the program's start, or a clock that is wrong
                self._shift_s = arrived_s - own_s
            return self._noted(Timed(own_s + self._shift_s, None), arrived_s)
        elapsed_s = own_s + self._shift_s - self._before.unix_time_s
        if -SAME_TIME_S < elapsed_s <= 0.0:
            return None
        since_arrival_s = arrived_s - self._arrived_s
        since_batch_s = since_arrival_s or arrived_s - self._batch_before_s
        least_s, most_s = since_arrival_s - self.most_late_s, since_batch_s + self.most_late_s
        if elapsed_s > 0.0 and least_s <= elapsed_s <= most_s:
            return self._noted(Timed(own_s + self._shift_s, elapsed_s), arrived_s)
        # Rows that come one by one arrive as they are made.
        by_arrival = self._rows_together == 1 and since_arrival_s > 0.0
        how = "by its arrival" if by_arrival else "not at all"
        jump_s = elapsed_s - since_arrival_s
        self.jumps.append(
            f"the clock of the command's log jumped by {jump_s:+,.0f} s; the row after that is timed {how}"
        )
        unix_time_s = self._before.unix_time_s + since_arrival_s
        self._shift_s = unix_time_s - own_s
        return self._noted(Timed(unix_time_s, since_arrival_s if by_arrival else None), arrived_s)

    def _noted(self, row: Timed, arrived_s: float) -> Timed:
        if self._before is not None and arrived_s == self._arrived_s:
            self._rows_together += 1
        else:
            self._batch_before_s = self._arrived_s if self._before is not None else arrived_s
            self._arrived_s, self._rows_together = arrived_s, 1
        self._before = row
        return row
