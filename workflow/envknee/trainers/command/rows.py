"""Events of a foreign log to rows, timed by the events' own clocks. Pure.

Input: events in the order in which they were written. Output: a `Told` per row: what the log said, and how long it took since the row
before. FPS that a program tells itself are kept apart, to be compared: many are cumulative, or leave out a part of the time.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from envknee.study.command import Rows
from envknee.study.command import Told as Name
from envknee.study.errors import nearest
from envknee.trainers.command.sources import Event

FPS_DIFFER = 0.1
"""From this difference of the program's own FPS and its clock on, a reader is warned."""


@dataclass
class Told:
    """What the log says of one row."""

    unix_time_s: float
    step: float
    values: dict[str, float] = field(default_factory=dict)
    episodes: list[float] = field(default_factory=list)
    """Returns of single episodes, where the log tells those."""


@dataclass
class Builder:
    """Gathers events into rows."""

    rows: Rows
    _open: Told | None = None
    _episodes: list[float] = field(default_factory=list)
    _marker: str | None = None
    _count: int = 0
    _newest: dict[str, float] = field(default_factory=dict)
    """What was told since the last row and before its marker."""
    _closed: Told | None = None
    """The row that was closed last. What is still told of it comes too late, and is no other row's."""

    def add(self, events: Iterable[Event]) -> list[Told]:
        """Take what is new; return the rows that are whole now. The newest stays open: `close` returns it."""
        whole: list[Told] = []
        for event in events:
            if not self._begins(event):
                self._note(event)
                continue
            whole += self.close()
            self._open = Told(
                event.unix_time_s, float(self._count + 1) if event.step is None else event.step, self._newest
            )
            self._count += 1
            self._newest = {}
            self._open.episodes, self._episodes = self._episodes, []
            self._note(event)
            if event.is_whole:
                whole += self.close()
        return whole

    def close(self) -> list[Told]:
        """Return the row that is open, if any: nothing more comes for it."""
        if self._open is None:
            return []
        self._closed, self._open = self._open, None
        return [self._closed]

    def is_complete(self) -> bool:
        """Tell whether the open row has all that the row before it had. Some writers bring the rest only with the next row."""
        return (
            self._open is not None
            and self._closed is not None
            and self._open.values.keys() >= self._closed.values.keys()
        )

    def figure(self, entry: Told, name: Name) -> float | None:
        """Return what a row tells of something, under the first of its names that is there; None where it does not."""
        for candidate in self.rows.names.get(name, [name] if self.rows.source == "regex" else []):
            if candidate in entry.values:
                return entry.values[candidate]
        return None

    def losses(self, entry: Told) -> dict[str, float]:
        """Return the losses that a row tells, by their short names."""
        of_regex = self.rows.source == "regex"
        return {
            short: entry.values[name]
            for short, tag in self.rows.losses.items()
            if (name := short if of_regex else tag) in entry.values
        }

    def _begins(self, event: Event) -> bool:
        if event.begins_row or self.rows.source != "tensorboard":
            return event.begins_row
        candidates = self.rows.row or [tag for tags in self.rows.names.values() for tag in tags]
        (tag,) = event.values
        if self._marker is None and tag in candidates and not self._is_episode(tag):
            self._marker = tag
        # One tag, which comes once per row. Others of the same row may be written before it or after it.
        return tag == self._marker and (self._open is None or event.step != self._open.step)

    def _note(self, event: Event) -> None:
        for name, value in event.values.items():
            if self._is_episode(name):
                self._episodes.append(value)
            elif self._open is not None and (event.step is None or self._open.step == event.step or event.begins_row):
                self._open.values[name] = value
            elif event.step is None or self._closed is None or event.step != self._closed.step:
                self._newest[name] = value

    def _is_episode(self, name: str) -> bool:
        return self.rows.reward_is == "episode" and name in self.rows.names.get("reward", [])


def transitions(rows: Rows, steps: float, rollout: int, num_envs_total: int) -> float:
    """Return how many transitions `steps` of the log are.

    Args:
        rows: says what the log counts
        steps: in its own count
        rollout: transitions of one iteration, all GPUs together
        num_envs_total: environments on all GPUs
    """
    return steps * {"iterations": rollout, "frames": 1, "env_steps": num_envs_total}[rows.step]


def unlike_clock(told_fps: Sequence[float], clock_fps: Sequence[float]) -> str | None:
    """Return a warning where a program's own FPS are not what the times of its rows give; None where they agree."""
    if not told_fps or not clock_fps:
        return None
    said, measured = statistics.median(told_fps), statistics.median(clock_fps)
    if measured <= 0.0 or abs(said / measured - 1.0) <= FPS_DIFFER:
        return None
    return f"the command says {said:,.0f} FPS, and the times of its own rows give {measured:,.0f}: the latter are used"


def missing(rows: Rows, seen: Iterable[str]) -> str:
    """Return why a log that was there made no row: which names it lacks, and the nearest that it has."""
    seen_names = sorted(seen)
    wanted = rows.row or [name for names in rows.names.values() for name in names] or [rows.step_name]
    if not seen_names:
        return (
            f"nothing was found in {rows.path!r}"
            if rows.source != "regex"
            else "no line that it printed matches command.rows.patterns"
        )
    named = ", ".join(f"{name!r}{nearest(name, seen_names)}" for name in wanted[:4])
    return f"its log has none of {named}. It has: {', '.join(seen_names[:30])}"
