"""Which points cannot fit the memory: known before a trial is started, so that it is refused instead.

Input: the records of an arm. Output: why a point is refused, or None. Pure. A refused trial still gets a record.

Three ways to know: the observations of its rollout alone exceed the device (exact, from one record), no larger a point ran
out of memory twice, or the memory model fitted so far (`limits.memory`) says that it needs far more than there is. With as
many points as unknowns it meets each of them, however wrong it is elsewhere: then no larger a point must have failed, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envknee.ask.observations import MEMORY_MARGIN
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.model import Arm
from envknee.study.off_policy import OFF_POLICY
from envknee.study.space import Point
from envknee.verdict import memory_sample

if TYPE_CHECKING:
    from envknee.verdict.memory_model import Prediction

CERTAIN_FAILURES = 2
"""Trials that ran out of memory at no larger a point: once may have been a neighbour on the device."""

MODEL_EXCESS = 0.10
"""Share of the device's memory by which the model must exceed all of it: closer to the wall a trial is the better answer."""

MODEL_ERROR = 0.05
"""Share of the device's memory by which the model may miss any measured peak and still be believed."""


@dataclass(frozen=True)
class Rollout:
    """What the observations of one rollout take: known exactly from one record, and linear."""

    gb: float
    """As measured at num_envs x horizon."""
    num_envs: int
    horizon: int

    @property
    def gb_per_transition(self) -> float:
        """What one transition's observations take."""
        return self.gb / space.rollout_size(self.num_envs, self.horizon)


@dataclass(frozen=True)
class KnownMemory:
    """What the records of one arm, of both kinds of trials, tell of its memory."""

    rollout: Rollout | None
    device_gb: float | None
    """Of the largest device that any trial had: a refusal is for points that fit nowhere."""
    failed: tuple[Point, ...]
    """Points that ran out of memory, one entry for each trial."""
    whole: tuple[Record, ...] = field(default=(), repr=False, compare=False)
    """What the memory model is fitted to: trials that fitted; none where they learned in parts that fit what there was."""
    arm: Arm | None = None
    """Whose rule says what a trial runs with at a point; None: the point itself."""

    @staticmethod
    def of(arm: str, records: Iterable[Record], settings: Arm | None = None) -> "KnownMemory":
        """Return what is known from the records of `arm` among `records`, in whatever order."""
        known = [record for record in records if record.request.arm == arm and record.rank_memory_gb is not None]
        rollouts = [
            Rollout(record.rollout_gb, record.request.num_envs, record.request.horizon)
            for record in known
            if record.rollout_gb is not None and record.request.trainer not in OFF_POLICY
        ]
        device_gb = max((record.rank_memory_gb for record in known if record.rank_memory_gb), default=None)
        # What did not fit a smaller device may fit the largest.
        on_largest = [record for record in known if record.rank_memory_gb == device_gb]
        failed = [_as_run(record.request) for record in on_largest if record.outcome.status == "oom"]
        return KnownMemory(
            rollout=min(
                rollouts,
                key=lambda rollout: (rollout.gb_per_transition, rollout.num_envs, rollout.horizon),
                default=None,
            ),
            device_gb=device_gb,
            failed=tuple(sorted(failed, key=lambda point: (point.num_envs, point.horizon, point.batch_size or 0))),
            whole=()
            if any(record.outcome.micro_batches for record in known)
            else tuple(record for record in known if record.memory_peak_gb and record.outcome.status != "oom"),
            arm=settings,
        )

    def refusal(self, point: Point) -> str | None:
        """Return why a point cannot fit the device, or None when nothing rules it out; the point as the study lists it."""
        if self.arm is not None:
            run = space.as_run(self.arm, point)
            point = Point(point.num_envs, run.horizon, run.batch_size)
        return self._rollout_alone(point) or self._failed_before(point) or self._by_model(point)

    def prediction(self, point: Point) -> "Prediction | None":
        """Return what the memory model of the trials that fitted says of a point; None where there is no model yet."""
        if self.device_gb is None or not self.whole:
            return None
        from envknee.verdict import memory_model  # 0.8 s that a point known to fit should not pay

        samples = [memory_sample.sample_of(record) for record in self.whole]
        return memory_model.predict(samples, point, self.device_gb, self.whole[0].world_size)

    def _rollout_alone(self, point: Point) -> str | None:
        if self.rollout is None or self.device_gb is None:
            return None
        needed_gb = self.rollout.gb_per_transition * space.rollout_size(point.num_envs, point.horizon)
        usable_gb = self.device_gb * (1 - MEMORY_MARGIN)
        if needed_gb <= usable_gb:
            return None
        return (
            f"The observations of one rollout of {point.num_envs} x {point.horizon} take {needed_gb:.4g} GB"
            f" (measured: {self.rollout.gb:.4g} GB at {self.rollout.num_envs} x {self.rollout.horizon}), and"
            f" {usable_gb:.4g} GB can be used ({1 - MEMORY_MARGIN:.0%} of the device's {self.device_gb:.4g} GB)."
        )

    def _failed_before(self, point: Point) -> str | None:
        smaller = [failed for failed in self.failed if _no_larger(failed, point)]
        if len(smaller) < CERTAIN_FAILURES:
            return None
        return (
            f"{len(smaller)} trials ran out of memory at no larger a point: the smallest at num_envs {smaller[0].num_envs},"
            f" horizon {smaller[0].horizon}."
        )

    def _by_model(self, point: Point) -> str | None:
        """Extrapolate to a larger rollout than any that fitted; within what fitted nothing is refused."""
        largest = max((space.rollout_size(r.request.num_envs, r.request.horizon) for r in self.whole), default=0)
        if self.device_gb is None or not 0 < largest < space.rollout_size(point.num_envs, point.horizon):
            return None
        predicted = self.prediction(point)
        if predicted is None or predicted.largest_error_gb > MODEL_ERROR * self.device_gb:
            return None
        if predicted.peak_gb <= self.device_gb * (1 + MODEL_EXCESS):
            return None
        if not predicted.errs_visibly and not any(_no_larger(failed, point) for failed in self.failed):
            return None
        return (
            f"The memory model of {predicted.trials} trials (largest error {predicted.largest_error_gb:.2g} GB) says"
            f" {predicted.peak_gb:.4g} GB at {point.num_envs} x {point.horizon}, and the device has {self.device_gb:.4g} GB."
        )


def _as_run(request: Request) -> Point:
    return Point(request.num_envs, request.horizon, request.batch_size)


def _no_larger(point: Point, other: Point) -> bool:
    """Tell whether a point needs at most the memory of another: batches are comparable when both are sizes or neither."""
    if (point.batch_size is None) != (other.batch_size is None):
        return False
    return (
        point.num_envs <= other.num_envs
        and point.horizon <= other.horizon
        and (point.batch_size or 0) <= (other.batch_size or 0)
    )
