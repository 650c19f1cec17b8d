"""Which trial of one side is compared with which of the other.

Input: records of two sides, each of one arm. Output: pairs by point, those without a counterpart, and what a reader must know of
them. Pure.

Trials are paired by their point (kind, num_envs, horizon, batch_size) and repeat, which have the same seed on both sides. Where both
sides have a point and never the same repeat of it, as two commits in one study do, they are paired in the order of their repeats:
pairs of independent trials, whose spread is theirs.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from envknee.record.schema import Environment, Frozen, Record
from envknee.record.status import SUCCESS, Status
from envknee.study.rules import Kind
from envknee.verdict.words.numbers import shown_batch


class Place(NamedTuple):
    """What makes two trials the same: all but the side they are on and the repeat."""

    kind: Kind
    num_envs: int
    horizon: int
    batch_size: int | None

    @staticmethod
    def of(record: Record) -> "Place":
        """Return where a trial was measured."""
        request = record.request
        return Place(request.kind, request.num_envs, request.horizon, request.batch_size)

    def __str__(self) -> str:
        """Return `throughput, 64 environments, horizon 16, batch 128`."""
        return f"{self.kind}, {self.num_envs:,} environments, horizon {self.horizon}, {shown_batch(self.batch_size)}"


class Pair(NamedTuple):
    """Two trials of one point."""

    a: Record
    b: Record

    @property
    def succeeded(self) -> bool:
        """Return whether both did."""
        return succeeded(self.a) and succeeded(self.b)

    def __str__(self) -> str:
        """Return `3`, the repeat, or `0 and 3` where they differ."""
        a, b = self.a.request.repeat, self.b.request.repeat
        return str(a) if a == b else f"{a} and {b}"


@dataclass(frozen=True)
class Pairing:
    """Two sides, trial by trial."""

    pairs: dict[Place, list[Pair]]
    """By point, ascending, and repeat."""
    only_a: dict[Place, list[Record]]
    """Trials without a counterpart."""
    only_b: dict[Place, list[Record]]


class Outcomes(Frozen):
    """How the pairs of one point ended, where any trial of them did not succeed."""

    place: Place
    a: dict[Status, int]
    """Status -> trials."""
    b: dict[Status, int]
    left_out: list[str]
    """Repeats of the pairs in which either trial did not succeed."""

    @property
    def fewer(self) -> bool:
        """Return whether fewer trials of B than of A succeeded, of as many."""
        success = SUCCESS[self.place.kind]
        return self.b.get(success, 0) < self.a.get(success, 0)

    def __str__(self) -> str:
        """Return the point, `5 of 5 target_reached, then 2 of 5 (3 timeout)`, and what follows for what is compared."""
        success = SUCCESS[self.place.kind]

        def told(counts: dict[Status, int], name: str) -> str:
            return f"{counts.get(success, 0)} of {sum(counts.values())}{name}{_lost(counts, success)}"

        repeats = f"repeat{'s' if len(self.left_out) > 1 else ''} {', '.join(self.left_out)}"
        follows = (
            f"no ratio of seconds and frames to target here, for seeds did not arrive ({repeats})"
            if self.place.kind == "learning"
            else f"left out: {repeats}"
        )
        return f"{self.place}: {told(self.a, f' {success}')}, then {told(self.b, '')}; {follows}"


def succeeded(record: Record) -> bool:
    """Return whether a trial did what it was run for: timed all its iterations, or reached the target."""
    return record.outcome.status == SUCCESS[record.request.kind]


def paired(a: Sequence[Record], b: Sequence[Record]) -> Pairing:
    """Return which trials of A and B belong together, and which have no counterpart."""
    of_a, of_b = _by_place(a), _by_place(b)
    pairs: dict[Place, list[Pair]] = {}
    for place in sorted(of_a.keys() & of_b.keys(), key=lambda place: (*place[:3], place.batch_size or 0)):
        by_a, by_b = of_a[place], of_b[place]
        repeats = sorted(by_a.keys() & by_b.keys())
        # Never the same repeat: in order, as far as both go.
        keys = zip(repeats, repeats, strict=True) if repeats else zip(sorted(by_a), sorted(by_b), strict=False)
        pairs[place] = [Pair(by_a.pop(first), by_b.pop(second)) for first, second in keys]
    return Pairing(
        pairs, *({place: list(left.values()) for place, left in own.items() if left} for own in (of_a, of_b))
    )


def _by_place(records: Sequence[Record]) -> dict[Place, dict[int, Record]]:
    by_place: dict[Place, dict[int, Record]] = {}
    for record in sorted(records, key=lambda record: record.request.repeat):
        by_place.setdefault(Place.of(record), {})[record.request.repeat] = record
    return by_place


def outcomes(pairing: Pairing) -> list[Outcomes]:
    """Return how both sides ended at each point that both measured, where any trial of either did not succeed."""
    return [
        Outcomes(
            place=place,
            a=dict(Counter(pair.a.outcome.status for pair in pairs)),
            b=dict(Counter(pair.b.outcome.status for pair in pairs)),
            left_out=[str(pair) for pair in pairs if not pair.succeeded],
        )
        for place, pairs in pairing.pairs.items()
        if not all(pair.succeeded for pair in pairs)
    ]


def without_counterpart(pairing: Pairing, a: str, b: str) -> list[str]:
    """Return what one side alone has, a line per point: the point, or those of its repeats, and how they failed."""
    alone = []
    for name, left in ((a, pairing.only_a), (b, pairing.only_b)):
        for place, records in left.items():
            lost = _lost(Counter(record.outcome.status for record in records), SUCCESS[place.kind])
            repeats = ", ".join(str(record.request.repeat) for record in records)
            some = f", repeat{'s' if len(records) > 1 else ''} {repeats}" if place in pairing.pairs else ""
            alone.append(f"only {name}: {place}{some}{lost}")
    return sorted(alone)


def _lost(counts: dict[Status, int], success: Status) -> str:
    """Return ` (3 timeout)`: what did not succeed; empty where all did."""
    lost = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()) if status != success)
    return f" ({lost})" if lost else ""


def across_machines(pairing: Pairing) -> list[str]:
    """Return notes on pairs whose trials ran on different machines, or on different GPUs: what differs may be theirs.

    GPUs are told apart by their UUIDs. Machines are by name, CPU model and number of cores, unless the same GPUs ran both trials (a
    container may give a machine another name). Names tell less than UUIDs: machines of one image may all have the same.
    """
    known = [
        (pair, pair.a.outcome.environment, pair.b.outcome.environment)
        for pairs in pairing.pairs.values()
        for pair in pairs
    ]
    machines = gpus = timed = 0
    for pair, a, b in known:
        if a is None or b is None:
            continue
        timed += 1
        of_a, of_b = ({gpu.uuid for gpu in record.outcome.gpus} for record in pair)
        if of_a and of_a == of_b:
            continue
        if _hosts(pair.a, a) != _hosts(pair.b, b):
            machines += 1
        elif of_a and of_b:
            gpus += 1
    why = "what differs may be theirs, so ratios leave them out where other pairs share a machine"
    notes = []
    if machines:
        notes.append(f"pairs across machines: {machines} of {timed} (another name, CPU or number of cores): {why}")
    if gpus:
        notes.append(
            f"pairs across GPUs: {gpus} of {timed} (of one machine, or of several that are named alike): what differs may be theirs"
        )
    return notes


def on_one_machine(pairing: Pairing) -> tuple[Pairing, bool]:
    """Return the pairs whose trials ran on one machine, and whether there is any; all pairs where there is none."""

    def same(pair: Pair) -> bool:
        a, b = pair.a.outcome.environment, pair.b.outcome.environment
        if a is None or b is None:
            return True
        of_a, of_b = ({gpu.uuid for gpu in record.outcome.gpus} for record in pair)
        return (bool(of_a) and of_a == of_b) or _hosts(pair.a, a) == _hosts(pair.b, b)

    kept = {place: [pair for pair in pairs if same(pair)] for place, pairs in pairing.pairs.items()}
    if not any(kept.values()):
        return pairing, False
    return replace(pairing, pairs={place: pairs for place, pairs in kept.items() if pairs}), True


def _hosts(record: Record, environment: Environment) -> tuple[set[str], str, int]:
    names = {environment.host, *(rank.host for rank in record.outcome.ranks or [] if rank.host)}
    return names, environment.cpu_model, environment.cpu_cores
