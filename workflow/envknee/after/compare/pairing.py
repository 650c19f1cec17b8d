"""Pairs the trials of two sides, each of one arm. Pure.

Trials are paired by point (kind, num_envs, horizon, batch_size) and repeat, so that both have the same seed. If both sides have a
point, but no common repeat of it (for example two commits in one study), trials are paired in the order of their repeats. Such pairs
are independent trials, and have their spread.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

from envknee.base.fields import Kind
from envknee.record.schema import Environment, Record
from envknee.record.status import SUCCESS, Status
from envknee.words.numbers import shown_batch


class Place(NamedTuple):
    """The kind and the point of a trial."""

    kind: Kind
    num_envs: int
    horizon: int
    batch_size: int | None

    def __str__(self) -> str:
        """Return `throughput, 64 environments, horizon 16, batch 128`."""
        return f"{self.kind}, {self.num_envs:,} environments, horizon {self.horizon}, {shown_batch(self.batch_size)}"


class Pair(NamedTuple):
    """Two trials of one point."""

    a: Record
    b: Record

    @property
    def succeeded(self) -> bool:
        """Whether both trials succeeded."""
        return succeeded(self.a) and succeeded(self.b)

    def __str__(self) -> str:
        """Return the repeat, `3`, or both repeats, `0 and 3`."""
        a, b = self.a.request.repeat, self.b.request.repeat
        return str(a) if a == b else f"{a} and {b}"


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
    for place in sorted(of_a.keys() & of_b.keys(), key=lambda place: (*place[:3], place.batch_size or 0)):
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
        request = record.request
        place = Place(request.kind, request.num_envs, request.horizon, request.batch_size)
        by_place.setdefault(place, {})[request.repeat] = record
    return by_place


def outcomes(pairs_of: Pairs) -> tuple[list[str], list[str]]:
    """Return a sentence on each common point at which any trial did not succeed: where fewer of B than of A did, then the others.

    A sentence has the point, `5 of 5 target_reached, then 2 of 5 (3 timeout)`, and the consequence for the comparison.
    """
    fewer: list[str] = []
    others: list[str] = []
    for place, pairs in pairs_of.items():
        if not (broken := [str(pair) for pair in pairs if not pair.succeeded]):
            continue
        success, count = SUCCESS[place.kind], len(pairs)
        a, b = (Counter(record.outcome.status for record in side) for side in zip(*pairs, strict=True))
        repeats = f"repeat{'s' if len(broken) > 1 else ''} {', '.join(broken)}"
        follows = (
            f"no ratio of seconds and frames to target here, for seeds did not arrive ({repeats})"
            if place.kind == "learning"
            else f"left out: {repeats}"
        )
        (fewer if b[success] < a[success] else others).append(
            f"{place}: {a[success]} of {count} {success}{_lost(a, success)}, then {b[success]} of {count}{_lost(b, success)}; {follows}"
        )
    return fewer, others


def left_out(name: str, alone: Alone, pairs: Pairs) -> list[str]:
    """Return the trials that only the side called `name` has, a line per point, with repeats and failures."""
    lines = []
    for place, records in alone.items():
        lost = _lost(Counter(record.outcome.status for record in records), SUCCESS[place.kind])
        repeats = ", ".join(str(record.request.repeat) for record in records)
        some = f", repeat{'s' if len(records) > 1 else ''} {repeats}" if place in pairs else ""
        lines.append(f"only {name}: {place}{some}{lost}")
    return lines


def _lost(counts: Counter[Status], success: Status) -> str:
    """Return ` (3 timeout)`, the trials that did not succeed; "" if all did."""
    lost = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()) if status != success)
    return f" ({lost})" if lost else ""


def across_machines(pairs_of: Pairs) -> list[str]:
    """Return notes on pairs whose trials ran on different machines or GPUs, which may be the cause of a difference."""
    where = Counter(_apart(pair) for pairs in pairs_of.values() for pair in pairs)
    timed = where.total() - where["unknown"]
    why = "what differs may be theirs, so ratios leave them out where other pairs share a machine"
    notes = []
    if machines := where["machines"]:
        notes.append(f"pairs across machines: {machines} of {timed} (another name, CPU or number of cores): {why}")
    if gpus := where["GPUs"]:
        notes.append(
            f"pairs across GPUs: {gpus} of {timed} (of one machine, or of several that are named alike): what differs may be theirs"
        )
    return notes


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


def _machine(record: Record, environment: Environment) -> tuple[set[str], str, int]:
    names = {environment.host, *(rank.host for rank in record.outcome.ranks or [] if rank.host)}
    return names, environment.cpu_model, environment.cpu_cores
