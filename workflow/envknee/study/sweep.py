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

PROFILE = "profile"
"""The sampler of the joint question, which searches num_envs, horizon and batch size at once."""

SEARCH_TRIALS = 64
"""Trials of its search, unless `trials` says otherwise."""

LEAST_SEEDS = 3
"""Seeds with fewer of which nothing is decided (`verdict.rule.schedule.LEAST_REPEATS`)."""


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
    ascending: bool = newer(False)
    """First one trial of each num_envs, from the smallest, until two doublings in a row gain less than delta, memory is full or a size
    breaks; no larger one runs then. For a program of which nobody knows the range. Else two sizes far apart come first."""
    trials: Positive | None = None
    """At most this many trials; without it, half of all points with all their repeats, and the fresh ones."""


class Confirm(Strict):
    """The confirming stage: after the search, fresh seeds of the settings that a model of the search chooses.

    Only these seeds carry claims, so that their number is fixed before any is measured. `more_repeats` adds seeds to all of them; each such
    look at the study has its own, smaller share of the chance of error. The first seed waits for the whole search; then all may run at
    once, whatever `window` says.
    """

    settings: Positive = 6
    """Settings of each arm: the best one of each num_envs, then the next best."""
    seeds: Positive = 8
    """Fresh seeds of each setting, 3 or more."""
    one_process: bool = newer(False)
    """Throughput: one process measures a whole round of fresh repeats, one of each setting, in place of a process for each of them.
    Settings are then compared round by round, so that what all of a process shares does not count."""

    def _problems(self) -> Iterator[str]:
        if self.seeds < LEAST_SEEDS:
            few = "one seed shows no noise" if self.seeds == 1 else "two seeds show too little of the noise"
            yield f"seeds {self.seeds}: {few}. Take {LEAST_SEEDS} or more; 8 are a good number"


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
    """Method that picks points: Optuna's tpe or gp after a Sobol start, a fixed design, 'adaptive': only doublings that decide the
    verdict, until it is decided; or 'profile': one model over all axes, which looks for the best setting of each num_envs."""
    adaptive: Adaptive = newer(Adaptive())
    """With sampler: adaptive, when to stop."""
    points: Positive | None = None
    """Number of different points; without it, every legal one."""
    trials: Positive | None = newer(None)
    """With sampler: profile, trials of an arm's search, of which several may have the same point. Without it, 64."""
    confirm: Confirm | None = newer(None)
    """After the search, fresh seeds of the best settings: what the study claims about settings rests on them. None: no such stage."""
    repeats: Positive
    """How often each point runs, each time in a fresh process with its own seed. Sampler profile chooses that itself."""
    more_repeats: NotNegative = newer(0)
    """Further repeats of each point, measured last; with `confirm`, further fresh seeds of each confirmed setting. Raise it if a measured
    study is undecided; nothing is measured again."""
    warmup_iterations: NotNegative = 1
    """First iterations left out of the FPS figures."""
    limit_s: Seconds
    """A trial still running after this many seconds is stopped and recorded as 'timeout'."""
    block: Annotated[int | Literal["all"], BeforeValidator(_block)] = newer(1)
    """Points that one process measures, one after the other; 'all': every point of a repeat. 1 (the reference): a fresh process for each
    trial, which spends most of its time on starting."""
    workers: Positive | None = newer(None)
    """Processes that ask for and measure trials one after the other, one on each device: each starts once, not for each trial. At most
    `window`. FPS that claims rest on have processes of their own. Without it, each trial has, unless `block` says otherwise. May be changed
    later, for another number of devices."""
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

    @property
    def may_end_early(self) -> bool:
        """Whether repeats may turn out not to be needed, so that fewer trials are measured than planned."""
        skips_decided = getattr(self, "skip_decided", False)
        return bool(self.until_decided or self.time_limit_s or skips_decided or self.chooses_trials)

    @property
    def is_joint(self) -> bool:
        """Whether one model over all axes chooses the trials."""
        return self.sampler == PROFILE

    @property
    def search_trials(self) -> int:
        """With sampler: profile, trials of an arm's search."""
        return self.trials or SEARCH_TRIALS

    @property
    def first_fresh(self) -> int:
        """The number of the first confirming repeat: larger than that of any repeat of the search, so that its seeds are fresh."""
        return self.search_trials if self.is_joint else self.repeats

    def _problems(self) -> Iterator[str]:
        if self.workers is not None and self.block != 1:
            yield (
                f"workers {self.workers} ask for each trial as they go, and block {self.block} fixes beforehand what a process measures."
                " Take one of the two out"
            )
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
        if (self.is_joint or not self.chooses_trials) and self.adaptive != Adaptive():
            choosing = " or ".join(name for name in CHOOSING_TRIALS if name != PROFILE)
            yield f"'adaptive' is for sampler: {choosing}, and the sampler is {self.sampler}"
        if self.trials is not None and not self.is_joint:
            yield f"trials {self.trials} is for sampler: {PROFILE}, and the sampler is {self.sampler}. Take trials out"
        yield from self._problems_of_confirm()
        limit = "`trials`" if self.is_joint else "adaptive.trials at most"
        for key in ("points", "more_repeats") if self.chooses_trials else ():
            if getattr(self, key) and not (key == "more_repeats" and self.confirm):
                yield (
                    f"{key} {getattr(self, key)}: sampler {self.sampler} chooses points and repeats itself, and stops after"
                    f" {limit}. Take {key} out"
                )
        if self.chooses_trials and not self.is_joint and self.repeats < 3:
            yield f"repeats {self.repeats}: sampler {self.sampler} needs at least 3 of a point to decide anything"

    def _problems_of_confirm(self) -> Iterator[str]:
        if self.confirm is None:
            return
        if self.chooses_trials and not self.is_joint:
            yield f"confirm: sampler {self.sampler} confirms by itself. Take confirm out, or search with sampler: {PROFILE}"
        for key in ("until_decided", "skip_decided"):
            if getattr(self, key, None):
                yield f"confirm: {key} ends the seeds of a size early, and those of confirm are fixed beforehand. Take {key} out"
        if self.confirm.one_process and (self.workers is None or not isinstance(self, Throughput)):
            yield (
                "confirm.one_process is for throughput with `workers`: they measure a round of fresh repeats in one process. Learning"
                " with workers shares processes anyway. Set workers there, or take one_process out"
            )
        if self.block != 1:
            yield f"confirm: each fresh seed has a process of its own, and block is {self.block}. Take block out"


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
    timed_share: Share | None = newer(None)
    """Of a foreign command: after `iterations`, go on until the timed ones took this share of its start-up, or their median is known within
    `precision`; at most 20 times `iterations`. The program is told that many. None: just `iterations`."""
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
    """Learning trials: train until the target reward or a budget. They answer seconds and environment steps to target."""

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
        if self.time_limit_s is not None and self.time_limit_s < self.budget_s:
            yield (
                f"time_limit_s {self.time_limit_s:g} is shorter than one trial, which trains for up to {self.budget_s:g} s (budget_s)."
                " Raise it to the time of several trials, or take it out"
            )
        if self.limit_s <= self.budget_s:
            yield (
                f"limit_s {self.limit_s:g} would stop every trial before its budget_s {self.budget_s:g} is spent:"
                " leave a minute or more for the start"
            )
