"""What one trial says about memory. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT, Status
from envknee.study.off_policy import OFF_POLICY
from envknee.verdict.series import Series


@dataclass(frozen=True)
class Sample:
    """What one trial says about memory: all that this module needs of a record."""

    kind: str
    num_envs: int
    """Of each rank."""
    horizon: int
    batch_size: int | None
    """Of all ranks together; None for the library's own."""
    mini_batches: int | None
    """Optimizer steps per epoch that the library ran with, where that is known."""
    status: Status
    peak_gb: float | None
    """Of the fullest rank; None where none was measured."""
    in_parts: bool = False
    """True where it learned each mini-batch in parts, for whole ones did not fit."""
    off_policy: bool = False
    """True where it kept a replay buffer, whose size is its own, in place of rollouts."""

    @property
    def fitted(self) -> bool:
        """Tell whether it ran with a peak that was measured: out of memory cuts it short, whatever it says."""
        return self.peak_gb is not None and self.status not in DID_NOT_FIT

    @property
    def whole(self) -> bool:
        """Tell whether the peak is what a trial takes at its point: in parts it is cut to what there was."""
        return self.fitted and not self.in_parts


@dataclass(frozen=True)
class Room:
    """The memory that one rank may use."""

    memory_gb: float | None
    device: str | None = None
    on_gpu: bool = True
    unknown_because: str = "no trial tells the memory of its device"
    """What to say where `memory_gb` is None."""


def sample_of(record: Record) -> Sample:
    """Return what a record says about memory."""
    request = record.request
    return Sample(
        kind=request.kind,
        num_envs=request.num_envs,
        horizon=request.horizon,
        batch_size=request.batch_size,
        mini_batches=record.num_mini_batches,
        status=record.outcome.status,
        peak_gb=record.memory_peak_gb,
        in_parts=bool(record.outcome.micro_batches),
        off_policy=request.trainer in OFF_POLICY,
    )


def measured_peaks(records: Sequence[Record]) -> list[Record]:
    """Return the records that ran with a peak that was measured: out of memory cuts it short, whatever it says."""
    return [record for record in records if sample_of(record).fitted]


def peaks_at(series: Series, candidates: Sequence[Sample]) -> list[Sample]:
    """Return the samples of one series."""
    return [
        sample for sample in candidates if (sample.horizon, sample.batch_size) == (series.horizon, series.batch_size)
    ]


def usual_mini_batches(samples: Sequence[Sample]) -> int | None:
    """Return how many mini-batches the library ran with most often."""
    mini_batches = Counter(sample.mini_batches for sample in samples if sample.mini_batches)
    return mini_batches.most_common(1)[0][0] if mini_batches else None
