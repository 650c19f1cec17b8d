"""CPU time of other processes during trials. A busy core adds noise and also bends the curve. Pure.

Every trial counts: `rule.loads` gives the gain beside the least load. Here is what a reader is told.

Source: on two cores, 64 to 512 environments gained 58% on an idle machine, and 86 to 128% beside a busy core.
"""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.verdict.rule.loads import VARIES_CORES
from envknee.verdict.schema.throughput import OtherLoad

HIGH_CORES = 0.25
"""From this many cores on during the calmest trial, a limit holds only for a machine as busy."""


def cores_of_others(record: Record) -> float | None:
    """Return the cores that other processes took during a trial; None if that was not measured."""
    busy = record.metrics.get("others_cpu_percent")
    return None if busy is None else busy.median / 100


def other_load(records: Sequence[Record]) -> OtherLoad | None:
    """Return the load of other processes during the timed trials of a series, and how many it touched.

    None if it was small, or not measured.
    """
    known = [cores for record in records if (cores := cores_of_others(record)) is not None]
    if not known:
        return None
    least = min(known)
    touched = sum(cores > least + VARIES_CORES for cores in known)
    is_high = least >= HIGH_CORES
    if not is_high and not touched:
        return None
    return OtherLoad(
        cores=least, is_high=is_high, touched=touched, trials=len(known), unknown=len(records) - len(known)
    )
