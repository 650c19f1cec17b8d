"""Records to thresholds: throughput, learning and memory limits, and the verdict over them. Pure but for the command line.

doublings    the decision rule: from which num_envs on is doubling shown to gain less than delta?
throughput   the rule on FPS, and a law of the iteration time
learning     the rule on the seconds to a target reward
memory       what a trial needs, and the largest num_envs that fits
scaling      what share of k times one rank's FPS k ranks give
phase_law    which phase sets the knee
batch        the critical batch size B_noise
savings      GPU-hours to the target beside those of larger num_envs
levers       what a longer horizon, a larger batch and more GPUs were measured to give
remedies     what each arm buys beside a baseline, in environments that fit and in FPS
machines     other hosts, commits or GPUs that may pass for an effect of num_envs
spending     GPU-hours, energy and waiting that the trials took
advice       what would move the limit that binds
verdict      all of it, and one recommendation per arm

table, table_verdict, table_summary     the same for a person's own CSV file: python -m envknee.limits fps.csv
references   what kneed and the Universal Scalability Law say about a curve, for comparison
prove        how often all this is right, in simulated studies with known truth
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

from envknee.config import Arm, Kind
from envknee.record import Frozen, Record, Request


class Ranks(NamedTuple):
    """How many ranks train together, in words: what `num_envs` counts, and whose FPS are added up."""

    world_size: int
    word: Literal["GPU", "rank"]

    @classmethod
    def of(cls, one: Arm | Request) -> "Ranks":
        """Return the ranks of an arm, or of a trial."""
        return cls(one.world_size, "rank" if one.gpus == 0 else "GPU")

    @property
    def each(self) -> str:
        """Return ` per GPU` or ` per rank`, to stand behind "environments"; nothing where one rank trains alone."""
        return f" per {self.word}" if self.world_size > 1 else ""

    @property
    def together(self) -> str:
        """Return ` on 2 GPUs` or ` on 2 ranks`, to stand behind "FPS"; nothing where one rank trains alone."""
        return f" on {self}" if self.world_size > 1 else ""

    @property
    def alone(self) -> "Ranks":
        """Return one such rank."""
        return Ranks(1, self.word)

    def __str__(self) -> str:
        """Return `2 GPUs`, `2 ranks`, or `one GPU`."""
        return f"one {self.word}" if self.world_size == 1 else f"{self.world_size} {self.word}s"


ONE_GPU = Ranks(1, "GPU")


def slowest_and_fastest(fps: Iterable[float]) -> tuple[float, float] | None:
    """Return the least and the most of the ranks' own FPS, or None where one rank trained alone."""
    ranks = sorted(fps)
    return (ranks[0], ranks[-1]) if ranks else None


class Series(NamedTuple):
    """What stays the same while num_envs is doubled."""

    arm: str
    horizon: int
    batch_size: int | None
    """Of all ranks together. None stands for the library's own number of mini-batches: the batch grows with num_envs."""

    def __str__(self) -> str:
        """Return `horizon 16, batch 128`."""
        return f"horizon {self.horizon}, {shown_batch(self.batch_size)}"


class OfSeries(Frozen):
    """What is known of one series."""

    arm: str
    horizon: int
    batch_size: int | None

    @property
    def series(self) -> Series:
        """What stays the same while num_envs is doubled."""
        return Series(self.arm, self.horizon, self.batch_size)


def shown_batch(batch_size: int | None) -> str:
    """Return `batch 128`, or `library batch` where the batch follows num_envs."""
    return "library batch" if batch_size is None else f"batch {batch_size:,}"


def by_series(records: Iterable[Record], kind: Kind) -> dict[Series, dict[int, list[Record]]]:
    """Return the records of one kind as series -> num_envs -> records by number, all in ascending order."""
    grouped: dict[Series, dict[int, list[Record]]] = {}
    for record in sorted(records, key=lambda record: record.request.number):
        request = record.request
        if request.kind == kind:
            series = Series(request.arm, request.horizon, request.batch_size)
            grouped.setdefault(series, {}).setdefault(request.num_envs, []).append(record)
    order = sorted(grouped, key=lambda series: (series.arm, series.horizon, series.batch_size or 0))
    return {series: dict(sorted(grouped[series].items())) for series in order}


def listed(sizes: Iterable[int]) -> str:
    """Return `128, 1,024`."""
    return ", ".join(f"{size:,}" for size in sizes)


def percent(share: float, decimals: int = 1) -> str:
    """Return `12.3%`, or `over 1,000%` where more digits would say nothing."""
    return "over 1,000%" if share > 10.0 else f"{share:.{decimals}%}"


def times(factor: float) -> str:
    """Return `about 12 times`, or `over 1,000 times` where more digits would claim to know."""
    return "over 1,000 times" if factor > 1000.0 else f"about {factor:,.0f} times"
