"""Combines the events of a foreign log into rows, with the events' own times. Pure.

Input: events in the order in which they were written. Output: a `LogRow` for each row of the log. A program's own FPS are only compared
with the times of its rows: many are cumulative, or leave out a part of the time.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from envknee.study.command import Rows, Told
from envknee.study.errors import nearest
from envknee.trainers.command import bounded
from envknee.trainers.command.sources import Event

FPS_DIFFER = 0.1
"""Relative difference between a program's own FPS and its rows' times above which a warning is given."""


WHOLE = 0.01
"""How far the rollouts of a row may be from a whole number."""


@dataclass
class LogRow:
    """The figures of one row in the log."""

    unix_time_s: float
    step: float
    values: dict[str, float] = field(default_factory=dict)
    episodes: list[float] = field(default_factory=list)
    """Returns of single episodes, if the log has those."""
    arrived_unix_s: float | None = None
    """When its first event was read, by a clock that is never set."""


@dataclass
class Builder:
    """Gathers events into rows."""

    rows: Rows
    _open: LogRow | None = None
    _episodes: list[float] = field(default_factory=list)
    _marker: str | None = None
    _count: int = 0
    _newest: dict[str, float] = field(default_factory=dict)
    """Values that were logged before the marker of their row."""
    _closed: LogRow | None = None
    """The row that was closed last. Later values of its step are dropped, because they belong to no other row."""
    _seen: set[str] = field(default_factory=set)
    """Names that the log has had."""

    def add(self, events: Iterable[Event]) -> list[LogRow]:
        """Add new events; return the rows that they complete. The newest row stays open: `close` returns it."""
        whole: list[LogRow] = []
        for event in events:
            if len(self._seen) < bounded.MOST_NAMES:
                self._seen.update(event.values)
            if not self._begins(event):
                self._note(event)
                continue
            whole += self.close()
            self._count += 1
            step = float(self._count) if event.step is None else event.step
            self._open = LogRow(event.unix_time_s, step, self._newest, self._episodes, event.arrived_unix_s)
            self._newest, self._episodes = {}, []
            self._note(event)
            if event.is_whole:
                whole += self.close()
        return whole

    def close(self) -> list[LogRow]:
        """Close and return the open row, if any."""
        if self._open is None:
            return []
        self._closed, self._open = self._open, None
        return [self._closed]

    def is_complete(self) -> bool:
        """Whether the open row has all values of the row before. Some programs write the rest only with the next row."""
        newest, before = self._open, self._closed
        return newest is not None and before is not None and newest.values.keys() >= before.values.keys()

    def figure(self, entry: LogRow, name: Told) -> float | None:
        """Return a row's value of a figure, by the first of its log names that the row has; None without one."""
        for candidate in self.rows.names.get(name, [name] if self.rows.source == "regex" else []):
            if candidate in entry.values:
                return entry.values[candidate]
        return None

    def losses(self, entry: LogRow) -> dict[str, float]:
        """Return a row's losses by their short names."""
        of_regex = self.rows.source == "regex"
        return {
            short: entry.values[name]
            for short, tag in self.rows.losses.items()
            if (name := short if of_regex else tag) in entry.values
        }

    def missing(self) -> str:
        """Return why the log made no row: the names that it lacks, and the nearest names that it has."""
        rows, seen = self.rows, sorted(self._seen)
        if not seen and rows.source == "regex":
            return "no line that it printed matches command.rows.patterns"
        if not seen:
            return f"nothing was found in {rows.path!r}"
        wanted = rows.row or [name for names in rows.names.values() for name in names] or [rows.step_name]
        named = ", ".join(f"{name!r}{nearest(name, seen)}" for name in wanted[:4])
        return f"its log has none of {named}. It has: {bounded.shown(', '.join(seen[:30]))}"

    def _begins(self, event: Event) -> bool:
        if event.begins_row or self.rows.source != "tensorboard":
            return event.begins_row
        candidates = self.rows.row or [tag for tags in self.rows.names.values() for tag in tags]
        (tag,) = event.values
        if self._marker is None and tag in candidates and not self._is_episode(tag):
            self._marker = tag
        # This tag comes once per row. Other tags of the row may come before or after it.
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
    """Return the number of transitions in `steps` of the log, whose unit is `rows.step`.

    `rollout` is the transitions per iteration, and `num_envs_total` the environments, on all GPUs together.
    """
    return steps * {"iterations": rollout, "frames": 1, "env_steps": num_envs_total}[rows.step]


def unlike_clock(logged_fps: Sequence[float], clock_fps: Sequence[float], ranks: int = 1) -> str | None:
    """Return a warning if a program's own FPS differ from the times of its rows, counted for so many ranks; None if they agree."""
    if not logged_fps or not clock_fps:
        return None
    logged, measured = statistics.median(logged_fps), statistics.median(clock_fps)
    if measured <= 0.0 or abs(logged / measured - 1.0) <= FPS_DIFFER:
        return None
    said = (
        f"the command says {logged:,.0f} FPS, and the times of its own rows give {measured:,.0f}: the latter are used"
    )
    if ranks > 1 and abs(ranks * logged / measured - 1.0) <= FPS_DIFFER:
        said += (
            f". They are {ranks} times as many, one count for each GPU. If a single process uses all {ranks}, set"
            " `command.ranks: 1` (`envknee knee --ranks 1`)"
        )
    return said


def unlike_asked(rows: Rows, made: Sequence[float], num_envs_total: int, horizon: int) -> str | None:
    """Return a warning if rows hold other transitions than whole rollouts of the environments that were asked for; None if they fit.

    `made` are the transitions of each row, by a log that counts frames. One that counts iterations or steps of each environment does
    not tell.
    """
    if not made or rows.step != "frames":
        return None
    each, rollout = statistics.median(made), num_envs_total * horizon
    if each >= rollout and abs(each / rollout - round(each / rollout)) <= WHOLE:
        return None
    return (
        f"its log counts {each:,.0f} transitions a row, and {num_envs_total:,} environments with horizon {horizon} make {rollout:,}: as if"
        f" {each / horizon:,.0f} environments ran. If the command changes num_envs by itself, this size was not measured"
    )
