"""CPU time of other processes during trials. A busy core adds noise and also bends the curve. Pure.

Source: on two cores, 64 to 512 environments gained 58% on an idle machine, and 86 to 128% beside a busy core.
"""

import statistics
from collections.abc import Sequence

from envknee.record.schema import Record

FAR_MORE_CORES = 0.5
"""A trial is disturbed if other processes used this many more cores than during the median trial."""

WORTH_SAYING_CORES = 0.25


def disturbed(records: Sequence[Record]) -> tuple[set[int], list[str]]:
    """Return the numbers of trials during which other processes used far more cores than during the rest, and a note on their load.

    There is no note if the load was small or not measured.
    """
    busy = {record.request.number: record.metrics.get("others_cpu_percent") for record in records}
    cores = {number: spread.median / 100 for number, spread in busy.items() if spread is not None}
    usual = statistics.median(cores.values()) if cores else 0.0
    out = {number for number, own in cores.items() if own > usual + FAR_MORE_CORES}
    said = []
    if usual >= WORTH_SAYING_CORES:
        said.append(f"Other processes kept {usual:.1f} cores busy meanwhile: this holds for a machine that busy.")
    if out:
        said.append(
            f"Not counted: {len(out)} of {len(cores)} trials, of which others took half a core more than of the rest."
        )
    return out, [" ".join(said)] if said else []
