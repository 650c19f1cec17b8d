"""A section of a study: its points, repeats and time limits."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from envknee.ask import samplers
from envknee.base.fields import newer
from envknee.study.choices import OneOf
from envknee.study.value_types import (
    FIXED_DESIGNS,
    BatchSizes,
    Confidence,
    NotNegative,
    Number,
    Positive,
    Seconds,
    Share,
    Sizes,
    Strict,
    number,
)

CHOOSING_TRIALS = samplers.names(samplers.TRIAL_SAMPLERS)
"""Samplers that choose repeats as well as points, and may stop early."""


class UntilDecided(Strict):
    """When a section may stop before all `repeats` are measured.

    It has its own delta and confidence: `decide` may change after the measurement, requests may not.
    """

    delta: Share = 0.10
    """A series is decided when doublings are shown to gain less than this, or still to gain it at the largest size."""
    confidence: Confidence = 0.95
    """Confidence of that decision."""


class Adaptive(UntilDecided):
    """When a sampler that chooses trials has seen enough: two successive doublings are shown to gain less than delta."""

    within: Annotated[float, Field(ge=1), BeforeValidator(number)] = 2.0
    """Learning: also stop when the threshold's interval spans at most this factor."""
    probes: NotNegative = 0
    """After all decisions, at most this many trials per horizon and batch size between the largest num_envs that fitted the memory and the
    smallest that did not."""
    confirm: NotNegative = newer(3)
    """Throughput: fresh repeats of both ends of the doubling found. Only they give its gain, because the repeats that stop a search
    understate it."""
    trials: Positive | None = None
    """At most this many trials; without it, half of all points with all their repeats, and the fresh ones."""


def _block(value: Any) -> Any:
    if value != "all" and (type(value) is not int or value < 1):
        raise ValueError("expected 'all', or a whole number of points of at least 1")
    return value


class Sweep(Strict):
    """The points of one kind of trial, and how they are picked."""

    num_envs: Sizes
    """Environments simulated side by side, on each GPU."""
    horizon: Sizes
    """Environment steps per rollout (num_steps_per_env in RSL-RL)."""
    batch_size: BatchSizes
    """Transitions in one optimizer step, all GPUs together; 'library' keeps the task's own number of mini-batches, so that the batch grows
    with num_envs."""
    sampler: Annotated[str, OneOf([*samplers.names(samplers.POINT_SAMPLERS), *CHOOSING_TRIALS])] = "grid"
    """Method that picks points: Optuna's tpe or gp after a Sobol start, a fixed design, or 'adaptive': only doublings that decide the
    verdict, until it is decided."""
    adaptive: Adaptive = newer(Adaptive())
    """With sampler: adaptive, when to stop."""
    points: Positive | None = None
    """Number of different points; without it, every legal one."""
    repeats: Positive
    """How often each point runs, each time in a fresh process with its own seed."""
    more_repeats: NotNegative = newer(0)
    """Further repeats of each point, measured last. Raise it if a measured study is undecided; nothing is measured again."""
    warmup_iterations: NotNegative = 1
    """First iterations left out of the FPS figures."""
    limit_s: Seconds
    """A trial still running after this many seconds is stopped and recorded as 'timeout'."""
    block: Annotated[int | Literal["all"], BeforeValidator(_block)] = newer(1)
    """Points that one process measures, one after the other; 'all': every point of a repeat. 1 (the reference): a fresh process for each
    trial, which spends most of its time on starting."""
    until_decided: UntilDecided | None = newer(None)
    """Stop before `repeats` if every series is decided. Checked after every repeat from the third on; each check costs some power."""
    time_limit_s: Seconds | None = newer(None)
    """Begin no further repeat once an arm's trials have taken this many seconds in total. Undecided limits are reported as such.
    more_repeats ignore this limit."""

    @property
    def all_repeats(self) -> int:
        """The most repeats of a point: `repeats` + `more_repeats`."""
        return self.repeats + self.more_repeats

    @property
    def chooses_trials(self) -> bool:
        """Whether `sampler` is one of `CHOOSING_TRIALS`."""
        return self.sampler in CHOOSING_TRIALS

    def _problems(self) -> Iterator[str]:
        key = None
        if self.block != 1:
            key = "block"
        elif self.until_decided:
            key = "until_decided"
        elif self.time_limit_s:
            key = "time_limit_s"
        if key is not None and self.sampler not in FIXED_DESIGNS:
            yield (
                f"{key} is for samplers whose points are known beforehand ({', '.join(FIXED_DESIGNS)}), and the sampler is"
                f" {self.sampler}. Take one of those, or leave {key} out"
            )
        if not self.chooses_trials and self.adaptive != Adaptive():
            choosing = " or ".join(CHOOSING_TRIALS)
            yield f"'adaptive' is for sampler: {choosing}, and the sampler is {self.sampler}"
        for key in ("points", "more_repeats") if self.chooses_trials else ():
            if getattr(self, key):
                yield (
                    f"{key} {getattr(self, key)}: sampler {self.sampler} chooses points and repeats itself, and stops after"
                    f" adaptive.trials at most. Take {key} out"
                )
        if self.chooses_trials and self.repeats < 3:
            yield f"repeats {self.repeats}: sampler {self.sampler} needs at least 3 of a point to decide anything"


