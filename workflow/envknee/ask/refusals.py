"""Points that cannot fit the memory are refused before a trial starts.

Input: the records of an arm. Output: why a point is refused, or None. Pure. A refused trial still gets a record.

A point is refused for one of three reasons:
- the observations of its rollout alone exceed the device (exact, from one record);
- points no larger than it ran out of memory twice;
- the memory model of earlier trials (`verdict.memory_model`) predicts far more memory than the device has. A model with as many
  unknowns as points fits each of them, even if it is wrong elsewhere; then a point no larger must have failed, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envknee.base.point import Point, rollout_size
from envknee.record.schema import Record
from envknee.study import space
from envknee.study.model import Arm
from envknee.verdict import memory_sample

if TYPE_CHECKING:
    from envknee.verdict.memory_model import Prediction

MEMORY_MARGIN = 0.05
"""Share of the device's memory that a point must leave free. Not `decide.memory_margin`, which may change after the measurement;
requests may not."""

CERTAIN_FAILURES = 2
"""Trials that must have run out of memory: a single failure may be due to another process on the device."""

MODEL_EXCESS = 0.10
"""Share of the device's memory by which the prediction must exceed it. Closer to the limit a trial gives the better answer."""

MODEL_ERROR = 0.05
"""Largest error of the model at any measured peak, as a share of the device's memory."""


@dataclass(frozen=True)
class KnownMemory:
    """Memory of one arm, from the records of both kinds of trials."""

    rollout: Record | None
    """The trial whose observations take least memory per transition: exact in one record, and linear in transitions."""
    device_gb: float | None
    """Memory of the largest device of any trial: only points that fit no device are refused."""
    failed: list[Point]
    """Points that ran out of memory, one entry for each trial."""
    whole: list[Record]
    """Trials that fitted, for the memory model; none if mini-batches were split to fit the memory."""
    arm: Arm | None
    """The arm whose scaling rule gives a trial's values; None: the point itself."""

    @staticmethod
    def of(arm: str, records: Iterable[Record], settings: Arm | None = None) -> "KnownMemory":
        """Return what the records of `arm` among `records` tell, in any order."""
        known = [record for record in records if record.request.arm == arm and record.rank_memory_gb is not None]
        rollouts = [record for record in known if record.rollout_gb and not record.request.is_off_policy]
        device_gb = max((record.rank_memory_gb for record in known if record.rank_memory_gb), default=None)
        # A point that did not fit a smaller device may fit the largest.
        failed = [
            Point(record.request.num_envs, record.request.horizon, record.request.batch_size)
            for record in known
            if record.rank_memory_gb == device_gb and record.outcome.status == "oom"
        ]
        return KnownMemory(
            rollout=min(rollouts, key=_transition_gb, default=None),
            device_gb=device_gb,
            failed=sorted(failed, key=lambda point: (point.num_envs, point.horizon, point.batch_size or 0)),
            whole=[]
            if any(record.outcome.micro_batches for record in known)
            else [record for record in known if record.memory_peak_gb and record.outcome.status != "oom"],
            arm=settings,
        )

    def refusal(self, point: Point) -> str | None:
        """Return why a listed point cannot fit the device, or None."""
        if self.arm is not None:
            run = space.as_run(self.arm, point)
            point = Point(point.num_envs, run.horizon, run.batch_size)
        return self._rollout_alone(point) or self._failed_before(point) or self._by_model(point)

    def prediction(self, point: Point) -> "Prediction | None":
        """Return the memory model's prediction for a point; None without a model."""
        if self.device_gb is None or not self.whole:
            return None
        from envknee.verdict import memory_model  # takes 0.8 s, which most requests do not need

        samples = [memory_sample.sample_of(record) for record in self.whole]
        return memory_model.predict(samples, point, self.device_gb, self.whole[0].world_size)

    def _rollout_alone(self, point: Point) -> str | None:
        if self.rollout is None or self.device_gb is None:
            return None
        gb_per_transition, num_envs, horizon = _transition_gb(self.rollout)
        needed_gb = gb_per_transition * point.rollout
        usable_gb = self.device_gb * (1 - MEMORY_MARGIN)
        if needed_gb <= usable_gb:
            return None
        return (
            f"The observations of one rollout of {point.num_envs} x {point.horizon} take {needed_gb:.4g} GB"
            f" (measured: {self.rollout.rollout_gb:.4g} GB at {num_envs} x {horizon}), and"
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
        """Refuse by the memory model, which only applies to rollouts larger than any that fitted."""
        largest = max((rollout_size(r.request.num_envs, r.request.horizon) for r in self.whole), default=0)
        if self.device_gb is None or not 0 < largest < point.rollout:
            return None
        predicted = self.prediction(point)
        if predicted is None or predicted.fit.largest_error_gb > MODEL_ERROR * self.device_gb:
            return None
        if predicted.peak_gb <= self.device_gb * (1 + MODEL_EXCESS):
            return None
        if predicted.fit.covariance is None and not any(_no_larger(failed, point) for failed in self.failed):
            return None
        return (
            f"The memory model of {len(predicted.fit.samples)} trials (largest error {predicted.fit.largest_error_gb:.2g} GB) says"
            f" {predicted.peak_gb:.4g} GB at {point.num_envs} x {point.horizon}, and the device has {self.device_gb:.4g} GB."
        )


def _transition_gb(record: Record) -> tuple[float, int, int]:
    """Return the memory of a transition's observations, and the num_envs and horizon at which it was measured."""
    request = record.request
    gb = (record.rollout_gb or 0.0) / rollout_size(request.num_envs, request.horizon)
    return gb, request.num_envs, request.horizon


def _no_larger(point: Point, other: Point) -> bool:
    """Tell whether a point needs at most the memory of another. A stated batch cannot be compared with the library's."""
    if (point.batch_size is None) != (other.batch_size is None):
        return False
    return (
        point.num_envs <= other.num_envs
        and point.horizon <= other.horizon
        and (point.batch_size or 0) <= (other.batch_size or 0)
    )
