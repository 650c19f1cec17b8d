"""Points that cannot fit the memory are refused before a trial starts.

Input: the memory that trials of an arm took. Output: why a point is refused, or None. Pure. A refused trial still gets a record.

A point is refused for one of three reasons:
- the observations of its rollout alone exceed the device (exact, from one record);
- points no larger than it ran out of memory twice;
- the memory model of earlier trials (`verdict.memory_model`) predicts far more memory than the device has. A model with as many
  unknowns as points fits each of them, even if it is wrong elsewhere; then a point no larger must have failed, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envknee.ask.history import Footprint
from envknee.base.point import Point, rollout_size
from envknee.record.reasons import FailedBefore, PredictedTooLarge, RefusalReason, RolloutTooLarge
from envknee.record.schema import Record
from envknee.study import space
from envknee.study.model import Arm

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

    rollout: Footprint | None
    """The trial whose observations take least memory per transition: exact in one record, and linear in transitions."""
    device_gb: float | None
    """Memory of the largest device of any trial: only points that fit no device are refused."""
    failed: list[Point]
    """Points that ran out of memory, one entry for each trial."""
    whole: list[Footprint]
    """Trials that fitted, for the memory model; none if mini-batches were split to fit the memory."""
    arm: Arm | None
    """The arm whose scaling rule gives a trial's values; None: the point itself."""

    @staticmethod
    def of(arm: str, records: Iterable[Record], settings: Arm | None = None) -> "KnownMemory":
        """Return what the records of `arm` among `records` tell, in any order."""
        return KnownMemory.from_footprints(arm, map(Footprint.of, records), settings)

    @staticmethod
    def from_footprints(arm: str, footprints: Iterable[Footprint], settings: Arm | None = None) -> "KnownMemory":
        """Return what the footprints of `arm` among `footprints` tell, in any order."""
        known = [trial for trial in footprints if trial.arm == arm and trial.device_gb is not None]
        rollouts = [trial for trial in known if trial.rollout_gb and not trial.off_policy]
        device_gb = max((trial.device_gb for trial in known if trial.device_gb), default=None)
        # A point that did not fit a smaller device may fit the largest.
        failed = [
            Point(trial.num_envs, trial.horizon, trial.batch_size)
            for trial in known
            if trial.device_gb == device_gb and trial.status == "oom"
        ]
        fitted = [trial for trial in known if trial.measured_gb and trial.status != "oom"]
        return KnownMemory(
            rollout=min(rollouts, key=_transition_gb, default=None),
            device_gb=device_gb,
            failed=sorted(failed, key=lambda point: (point.num_envs, point.horizon, point.batch_size or 0)),
            whole=[] if any(trial.in_parts for trial in known) else fitted,
            arm=settings,
        )

    def refusal(self, point: Point) -> RefusalReason | None:
        """Return why a listed point cannot fit the device, or None."""
        if self.arm is not None:
            run = space.as_run(self.arm, point)
            point = Point(point.num_envs, run.horizon, run.batch_size)
        return _rollout_alone(self, point) or _failed_before(self, point) or _by_model(self, point)

    def prediction(self, point: Point) -> "Prediction | None":
        """Return the memory model's prediction for a point; None without a model."""
        if self.device_gb is None or not self.whole:
            return None
        from envknee.verdict import memory_model  # takes 0.8 s, which most requests do not need

        return memory_model.predict(self.whole, point, self.device_gb, self.whole[0].world_size)


def _rollout_alone(memory: KnownMemory, point: Point) -> RolloutTooLarge | None:
    """Refuse a rollout whose observations alone exceed the device."""
    if memory.rollout is None or memory.rollout.rollout_gb is None or memory.device_gb is None:
        return None
    gb_per_transition, num_envs, horizon = _transition_gb(memory.rollout)
    needed_gb = gb_per_transition * point.rollout
    usable_gb = memory.device_gb * (1 - MEMORY_MARGIN)
    if needed_gb <= usable_gb:
        return None
    return RolloutTooLarge(
        num_envs=point.num_envs,
        horizon=point.horizon,
        needed_gb=needed_gb,
        usable_gb=usable_gb,
        device_gb=memory.device_gb,
        measured_gb=memory.rollout.rollout_gb,
        measured_num_envs=num_envs,
        measured_horizon=horizon,
    )


def _failed_before(memory: KnownMemory, point: Point) -> FailedBefore | None:
    """Refuse a point if enough trials no larger ran out of memory."""
    smaller = [failed for failed in memory.failed if _no_larger(failed, point)]
    if len(smaller) < CERTAIN_FAILURES:
        return None
    return FailedBefore(
        num_envs=point.num_envs,
        horizon=point.horizon,
        trials=len(smaller),
        smallest_num_envs=smaller[0].num_envs,
        smallest_horizon=smaller[0].horizon,
    )


def _by_model(memory: KnownMemory, point: Point) -> PredictedTooLarge | None:
    """Refuse by the memory model, which only applies to rollouts larger than any that fitted."""
    largest = max((rollout_size(trial.num_envs, trial.horizon) for trial in memory.whole), default=0)
    if memory.device_gb is None or not 0 < largest < point.rollout:
        return None
    predicted = memory.prediction(point)
    if predicted is None or predicted.fit.largest_error_gb > MODEL_ERROR * memory.device_gb:
        return None
    if predicted.peak_gb <= memory.device_gb * (1 + MODEL_EXCESS):
        return None
    if predicted.fit.covariance is None and not any(_no_larger(failed, point) for failed in memory.failed):
        return None
    return PredictedTooLarge(
        num_envs=point.num_envs,
        horizon=point.horizon,
        predicted_gb=predicted.peak_gb,
        device_gb=memory.device_gb,
        trials=len(predicted.fit.samples),
        largest_error_gb=predicted.fit.largest_error_gb,
    )


def _transition_gb(trial: Footprint) -> tuple[float, int, int]:
    """Return the memory of a transition's observations, and the num_envs and horizon at which it was measured."""
    gb = (trial.rollout_gb or 0.0) / rollout_size(trial.num_envs, trial.horizon)
    return gb, trial.num_envs, trial.horizon


def _no_larger(point: Point, other: Point) -> bool:
    """Tell whether a point needs at most the memory of another. A stated batch cannot be compared with the library's."""
    if (point.batch_size is None) != (other.batch_size is None):
        return False
    return (
        point.num_envs <= other.num_envs
        and point.horizon <= other.horizon
        and (point.batch_size or 0) <= (other.batch_size or 0)
    )
