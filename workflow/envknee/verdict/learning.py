"""Learning limit: from which num_envs on does doubling save less than delta of the seconds to the target reward?

Input: records of learning trials. Output: one `LearningLimit` per (arm, horizon, batch_size). Pure.

The cost of a point is the interquartile mean over its seeds (`learning_cost`). Doublings are decided by a log-normal model with one
spread for all num_envs, in which a seed that spent its budget is censored (`rule.censored`), and one that became NaN or diverged is
censored at its whole budget. A point that ran out of memory has no cost. If only some of its seeds did, it comes behind all others.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import NamedTuple

from envknee.record.schema import Record, ScaledFrom
from envknee.verdict.learning_cost import Seeds, cost, frames_of, gpu_seconds_of, seconds_of, that_ran
from envknee.verdict.measurements import Measurements
from envknee.verdict.rule import censored, doublings, union
from envknee.verdict.rule.contrasts import Contrast
from envknee.verdict.rule.looks import Looked, looked_at, once
from envknee.verdict.rule.schedule import ONCE, Schedule
from envknee.verdict.schema.learning import LearningLimit, LearningPoint
from envknee.verdict.series import ONE_GPU, Ranks, Series
from envknee.verdict.settings import Settings

NO_SEEDS = Seeds(())


class SeedRepeats(NamedTuple):
    """The numbers of the repeats that gave the seeds of one point, in the order of `Seeds`."""

    reached: tuple[int, ...]
    censored: tuple[int, ...]

    @classmethod
    def of(cls, repeats: Iterable[tuple[int, bool]]) -> "SeedRepeats":
        """Return them from the number of each repeat, and whether its seed reached the target."""
        known = list(repeats)
        reached = tuple(number for number, has_reached in known if has_reached)
        return cls(reached, tuple(number for number, has_reached in known if not has_reached))

    @property
    def numbers(self) -> set[int]:
        """All of them."""
        return {*self.reached, *self.censored}

    def before(self, repeat: float, seeds: Seeds) -> Seeds:
        """Return the seeds of the repeats before a number."""
        return Seeds(
            tuple(compress(seeds.reached, (number < repeat for number in self.reached))),
            tuple(compress(seeds.censored, (number < repeat for number in self.censored))),
        )


def analyse(measured: Measurements, settings: Settings, schedule: Schedule = ONCE) -> list[LearningLimit]:
    """Return the learning limit of every measured series, of a study that is looked at by `schedule`."""
    return [_limit(series, by_size, settings, schedule) for series, by_size in measured.learning.items()]


def _limit(
    series: Series, by_size: Mapping[int, Sequence[Record]], settings: Settings, schedule: Schedule
) -> LearningLimit:
    seconds, gpu_seconds, frames = (
        {size: of(group) for size, group in by_size.items()} for of in (seconds_of, gpu_seconds_of, frames_of)
    )
    statuses = {size: Counter[str](record.outcome.status for record in group) for size, group in by_size.items()}
    first = next(iter(by_size.values()))[0].request
    return limit_of(
        series, seconds, statuses, settings,
        gpu_seconds=gpu_seconds, frames=frames, ranks=Ranks.of(first), scaled_from=first.scaled_from,
        repeats={size: _repeats(group) for size, group in by_size.items()}, schedule=schedule,
    )  # fmt: skip


def _repeats(records: Sequence[Record]) -> SeedRepeats:
    """Return the numbers of the repeats that gave the seeds of a point."""
    return SeedRepeats.of((record.request.repeat, record.seconds_to_target is not None) for record in that_ran(records))


def decision_of(
    seeds: Mapping[int, Seeds],
    delta: float,
    confidence: float,
    repeats: Mapping[int, SeedRepeats] | None = None,
    schedule: Schedule = ONCE,
) -> union.Decision:
    """Decide from the costs of seeds by num_envs, at least one each. Works without records.

    `repeats` has the number of the repeat that gave each seed, from 0 on (None: the seeds are looked at once), and `schedule` says after
    which of them the study may be looked at.
    """
    seen = looks_at(seeds, repeats, schedule)
    # A saving of delta is a gain of ln(1 / (1 - delta)).
    return union.decide(seen, seeds, -math.log1p(-delta), confidence, schedule)


def looks_at(
    seeds: Mapping[int, Seeds], repeats: Mapping[int, SeedRepeats] | None = None, schedule: Schedule = ONCE
) -> list[Looked]:
    """Return each doubling with all looks at it; arguments are as in `decision_of`."""
    if repeats is None:
        return once(censored.contrasts(seeds))

    def contrasts_before(repeat: float) -> list[Contrast]:
        known = {size: repeats[size].before(repeat, all_seeds) for size, all_seeds in seeds.items()}
        return censored.contrasts({size: seeds_before for size, seeds_before in known.items() if seeds_before.count})

    return looked_at(schedule, {size: of_size.numbers for size, of_size in repeats.items()}, contrasts_before)


def limit_of(
    series: Series,
    seconds: Mapping[int, Seeds],
    statuses: Mapping[int, Counter[str]],
    settings: Settings,
    *,
    gpu_seconds: Mapping[int, Seeds] = {},
    frames: Mapping[int, Seeds] = {},
    ranks: Ranks = ONE_GPU,
    scaled_from: ScaledFrom | None = None,
    repeats: Mapping[int, SeedRepeats] | None = None,
    schedule: Schedule = ONCE,
) -> LearningLimit:
    """Return the limit of one series from plain numbers. Works without records.

    `seconds` has the seconds to the target of each num_envs' seeds, and `statuses` counts how all its trials ended, by ascending
    num_envs. `repeats` and `schedule` are as in `decision_of`.
    """
    delta, confidence = settings.delta_learning, settings.confidence
    measured = {size: seeds for size, seeds in seconds.items() if seeds.count}
    numbers = None if repeats is None else {size: repeats[size] for size in measured}
    decision = decision_of(measured, delta, confidence, numbers, schedule)
    points = [
        _point(size, seconds.get(size, NO_SEEDS), ended, confidence, gpu_seconds.get(size, NO_SEEDS), frames.get(size, NO_SEEDS))
        for size, ended in statuses.items()
    ]  # fmt: skip
    return LearningLimit.of(
        series, decision, measured, delta, confidence, lambda log: -doublings.expm1(-log), ranks, schedule.when,
        scaled_from=scaled_from, points=points,
    )  # fmt: skip


def _point(
    num_envs: int, seconds: Seeds, statuses: Counter[str], confidence: float, gpu_seconds: Seeds, frames: Seeds
) -> LearningPoint:
    return LearningPoint(
        num_envs=num_envs,
        seeds=seconds.count,
        reached=len(seconds.reached),
        timeout=statuses["timeout"],
        failed=statuses["nan"] + statuses["diverged"],
        oom=statuses["oom"],
        refused=statuses["refused"],
        seconds_to_target=cost(seconds, confidence) if seconds.count else None,
        gpu_seconds_to_target=cost(gpu_seconds, confidence) if gpu_seconds.count else None,
        frames_to_target=cost(frames, confidence) if frames.count else None,
        expected_running_time_s=(sum(seconds.reached) + sum(seconds.censored)) / len(seconds.reached)
        if seconds.reached
        else None,
    )
