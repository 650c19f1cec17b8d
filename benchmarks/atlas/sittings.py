"""What the search of a task took so far, and how it ended: one file beside its results, and beside what is kept.

A search may take several sittings: one that was cut off goes on with the next.
"""

from pathlib import Path
from typing import Literal

from envknee.record.schema import Frozen
from envknee.study.files import canonical_json, read_model, write_atomically

FILE = "search.json"

Ended = Literal["answered", "time over", "failed"]
"""Answered: `knee` ended by itself. Time over: it goes on when it runs again. Failed: it ended without a verdict."""


class Sitting(Frozen):
    """One run of `envknee knee`."""

    seconds: float
    gpu: str | None
    """As in CUDA_VISIBLE_DEVICES; None on a CPU."""
    ended: Ended


class Search(Frozen):
    """The sittings of a task's search."""

    task: str
    typed: str
    """The command that repeats the search."""
    sittings: list[Sitting] = []
    reason: str | None = None
    """Why the last sitting failed, in the words of `knee`. None unless it failed."""

    @property
    def seconds(self) -> float:
        """The seconds of all sittings together."""
        return sum(sitting.seconds for sitting in self.sittings)

    @property
    def ended(self) -> Ended | None:
        """How the last sitting ended; None before the first."""
        return self.sittings[-1].ended if self.sittings else None

    def with_sitting(self, sitting: Sitting, reason: str | None) -> "Search":
        """Return this search after one more sitting."""
        return self.model_copy(update={"sittings": [*self.sittings, sitting], "reason": reason})


def read_search(folder: Path, task: str, typed: str) -> Search:
    """Return what is noted of a search in a folder; without a file, one that did not begin."""
    path = folder / FILE
    if not path.exists():
        return Search(task=task, typed=typed)
    return read_model(path, Search, "Delete it to forget how long the search took; its trials stay.")


def write_search(folder: Path, search: Search) -> None:
    """Note a search in a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / FILE, canonical_json(search))
