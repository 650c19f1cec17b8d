"""Finds the rank that hangs, and its stage.

Input: the files in which ranks note their progress (`ranks.Heart`), and the CPU time of their processes. With several machines, each
reads its own (see `nodes`). Output: a sentence.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from envknee.record.schema import Beat, StartUp

HANG_S = 30.0
"""After this time without progress of any rank, one hangs: an environment step or optimizer step takes seconds at most."""

STARTING = tuple(StartUp.model_fields)
"""Stages in which a rank may work for minutes (kernels) without a sign of progress."""


@dataclass
class Pulse:
    """The latest sign of life of one rank."""

    rank: int
    text: str = ""
    changed_s: float = 0.0
    """When the text last changed (monotonic)."""
    busy_s: float = 0.0
    """CPU seconds of the process at the latest look."""
    worked_s: float = 0.0
    """When `busy_s` last grew (monotonic)."""

    @property
    def stage(self) -> str:
        """The rank's current step."""
        return self.text.split()[1] if self.text else STARTING[0]

    @property
    def progress(self) -> tuple[int, int]:
        """The number of its stage, and how often the rank has noted progress."""
        stage = STARTING.index(self.stage) if self.stage in STARTING else len(STARTING)
        return stage, int(self.text.split()[2]) if self.text else 0


class HangWatch:
    """Watches the progress of ranks."""

    def __init__(self, read: Callable[[], Mapping[int, Beat]], world_size: int) -> None:
        """Begin to watch. `read` returns the newest beat of each rank that has started."""
        self._read = read
        now = time.monotonic()
        self.pulses = [Pulse(rank, changed_s=now, worked_s=now) for rank in range(world_size)]

    def look(self) -> str | None:
        """Read every rank's beat; return a sentence about the rank that hangs, or None."""
        now = time.monotonic()
        beats = self._read()
        for pulse in self.pulses:
            beat = beats.get(pulse.rank, Beat(text="", busy_s=0.0))
            if beat.text != pulse.text:
                pulse.text, pulse.changed_s = beat.text, now
            if beat.busy_s >= pulse.busy_s + 0.5:
                pulse.busy_s, pulse.worked_s = beat.busy_s, now
        return hanging(self.pulses, now, HANG_S)


def beats_here(folder: Path) -> dict[int, Beat]:
    """Return the newest beat of each rank on this machine, whose files lie in `folder`."""
    beats = {}
    for path in folder.glob("rank-*.beat"):
        text = path.read_text(encoding="ascii").strip()
        rank = int(path.stem.removeprefix("rank-"))
        beats[rank] = Beat(text=text, busy_s=_cpu_seconds(int(text.split()[0])) if text else 0.0)
    return beats


def hanging(pulses: Sequence[Pulse], now_s: float, hang_s: float) -> str | None:
    """Return a sentence about the rank that holds up the others, or None while any of them makes progress. Pure.

    A starting rank may compile kernels for minutes, so it only hangs if it uses no CPU. It may also wait for another trial that
    compiles them, or import from a slow disk; then `limit_s` ends the trial.
    """
    if min(now_s - pulse.changed_s for pulse in pulses) < hang_s:
        return None
    last = min(pulses, key=lambda pulse: pulse.progress)
    if not last.text or last.stage == "kernels":
        return None
    if last.stage in STARTING and now_s - last.worked_s < hang_s:
        return None
    # A rank that stopped in an exchange is as far as the ranks that wait for it, so all of them are named.
    named = " or ".join(str(pulse.rank) for pulse in pulses if pulse.progress == last.progress)
    return f"rank {named} hangs ({last.stage}): no rank made progress for {hang_s:g} s"


def _cpu_seconds(process: int) -> float:
    try:
        return sum(psutil.Process(process).cpu_times()[:2])  # user and system
    except psutil.NoSuchProcess:
        return 0.0
