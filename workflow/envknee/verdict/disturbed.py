"""CPU time of other processes during trials. A busy core adds noise and also bends the curve. Pure.

Source: on two cores, 64 to 512 environments gained 58% on an idle machine, and 86 to 128% beside a busy core.
"""

import statistics
from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.verdict.schema.throughput import OtherLoad

FAR_MORE_CORES = 0.5
"""A trial is disturbed if other processes used this many more cores than during the median trial."""

HIGH_CORES = 0.25
"""From this many cores on during the median trial, a limit holds only for a machine as busy."""


def disturbed(records: Sequence[Record]) -> tuple[set[int], OtherLoad | None]:
    """Return the numbers of trials during which other processes used far more cores than during the rest, and their load.

    The load is None if it was small or not measured.
    """
    busy = {record.request.number: record.metrics.get("others_cpu_percent") for record in records}
    cores = {number: spread.median / 100 for number, spread in busy.items() if spread is not None}
    usual = statistics.median(cores.values()) if cores else 0.0
    left_out = {number for number, used in cores.items() if used > usual + FAR_MORE_CORES}
    is_high = usual >= HIGH_CORES
    if not is_high and not left_out:
        return left_out, None
    return left_out, OtherLoad(cores=usual, is_high=is_high, left_out=len(left_out), trials=len(cores))
