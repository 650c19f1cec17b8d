"""Settings besides num_envs: do the measurements support a longer horizon, a larger batch, or more GPUs?

Input: records of one arm, a point, and the study's scaling. Output: three `Lever`s. Pure.

Each lever compares two measured points that differ in one setting: the two largest horizons, or the two largest batch sizes, at the
point's num_envs or else at the largest that has two. FPS are compared by Welch's t on geometric means, seconds to the target by Welch's t
on interquartile means. Intervals hold at every look, because the study may end after any of them (`rule.looks`). A lever is supported if
one of the two is shown to improve, and the other is not shown to get worse. More GPUs are judged by their speed-up alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.schema import Record
from envknee.verdict import learning_cost
from envknee.verdict.measurements import Measurements, by_point
from envknee.verdict.rule import doublings
from envknee.verdict.rule.contrasts import Contrast, of_levels
from envknee.verdict.rule.looks import Looked, pair_looked_at
from envknee.verdict.rule.schedule import Schedule
from envknee.verdict.schema.levers import Change, Compared, Finding, Lever
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.series import Series
from envknee.verdict.settings import Settings
from envknee.verdict.throughput import measured_fps

_Setting = Literal["horizon", "batch_size"]


def analyse(
    measured: Measurements,
    series: Series,
    num_envs: int,
    scalings: Sequence[Scaling],
    settings: Settings,
    schedules: Mapping[Kind, Schedule],
) -> list[Lever]:
    """Return the findings on each lever at one point, from all records of its arm. `schedules` has that of each kind of trial."""
    return [
        _lever("horizon", measured, series, num_envs, settings, schedules),
        _lever("batch_size", measured, series, num_envs, settings, schedules),
        _more_gpus(series.arm, scalings),
    ]


def fps_looked_at(before: Sequence[Record], after: Sequence[Record], schedule: Schedule) -> Looked:
    """Return the contrast of FPS of two points, each with trials that were timed to their end, with all looks at it."""

    def contrast_before(repeat: float) -> Contrast:
        smaller, larger = (doublings.Level.of(measured_fps(_first_repeats(side, repeat))) for side in (before, after))
        return of_levels(1, smaller, larger)

    return pair_looked_at(schedule, (_repeats(before), _repeats(after)), contrast_before)


def _seconds_looked_at(before: Sequence[Record], after: Sequence[Record], schedule: Schedule) -> Looked:
    """Return the contrast of seconds to the target of two points whose seeds all reached it, with all looks at it."""

    def contrast_before(repeat: float) -> Contrast:
        seconds = (learning_cost.seconds_of(_first_repeats(side, repeat)) for side in (before, after))
        # The level of a cost is one over it: less time is a higher level.
        sooner, later = map(learning_cost.level_of, seconds)
        return of_levels(1, later, sooner)

    return pair_looked_at(schedule, (_repeats(before), _repeats(after)), contrast_before)


def _first_repeats(records: Sequence[Record], repeat: float) -> list[Record]:
    """Return the records of the repeats before `repeat`."""
    return [record for record in records if record.request.repeat < repeat]


def _repeats(records: Sequence[Record]) -> set[int]:
    return {record.request.repeat for record in records}


def _lever(
    setting: _Setting,
    measured: Measurements,
    series: Series,
    num_envs: int,
    settings: Settings,
    schedules: Mapping[Kind, Schedule],
) -> Lever:
    timed = {
        point: [record for record in group if measured_fps([record])]
        for point, group in by_point(measured.throughput).items()
    }
    fps = {point: group for point, group in timed.items() if group}
    arrived = {
        point: learning_cost.that_ran(group)
        for point, group in by_point(measured.learning).items()
        if (costs := learning_cost.seconds_of(group)).count and not costs.censored
    }
    here = Point(num_envs, series.horizon, series.batch_size)
    more_fps = more_seconds = None
    timed, learned = _neighbours(setting, fps, here), _neighbours(setting, arrived, here)
    if timed:
        looked = fps_looked_at(fps[timed[0]], fps[timed[1]], schedules["throughput"])
        more_fps = Change.of(looked, settings.confidence)
    if learned:
        looked = _seconds_looked_at(arrived[learned[0]], arrived[learned[1]], schedules["learning"])
        more_seconds = Change.of(looked, settings.confidence)
    return Lever(
        name="longer horizon" if setting == "horizon" else "larger batch",
        verdict=_judged(more_fps, more_seconds),
        fps=more_fps,
        seconds_to_target=more_seconds,
        fps_at=_compared(setting, timed),
        seconds_at=_compared(setting, learned),
    )


def _neighbours(setting: _Setting, points: Iterable[Point], here: Point) -> list[Point] | None:
    """Return the two largest settings at num_envs of `here`, or at the largest num_envs that has two; None if none has."""
    by_size: dict[int, list[Point]] = {}
    for point in points:
        value = getattr(point, setting)
        if value is not None and point == replace(here, num_envs=point.num_envs, **{setting: value}):
            by_size.setdefault(point.num_envs, []).append(point)
    # Points that differ in one setting alone are sorted by it.
    pairs = {size: sorted(group)[-2:] for size, group in by_size.items() if len(group) > 1}
    return pairs.get(here.num_envs) or (pairs[max(pairs)] if pairs else None)


def _compared(setting: _Setting, pair: Sequence[Point] | None) -> Compared | None:
    if pair is None:
        return None
    before, after = (getattr(point, setting) for point in pair)
    return Compared(num_envs=pair[0].num_envs, before=before, after=after)


def _judged(fps: Change | None, seconds: Change | None) -> Finding:
    if fps is None and seconds is None:
        return "not measured"
    of_fps, of_seconds = fps and fps.shown, seconds and seconds.shown
    if of_fps == "less" or of_seconds == "more":
        return "not supported"
    return "supported" if of_fps == "more" or of_seconds == "less" else "not shown"


def _more_gpus(arm: str, scalings: Sequence[Scaling]) -> Lever:
    points = [
        (scaling, point) for scaling in scalings if arm in (scaling.arm, scaling.partner) for point in scaling.points
    ]
    fps = compared = None
    if points:
        scaling, point = max(points, key=lambda pair: pair[1].fps_all_ranks)
        lower, upper = (
            None if end is None else end * scaling.world_size - 1.0
            for end in (point.efficiency_lower, point.efficiency_upper)
        )
        fps = Change(value=point.speedup - 1.0, lower=lower, upper=upper)
        compared = Compared(num_envs=point.num_envs, before=1, after=scaling.world_size)
    return Lever(
        name="more GPUs",
        verdict=_judged(fps, None),
        fps=fps,
        seconds_to_target=None,
        fps_at=compared,
        seconds_at=None,
    )
