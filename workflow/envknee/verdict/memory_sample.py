"""The memory of one trial. Pure."""

from collections import Counter
from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT, Status
from envknee.verdict.series import OfPlace


class Sample(OfPlace):
    """The part of a record that the memory limit needs."""

    num_envs: int
    """Per rank."""
    mini_batches: int | None = None
    """The library's optimizer steps per epoch, if known."""
    status: Status
    peak_gb: float | None
    """Largest peak of any rank; None if not measured, or of a point that its process had measured before."""
    in_parts: bool = False
    """True where it learned each mini-batch in parts, for whole ones did not fit."""
    from_outside: bool = False
    """True where the peak was sampled from outside the program, which may miss it."""
    off_policy: bool = False
    """True where it kept a replay buffer, whose size is its own, in place of rollouts."""

    @property
    def fitted(self) -> bool:
        """Whether the trial ran and its peak was measured. Out of memory cuts the peak short."""
        return self.peak_gb is not None and self.status not in DID_NOT_FIT

    @property
    def whole(self) -> bool:
        """Whether the peak is that of whole mini-batches. Learning in parts reduces it to fit the memory.

        A peak of zero is of a program that takes nothing of this memory, such as one that does not use the GPU that it has.
        """
        return self.fitted and not self.in_parts and self.peak_gb != 0.0


def sample_of(record: Record) -> Sample:
    """Return the sample of a record."""
    request = record.request
    return Sample(
        num_envs=request.num_envs,
        horizon=request.horizon,
        batch_size=request.batch_size,
        mini_batches=record.num_mini_batches,
        status=record.outcome.status,
        peak_gb=counted_peak_gb(record),
        from_outside=request.command is not None,
        in_parts=bool(record.outcome.micro_batches),
        off_policy=request.is_off_policy,
    )


def counted_peak_gb(record: Record) -> float | None:
    """Return the peak that stands for a fresh process.

    A process that measures a point again has cuDNN's plans already, and reserves other memory: on an H200 5.5% more at 4,096
    environments, where a point that only comes late takes as much as in a fresh process (results-published/cartpole-stock-lean-warp).
    """
    shared = record.outcome.shared
    is_second = record.request.again or (shared is not None and shared.measured_before)
    return None if is_second else record.memory_peak_gb


def measured_peaks(records: Sequence[Record]) -> list[Record]:
    """Return the records with `Sample.fitted`."""
    return [record for record in records if sample_of(record).fitted]


def largest_peak_gb(records: Sequence[Record]) -> float | None:
    """Return the largest measured peak of some trials, or None."""
    return max((record.memory_peak_gb or 0.0 for record in measured_peaks(records)), default=None)


def usual_mini_batches(samples: Sequence[Sample]) -> int | None:
    """Return the library's most frequent number of mini-batches."""
    mini_batches = Counter(sample.mini_batches for sample in samples if sample.mini_batches)
    return mini_batches.most_common(1)[0][0] if mini_batches else None
