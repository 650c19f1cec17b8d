"""The records of fresh seeds by setting and round, and how many of them count. Pure.

The number of fresh seeds is fixed beforehand, and seeds count at looks as planned (`rule.schedule`): after the planned number, and if
there are more, after 5, 8, 13, ...
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict.joint.observed import observed
from envknee.verdict.rule.doublings import Seeds
from envknee.verdict.rule.schedule import Schedule, as_planned


@dataclass(frozen=True)
class Rounds:
    """The records of fresh seeds by setting, up to the last look."""

    settings: Sequence[Point]
    """Ascending."""
    rounds: Sequence[Mapping[int, Record]]
    """Of each setting: round -> record. The first round is 0."""
    schedule: Schedule
    look: int | None
    """Whole rounds at the last look; None before the first one."""
    one_process: bool = False
    """Whether a process measures each round."""

    @property
    def is_whole(self) -> bool:
        """Whether the planned seeds have ended."""
        return self.look is not None

    @property
    def factor(self) -> float:
        """What a p-value counts times at the last look."""
        return math.inf if self.look is None else self.schedule.factor(self.look)

    @property
    def seeds_to_next_look(self) -> int | None:
        """Further seeds of each setting until the next look; None before the first one, or after the last one."""
        if self.look is None:
            return None
        later = self.schedule.next_look(self.look + 1)
        return None if later is None else later - self.look

    @cached_property
    def seeds(self) -> list[Seeds]:
        """The costs of each setting's seeds before the last look."""
        return self.before(self.look or 0)

    def before(self, number: float) -> list[Seeds]:
        """Return the costs of each setting's seeds in the rounds before a number."""
        return [seeds_of([record for place, record in own.items() if place < number]) for own in self.rounds]

    def records(self, place: int) -> list[Record]:
        """Return a setting's records before the last look; all of them before the first one."""
        return [record for number, record in self.rounds[place].items() if number < (self.look or math.inf)]


def seeds_of(records: Sequence[Record]) -> Seeds:
    """Return the costs of seeds; lower bounds of those that missed the target."""
    costs = [cost for record in records if (cost := observed(record)) is not None]
    return Seeds(
        tuple(own.cost for own in costs if not own.is_censored), tuple(own.cost for own in costs if own.is_censored)
    )


def rounds_of(records: Sequence[Record], seeds: int | None, one_process: bool = False) -> Rounds | None:
    """Return the fresh seeds among records of one arm and kind; None without any. `seeds` of each setting are planned."""
    confirming = [record for record in records if record.request.confirms]
    if seeds is None or not confirming:
        return None
    first = min(record.request.repeat for record in confirming)
    rounds: dict[Point, dict[int, Record]] = {}
    for record in sorted(confirming, key=lambda record: record.request.repeat):
        rounds.setdefault(record.request.point, {})[record.request.repeat - first] = record
    settings = sorted(rounds)
    schedule = as_planned(seeds)
    whole = min(len(own) for own in rounds.values())
    return Rounds(settings, [rounds[setting] for setting in settings], schedule, schedule.last_look(whole), one_process)
