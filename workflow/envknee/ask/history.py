"""What a request may use: the requests before it, and the records that its window shows. Pure.

Most requests need little of each earlier trial: its point, why it was skipped, the memory that it took. So these small parts (`Asked`,
`Footprint`) stand beside whole requests and records, which are read when a policy or a sampler first uses them.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.reasons import SkipReason
from envknee.record.schema import Record, Request
from envknee.verdict.memory_sample import Sample, sample_of

Value = TypeVar("Value")


class ByNumber(Mapping[int, Value], Generic[Value]):
    """Values by the number of their trial, ascending. Each is read when it is first used."""

    def __init__(self, numbers: Iterable[int], read: Callable[[int], Value]) -> None:
        self._numbers = dict.fromkeys(sorted(numbers))
        self._read = read

    def __getitem__(self, number: int) -> Value:
        if number not in self._numbers:
            raise KeyError(number)
        return self._read(number)

    def __contains__(self, number: object) -> bool:
        """Tell whether there is a value, without reading it."""
        return number in self._numbers

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def before(self, number: int) -> "ByNumber[Value]":
        """Return the values of the trials before `number`."""
        return ByNumber((known for known in self._numbers if known < number), self._read)


class Asked(NamedTuple):
    """The part of an earlier request that most answers need."""

    number: int
    arm: str
    kind: Kind
    repeat: int
    point: Point
    """As the study lists it."""
    skip: SkipReason | str | None

    @classmethod
    def of(cls, request: Request) -> "Asked":
        """Return this part of a request."""
        return cls(request.number, request.arm, request.kind, request.repeat, request.point, request.skip)


class Footprint(Sample):
    """The memory that a trial took, and that it had."""

    arm: str
    world_size: int
    device_gb: float | None
    """Memory that each rank may use; None for a trial that did not run."""
    rollout_gb: float | None
    measured_gb: float | None
    """The measured peak, also of a point that its process had measured before."""

    @classmethod
    def of(cls, record: Record) -> "Footprint":
        """Return this part of a record."""
        return cls(
            **dict(sample_of(record)),
            arm=record.request.arm,
            world_size=record.world_size,
            device_gb=record.rank_memory_gb,
            rollout_gb=record.rollout_gb,
            measured_gb=record.memory_peak_gb,
        )


@dataclass(frozen=True)
class History:
    """Requests and records so far. An answer uses those that its window shows."""

    asked: Sequence[Asked]
    """One of each request, in order."""
    footprints: Mapping[int, Footprint]
    """Of records, by number."""
    requests: ByNumber[Request]
    records: ByNumber[Record]

    def footprints_before(self, number: int) -> list[Footprint]:
        """Return the footprints of the trials before `number`."""
        return [footprint for known, footprint in self.footprints.items() if known < number]

    @staticmethod
    def of(requests: Sequence[Request], records: Mapping[int, Record]) -> "History":
        """Return the history of requests 0, 1, ... and of records by number."""
        return History(
            asked=[Asked.of(request) for request in requests],
            footprints=ByNumber(records, functools.cache(lambda number: Footprint.of(records[number]))),
            requests=ByNumber(range(len(requests)), requests.__getitem__),
            records=ByNumber(records, records.__getitem__),
        )
