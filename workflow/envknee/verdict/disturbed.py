"""CPU time of other processes during trials. A busy core adds noise and also bends the curve. Pure.

Source: on two cores, 64 to 512 environments gained 58% on an idle machine, and 86 to 128% beside a busy core.
"""

import statistics
from collections.abc import Sequence

from envknee.record.schema import Record

FAR_MORE_CORES = 0.5
"""A trial is disturbed if other processes used this many more cores than during the median trial."""

WORTH_SAYING_CORES = 0.25


def cores_of_others(record: Record) -> float | None:
    """Return the number of cores that other processes used beyond free ones while a trial was timed; None if not measured."""
    measured = record.metrics.get("others_cpu_percent")
    return None if measured is None else measured.median / 100


def disturbed(records: Sequence[Record]) -> set[int]:
    """Return the numbers of trials during which other processes used far more cores than during the rest."""
    known = _known(records)
    usual = statistics.median(known.values()) if known else 0.0
    return {number for number, cores in known.items() if cores > usual + FAR_MORE_CORES}


def note(records: Sequence[Record]) -> str | None:
    """Return a sentence on the load of other processes; None if it was small or not measured."""
    known = _known(records)
    if not known:
        return None
    usual, out = statistics.median(known.values()), len(disturbed(records))
    said = []
    if usual >= WORTH_SAYING_CORES:
        said.append(f"Other processes kept {usual:.1f} cores busy meanwhile: this holds for a machine that busy.")
    if out:
        said.append(
            f"Not counted: {out} of {len(known)} trials, of which others took half a core more than of the rest."
        )
    return " ".join(said) or None


def _known(records: Sequence[Record]) -> dict[int, float]:
    """Return the cores of others by number of the trial, where they were measured."""
    return {record.request.number: cores for record in records if (cores := cores_of_others(record)) is not None}
