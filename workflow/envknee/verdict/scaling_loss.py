"""Where the loss of training on several ranks goes: seconds of an iteration on all ranks less those on one, by phase. Pure.

Input: records of one point on one rank, and on several. Output: a `ScalingLoss`.

Each rank has the same work as one rank alone, so without a loss every phase takes as long as there. Phases of several ranks are means
over the ranks. What is more in `learning` has two parts:

* the mean rank waits for the slowest one to end its rollout, because gradients are exchanged in every optimizer step. The learning of the
  slowest rank (`learn_s`, counted from the end of the last rollout) does not have this wait, and the phase does.
* the rest is the exchange itself, and waiting in later optimizer steps. With a fixed `batch_size` mini-batches of a rank are smaller, which
  shortens it.

The other phases have no exchange. What is more there comes from the host, which starts kernels for several ranks at once, or from memory
and power that GPUs share.

These are estimates without intervals: the interval of the efficiency tells whether there is a loss at all.
"""

import statistics
from collections.abc import Callable, Hashable, Sequence
from itertools import chain

from envknee.record.schema import PHASES, Phase, Record
from envknee.verdict.schema.scaling import ScalingLoss


def loss(
    one_rank: Sequence[Record], all_ranks: Sequence[Record], machines: Sequence[Sequence[Hashable]]
) -> ScalingLoss | None:
    """Return where the loss of one point goes; None if the trials of either side do not tell their phases.

    `machines` has the machine of each trial, of both sides: hosts differ in speed, so both sides are compared on each machine, and the
    result is the mean over machines. Where no machine has both, all are compared as if one had.
    """
    alone, several = (_by_machine(records, own) for records, own in zip((one_rank, all_ranks), machines, strict=True))
    if not alone or not several:
        return None
    pairs = [(alone[machine], several[machine]) for machine in alone if machine in several]
    if not pairs:
        pairs = [([*chain(*alone.values())], [*chain(*several.values())])]

    def more(seconds_of: Callable[[Record], float]) -> float:
        return statistics.fmean(_mean(both[1], seconds_of) - _mean(both[0], seconds_of) for both in pairs)

    return ScalingLoss(
        iteration_one_rank_s=statistics.fmean(_mean(both[0], _whole_s) for both in pairs),
        iteration_all_ranks_s=statistics.fmean(_mean(both[1], _whole_s) for both in pairs),
        more_s={phase: more(_seconds_of(phase)) for phase in PHASES},
        slowest_rank_s=max(0.0, statistics.fmean(_mean(both[1], _wait_s) for both in pairs)),
    )


def _by_machine(records: Sequence[Record], machines: Sequence[Hashable]) -> dict[Hashable, list[Record]]:
    """Return the trials that tell their phases, by machine."""
    found: dict[Hashable, list[Record]] = {}
    for record, machine in zip(records, machines, strict=True):
        if record.phases_s:
            found.setdefault(machine, []).append(record)
    return found


def _mean(records: Sequence[Record], seconds_of: Callable[[Record], float]) -> float:
    """Return the mean over processes; one that measured the point twice counts once."""
    by_repeat: dict[int, list[float]] = {}
    for record in records:
        by_repeat.setdefault(record.request.repeat, []).append(seconds_of(record))
    return statistics.fmean(statistics.fmean(own) for own in by_repeat.values())


def _seconds_of(phase: Phase) -> Callable[[Record], float]:
    """Return a function that returns a record's seconds of a phase; 0 if it has none."""

    def seconds(record: Record) -> float:
        spread = (record.phases_s or {}).get(phase)
        return 0.0 if spread is None else spread.median

    return seconds


def _whole_s(record: Record) -> float:
    """Return the seconds of an iteration: the sum of its phases."""
    return sum(spread.median for spread in (record.phases_s or {}).values())


def _wait_s(record: Record) -> float:
    """Return how long the mean rank waits, before it learns, for the slowest one."""
    learning = (record.phases_s or {}).get("learning")
    if learning is None or record.learn_s is None:
        return 0.0
    return learning.median - record.learn_s.median
