"""The records of a study, grouped once for all parts of its verdict. Pure.

Input: records. Output: `Measurements`, which `decide` makes once and hands to each analyser.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.series import Series, by_series

Groups = Mapping[Series, Mapping[int, Sequence[Record]]]
"""Records of one kind: series -> num_envs -> records by number, all in ascending order."""


@dataclass(frozen=True)
class Measurements:
    """The records of a study or of one of its arms."""

    records: Sequence[Record]
    """All of them, as they were read."""
    throughput: Groups
    learning: Groups

    @property
    def arms(self) -> set[str]:
        """The arms that have records."""
        return {record.request.arm for record in self.records}

    def of_arm(self, arm: str | None) -> "Measurements":
        """Return the records of one arm, grouped as before."""
        return Measurements(
            [record for record in self.records if record.request.arm == arm],
            *(_of_arm(arm, groups) for groups in (self.throughput, self.learning)),
        )

    def at(self, series: Series, num_envs: int) -> list[Record]:
        """Return the records of either kind at one point."""
        return [
            record for groups in (self.throughput, self.learning) for record in records_at(groups, series, num_envs)
        ]


def measurements_of(records: Sequence[Record]) -> Measurements:
    """Group records. Within `verdict/` only `decide` calls it, once for each verdict."""
    return Measurements(records, by_series(records, "throughput"), by_series(records, "learning"))


def records_at(groups: Groups, series: Series, num_envs: int) -> Sequence[Record]:
    """Return the records of one point; none where it was not measured."""
    return groups.get(series, {}).get(num_envs, ())


def every_record(groups: Groups) -> Iterator[Record]:
    """Yield all records of groups, series by series."""
    return chain.from_iterable(chain.from_iterable(by_size.values()) for by_size in groups.values())


def filtered(groups: Groups, counts: Callable[[Record], object]) -> Groups:
    """Return the records for which `counts` is true, without points and series that then have none."""
    counted: dict[Series, dict[int, list[Record]]] = {}
    for series, by_size in groups.items():
        for size, group in by_size.items():
            if records := list(filter(counts, group)):
                counted.setdefault(series, {})[size] = records
    return counted


def joined(groups: Groups, more: Iterable[Record], kind: Kind) -> Groups:
    """Return groups with further records of their kind, each at its place."""
    added = list(more)
    return by_series([*every_record(groups), *added], kind) if added else groups


def by_point(groups: Groups) -> dict[Point, Sequence[Record]]:
    """Return the groups of one arm as point -> records by number, in their order."""
    return {
        Point(num_envs, series.horizon, series.batch_size): group
        for series, by_size in groups.items()
        for num_envs, group in by_size.items()
    }


def _of_arm(arm: str | None, groups: Groups) -> Groups:
    return {series: by_size for series, by_size in groups.items() if series.arm == arm}