class Throughput(Sweep):
    """Throughput trials: a few warm-up iterations, then a few timed ones. They answer FPS and memory."""

    repeats: Positive = 3
    iterations: Positive = 5
    """Most timed iterations after the warm-up."""
    precision: Share | None = newer(None)
    """End a trial once the standard error of its median FPS is below this share, after two timed iterations or more."""
    least_timed_s: Annotated[float, Field(ge=0), BeforeValidator(number)] = newer(2.0)
    """On a GPU, go on until the timed iterations together took this many seconds, whatever `iterations` and `precision` say. A foreign
    command runs its `iterations`."""
    wait_for_others: bool = newer(True)
    """Wait before a trial while other processes keep the machine busy: 1.5 trial lengths at most, and half the measuring time in all."""
    fresh_below: Positive | None = newer(None)
    """Within a block, a point with fewer environments than this has a process of its own."""
    compose_horizons: bool = newer(False)
    """With block: all, measure every size at the smallest horizon, and at others only what does not follow: a step takes as long with the
    same num_envs, and learning with the same rollout."""
    limit_s: Seconds = 600.0

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.compose_horizons and (self.block != "all" or self.fresh_below is not None or self.points is not None):
            yield (
                "compose_horizons: times are put together within a process that measures every point. Set `block: all`, and"
                " take fresh_below and points out"
            )
        if self.compose_horizons and len(self.horizon) < 2:
            yield f"compose_horizons: horizon {min(self.horizon)} is the only one, and there must be two or more"
        if self.fresh_below is not None and self.block == 1:
            yield (
                f"fresh_below {self.fresh_below}: with block 1 every trial has a fresh process. Set `block: all`, or take"
                " fresh_below out"
            )


class Learning(Sweep):
    """Learning trials: train until the target reward or a budget. They answer seconds and frames to target."""

    repeats: Positive = 2
    target_reward: Number
    """Mean episode reward at which the trial ends."""
    target_episodes: Positive = 40
    """The reward is averaged over at least this many finished episodes."""
    budget_s: Seconds
    """Seconds of training after which the trial ends as 'timeout' (censored)."""
    limit_s: Seconds = 3600.0
    skip_decided: bool = newer(False)
    """A size gets no more seeds once three or more show it slower than another size of any arm (95% intervals do not overlap)."""

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        if self.skip_decided and self.chooses_trials:
            yield f"skip_decided is for samplers that choose points: {self.sampler} stops by itself"
        if self.limit_s <= self.budget_s:
            yield (
                f"limit_s {self.limit_s:g} would stop every trial before its budget_s {self.budget_s:g} is spent:"
                " leave a minute or more for the start"
            )
