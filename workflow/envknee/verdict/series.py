"""Series: arm, horizon and batch size, which stay the same while num_envs doubles. Pure."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from envknee.base.fields import Kind
from envknee.base.point import batch_transitions
from envknee.record.schema import Frozen, Record, Request
from envknee.verdict.settings import ArmSettings

RankWord = Literal["GPU", "rank"]
"""What one of several ranks is: a GPU, or on a CPU a process."""


class Ranks(NamedTuple):
    """The ranks that train together. `num_envs` is per rank, FPS are of all ranks."""

    world_size: int
    word: RankWord

    @classmethod
    def of(cls, source: ArmSettings | Request) -> "Ranks":
        """Return the ranks of an arm, or of a trial."""
        return cls(source.world_size, "rank" if source.gpus == 0 else "GPU")


ONE_GPU = Ranks(1, "GPU")


class Series(NamedTuple):
    """Settings that stay the same while num_envs is doubled."""

    arm: str
    horizon: int
    """As listed in the study; with a scaling rule, at its base."""
    batch_size: int | None
    """All ranks together. None: the library's own number of mini-batches, so that the batch grows with num_envs."""


class OfRanks(Frozen):
    """A model of ranks that train together."""

    world_size: int = 1
    """Ranks that train together; num_envs is per rank."""
    rank_word: Literal["GPU", "rank"] = "GPU"
    """The word for one rank."""

    @property
    def ranks(self) -> Ranks:
        """The ranks."""
        return Ranks(self.world_size, self.rank_word)


class OfPlace(Frozen):
    """A model of one horizon and batch size of an arm."""

    horizon: int
    batch_size: int | None
    """All ranks together; None: the library's own."""

    @property
    def series(self) -> Series:
        """The series, of an arm without a name."""
        return Series("", self.horizon, self.batch_size)


class OfSeries(OfPlace):
    """A model of one series."""

    arm: str

    @property
    def series(self) -> Series:
        """The series."""
        return Series(self.arm, self.horizon, self.batch_size)


def batch_size_of(record: Record) -> int:
    """Return the transitions of one optimizer step of all ranks; 0 if the library's own batch is unknown."""
    request, ranks = record.request, record.world_size
    of_each = batch_transitions(request.num_envs, request.horizon, request.batch_size, record.num_mini_batches, ranks)
    return round(of_each * ranks)


def series_of(record: Record) -> Series:
    """Return the series of a trial."""
    point = record.request.point
    return Series(record.request.arm, point.horizon, point.batch_size)


def by_series(records: Iterable[Record], kind: Kind) -> dict[Series, dict[int, list[Record]]]:
    """Return the records of one kind as series -> num_envs -> records by number, all in ascending order."""
    grouped: dict[Series, dict[int, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.request.number):
        if record.request.kind == kind:
            grouped.setdefault(series_of(record), {}).setdefault(record.request.num_envs, []).append(record)
    order = sorted(grouped, key=lambda series: (series.arm, series.horizon, series.batch_size or 0))
    return {series: dict(sorted(grouped[series].items())) for series in order}
