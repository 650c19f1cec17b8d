"""Pairs the trials of two sides, each of one arm. Pure.

Trials are paired by point (kind, num_envs, horizon, batch_size) and repeat, so that both have the same seed. If both sides have a
point, but no common repeat of it (for example two commits in one study), trials are paired in the order of their repeats. Such pairs
are independent trials, and have their spread.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from envknee.record.schema import Environment, Record
from envknee.record.status import SUCCESS, Status
from envknee.verdict.schema.comparison import Apart, LeftOut, Outcome, Place


class Pair(NamedTuple):
    """Two trials of one point."""

    a: Record
    b: Record

    @property
    def succeeded(self) -> bool:
        """Whether both trials succeeded."""
        return succeeded(self.a) and succeeded(self.b)


Pairs = dict[Place, list[Pair]]
"""Pairs by point, in ascending order."""

Alone = dict[Place, list[Record]]
"""Trials of one side without a counterpart, by point."""


def succeeded(record: Record) -> bool:
    """Tell whether a trial timed all its iterations, or reached its target."""
    return record.outcome.status == SUCCESS[record.request.kind]


def paired(a: Sequence[Record], b: Sequence[Record]) -> tuple[Pairs, Alone, Alone]:
    """Return the pairs of A and B, and the trials that A alone and B alone has."""
    of_a, of_b = _by_place(a), _by_place(b)
    pairs: Pairs = {}
    for place in sorted(of_a.keys() & of_b.keys(), key=order):
        by_a, by_b = of_a[place], of_b[place]
        repeats = sorted(by_a.keys() & by_b.keys())
        # Without a common repeat, pair them in order.
        keys = zip(repeats, repeats, strict=True) if repeats else zip(sorted(by_a), sorted(by_b), strict=False)
        pairs[place] = [Pair(by_a.pop(first), by_b.pop(second)) for first, second in keys]
    only_a, only_b = ({place: list(left.values()) for place, left in own.items() if left} for own in (of_a, of_b))
    return pairs, only_a, only_b


def _by_place(records: Sequence[Record]) -> dict[Place, dict[int, Record]]:
    by_place: dict[Place, dict[int, Record]] = {}
    for record in sorted(records, key=lambda record: record.request.repeat):
        by_place.setdefault(place_of(record), {})[record.request.repeat] = record
    return by_place


def place_of(record: Record) -> Place:
    """Return the point of a trial."""
    request = record.request
    return Place(request.kind, request.num_envs, request.horizon, request.batch_size)


def outcomes(pairs_of: Pairs) -> list[Outcome]:
    """Return the common points at which any trial did not succeed."""
    found = []
    for place, pairs in pairs_of.items():
        lost = [(pair.a.request.repeat, pair.b.request.repeat) for pair in pairs if not pair.succeeded]
        if not lost:
            continue
        success = SUCCESS[place.kind]
        a, b = (Counter(record.outcome.status for record in side) for side in zip(*pairs, strict=True))
        found.append(
            Outcome(
                place=place,
                pairs=len(pairs),
                a_succeeded=a[success],
                b_succeeded=b[success],
                a_lost=_lost(a, success),
                b_lost=_lost(b, success),
                lost_repeats=lost,
            )
        )
    return found


def left_out(side: str, alone: Alone, pairs: Pairs) -> list[LeftOut]:
    """Return the trials that only `side` has, by point."""
    return [
        LeftOut(
            side=side,
            place=place,
            repeats=[record.request.repeat for record in records],
            whole_point=place not in pairs,
            lost=_lost(Counter(record.outcome.status for record in records), SUCCESS[place.kind]),
        )
        for place, records in sorted(alone.items(), key=lambda item: order(item[0]))
    ]


def order(place: Place) -> tuple[str, int, int, int]:
    """Sort key of points: the library's own batch size comes first."""
    return place.kind, place.num_envs, place.horizon, place.batch_size or 0


def _lost(counts: Counter[Status], success: Status) -> dict[Status, int]:
    """Return the number of trials that did not succeed, by status."""
    return {status: count for status, count in sorted(counts.items()) if status != success}


def apart(pairs_of: Pairs) -> Apart:
    """Return how many pairs have trials on different machines or GPUs."""
    where = Counter(_apart(pair) for pairs in pairs_of.values() for pair in pairs)
    return Apart(machines=where["machines"], gpus=where["GPUs"], pairs=where.total() - where["unknown"])


def on_one_machine(pairs_of: Pairs) -> Pairs:
    """Return the pairs whose trials ran on one machine; maybe none."""
    kept = {place: [pair for pair in pairs if _apart(pair) != "machines"] for place, pairs in pairs_of.items()}
    return {place: pairs for place, pairs in kept.items() if pairs}


def _apart(pair: Pair) -> Literal["unknown", "machines", "GPUs"] | None:
    """Return in what the places of a pair's trials differ.

    GPUs differ by their UUIDs. Machines differ by name, CPU model or number of cores, unless the same GPUs ran both trials (a container
    may give a machine another name). Names tell less than UUIDs: machines of one image may all have the same name.
    """
    a, b = (record.outcome.environment for record in pair)
    if a is None or b is None:
        return "unknown"
    of_a, of_b = ({gpu.uuid for gpu in record.outcome.gpus} for record in pair)
    if of_a and of_a == of_b:
        return None
    if _machine(pair.a, a) != _machine(pair.b, b):
        return "machines"
    return "GPUs" if of_a and of_b else None


def same_machine(a: Record, b: Record) -> bool:
    """Tell whether two trials ran on one machine, which each of them must know."""
    return _apart(Pair(a, b)) != "machines"


def _machine(record: Record, environment: Environment) -> tuple[set[str], str, int]:
    names = {environment.host, *(rank.host for rank in record.outcome.ranks or [] if rank.host)}
    return names, environment.cpu_model, environment.cpu_cores
