"""Why a request is not run: enums with the numbers that belong to them.

A `Skip` says that a trial would change nothing, a `Refusal` that it cannot fit the memory. Requests hold them from `ask_version` 2 on;
earlier ones hold texts. `envknee.words.requests` makes sentences of them, and nothing reads a sentence again.

Measured numbers are rounded, so that arithmetic that differs in its last digit from machine to machine gives the same request.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _to_digits(digits: int) -> AfterValidator:
    """Return a validator that rounds to so many significant digits."""
    return AfterValidator(lambda value: float(f"{value:.{digits}g}"))


FourDigits = Annotated[float, _to_digits(4)]
TwoDigits = Annotated[float, _to_digits(2)]


class Reason(BaseModel):
    """Why a request is not run."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Skip(Reason):
    """Why a trial need not run: it would change nothing."""


class Decided(Skip):
    """Every series of the section is decided."""

    reason: Literal["decided"] = "decided"
    repeats: int
    """Whole repeats at the look that decided."""


class TimeSpent(Skip):
    """Another repeat would outlast `time_limit_s`."""

    reason: Literal["time_spent"] = "time_spent"
    time_limit_s: float
    repeats: int
    """Repeats that were measured."""
    spent_s: int
    """Seconds that they took."""


class DriftKnown(Skip):
    """With a time limit, the first repeat alone measures a block's first point again."""

    reason: Literal["drift_known"] = "drift_known"


class ClearlyPays(Skip):
    """Every doubling from and to the point clearly gains more than delta."""

    reason: Literal["clearly_pays"] = "clearly_pays"


class Composed(Skip):
    """The point's FPS follow from other points (`verdict.composed`)."""

    reason: Literal["composed"] = "composed"
    horizon: int
    """Horizon of the points that it follows from."""
    collects_num_envs: int
    """The point whose environment steps take as long."""
    learns_num_envs: tuple[int, ...]
    """The points whose learning gives this one's."""


class LargeRollout(Skip):
    """The rollout is far larger than any at the smallest horizon, whose memory must be known first."""

    reason: Literal["large_rollout"] = "large_rollout"
    times: float
    """The largest such rollout times this is the limit."""


class ShownSlower(Skip):
    """A learning trial's point is shown slower than another one of any arm."""

    reason: Literal["shown_slower"] = "shown_slower"
    seeds: int
    least_s: FourDigits
    """Lower end of the interval of the point's seconds to the target."""
    faster_arm: str
    faster_num_envs: int
    most_s: FourDigits
    """Upper end of the faster point's interval."""
    confidence: float
    """Of both intervals."""


SearchEnd = Literal[
    "no_doubling_fits", "none_measured", "threshold_between", "still_pays", "stopped_paying", "undecided", "too_many_repeats"
]  # fmt: skip
"""How the search for the threshold of a series ended:

no_doubling_fits   no two of the `num_envs` that fit are a doubling apart
none_measured      no two num_envs could be measured
threshold_between  decided: the threshold lies between the two `num_envs`
still_pays         decided: doubling still pays at `num_envs`, the last that can be doubled
stopped_paying     decided: doubling these `num_envs` has stopped paying
undecided          the most `repeats` were measured around `num_envs`
too_many_repeats   more than the most `repeats` would be needed around `num_envs`
"""


class SearchedSeries(Reason):
    """The end of the search in one series."""

    horizon: int
    batch_size: int | None
    """None: the library's own."""
    end: SearchEnd
    num_envs: tuple[int, ...] = ()
    repeats: int | None = None


class Searched(Skip):
    """`sampler: adaptive` needs no further trial."""

    reason: Literal["searched"] = "searched"
    series: tuple[SearchedSeries, ...]


class CrashedBefore(Skip):
    """The program crashed at this point, twice in one trial: another repeat would, too."""

    reason: Literal["crashed_before"] = "crashed_before"
    num_envs: int
    trial: int
    """Number of the trial that crashed."""


class SamplerDone(Skip):
    """A sampler that chooses trials needs no further one."""

    reason: Literal["sampler_done"] = "sampler_done"


class Refusal(Reason):
    """Why a trial must not run: it cannot fit the memory."""

    num_envs: int
    """On each GPU."""
    horizon: int


class RolloutTooLarge(Refusal):
    """The observations of one rollout alone exceed the device."""

    reason: Literal["rollout_too_large"] = "rollout_too_large"
    needed_gb: FourDigits
    usable_gb: FourDigits
    device_gb: FourDigits
    measured_gb: FourDigits
    """Observations of the rollout from which `needed_gb` follows."""
    measured_num_envs: int
    measured_horizon: int


class FailedBefore(Refusal):
    """Trials at no larger a point ran out of memory."""

    reason: Literal["failed_before"] = "failed_before"
    trials: int
    smallest_num_envs: int
    smallest_horizon: int


class PredictedTooLarge(Refusal):
    """The memory model of earlier trials predicts far more than the device has."""

    reason: Literal["predicted_too_large"] = "predicted_too_large"
    predicted_gb: FourDigits
    device_gb: FourDigits
    trials: int
    """Trials of the model."""
    largest_error_gb: TwoDigits


SkipReason = Annotated[
    Decided
    | TimeSpent
    | DriftKnown
    | ClearlyPays
    | Composed
    | LargeRollout
    | ShownSlower
    | Searched
    | SamplerDone
    | CrashedBefore,
    Field(discriminator="reason"),
]
RefusalReason = Annotated[RolloutTooLarge | FailedBefore | PredictedTooLarge, Field(discriminator="reason")]
