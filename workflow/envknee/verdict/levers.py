"""Settings besides num_envs: do the measurements support a longer horizon, a larger batch, or more GPUs?

Input: records of one arm, a point, and the study's scaling. Output: three `Lever`s. Pure.

Each lever compares two measured points that differ in one setting: the two largest horizons, or the two largest batch sizes, at the
point's num_envs or else at the largest that has two. FPS are compared by Welch's t on geometric means, seconds to the target by Welch's
t on interquartile means. A lever is supported if one of the two is shown to improve, and the other is not shown to get worse. More GPUs
are judged by their speed-up alone.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.verdict import learning_cost, learning_trials
from envknee.verdict.rule import doublings
from envknee.verdict.schema.levers import Change, Lever
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.series import Ranks, Series, by_series
from envknee.verdict.throughput import measured_fps
from envknee.verdict.words.numbers import percent


class _Pair(NamedTuple):
    """The two compared points (num_envs, horizon, batch_size)."""

    smaller: tuple[int, int, int | None]
    larger: tuple[int, int, int | None]


def analyse(
    records: Sequence[Record], series: Series, num_envs: int, scalings: Sequence[Scaling], settings: Decide
) -> list[Lever]:
    """Return the findings on each lever at one point.

    Args:
        records: an arm's, of all kinds
        series: the point's
        num_envs: the point's
        scalings: the study's
        settings: the confidence
    """
    return [
        _lever("longer horizon", records, series, num_envs, settings),
        _lever("larger batch", records, series, num_envs, settings),
        _more_gpus(series.arm, scalings),
    ]


def in_words(levers: Sequence[Lever]) -> str:
    """Return one sentence: the levers that are supported, not supported, and not measured."""
    groups = (
        ("The data support", "supported"),
        ("not", "not supported"),
        ("undecided", "not shown"),
        ("not measured", "not measured"),
    )
    parts = []
    for start, verdict in groups:
        levers_of = [lever for lever in levers if lever.verdict == verdict]
        names = [lever.name + (f" ({lever.evidence})" if verdict != "not measured" else "") for lever in levers_of]
        if names:
            parts.append(f"{start}{'' if verdict in ('supported', 'not supported') else ':'} {' and '.join(names)}")
    sentence = "; ".join(parts)
    return f"{sentence[:1].upper()}{sentence[1:]}."


def _lever(
    name: Literal["longer horizon", "larger batch"],
    records: Sequence[Record],
    series: Series,
    num_envs: int,
    settings: Decide,
) -> Lever:
    fps = {place: values for place, group in _places(records, "throughput").items() if (values := measured_fps(group))}
    seeds = {
        place: learning_trials.seconds_of(ran)
        for place, group in _places(records, "learning").items()
        if (ran := learning_trials.that_ran(group))
    }
    changes: dict[str, Change | None] = {"fps": None, "seconds": None}
    words = []
    if pair := _neighbours(name, list(fps), series, num_envs):
        levels = [doublings.Level.of(0, fps[place]) for place in pair]
        changes["fps"] = _change(levels[0], levels[1], settings.confidence, 1)
        words.append(_worded(name, pair, changes["fps"], "FPS"))
    known = [place for place, costs in seeds.items() if not costs.censored]
    if pair := _neighbours(name, known, series, num_envs):
        levels = [learning_cost.level_of(0, seeds[place]) for place in pair]
        changes["seconds"] = _change(levels[0], levels[1], settings.confidence, -1)
        words.append(_worded(name, pair, changes["seconds"], "seconds to target"))
    what = "horizons" if name == "longer horizon" else "batch sizes"
    return Lever(
        name=name,
        verdict=_judged(changes["fps"], changes["seconds"]),
        fps=changes["fps"],
        seconds_to_target=changes["seconds"],
        evidence=", ".join(words) or f"measure two {what} at the same num_envs",
    )


def _places(
    records: Sequence[Record], kind: Literal["throughput", "learning"]
) -> Mapping[tuple[int, int, int | None], list[Record]]:
    return {
        (num_envs, series.horizon, series.batch_size): group
        for series, by_size in by_series(records, kind).items()
        for num_envs, group in by_size.items()
    }


def _neighbours(
    name: Literal["longer horizon", "larger batch"],
    places: Sequence[tuple[int, int, int | None]],
    series: Series,
    num_envs: int,
) -> _Pair | None:
    """Return the two largest settings at `num_envs`, or at the largest num_envs that has two; None if none has."""
    neighbours: dict[int, list[tuple[int, int, int | None]]] = {}
    for place in places:
        same = place[2] == series.batch_size if name == "longer horizon" else place[1] == series.horizon
        if same and (name == "longer horizon" or place[2] is not None):
            neighbours.setdefault(place[0], []).append(place)
    pairs = {
        size: _Pair(*sorted(group, key=lambda place: (place[1], place[2] or 0))[-2:])
        for size, group in neighbours.items()
        if len(group) > 1
    }
    return pairs.get(num_envs) or (pairs[max(pairs)] if pairs else None)


def _change(smaller: doublings.Level, larger: doublings.Level, confidence: float, sign: int) -> Change:
    value, *ends = doublings.difference(smaller, larger, confidence)
    lower, upper = (None if end is None else doublings.expm1(sign * end) for end in ends[::sign])
    return Change(value=math.expm1(sign * value), lower=lower, upper=upper)


def _judged(
    fps: Change | None, seconds: Change | None
) -> Literal["supported", "not supported", "not shown", "not measured"]:
    if fps is None and seconds is None:
        return "not measured"
    better = [fps is not None and (fps.lower or 0.0) > 0.0, seconds is not None and (seconds.upper or 0.0) < 0.0]
    worse = [fps is not None and (fps.upper or 0.0) < 0.0, seconds is not None and (seconds.lower or 0.0) > 0.0]
    if any(worse):
        return "not supported"
    return "supported" if any(better) else "not shown"


def _worded(name: str, pair: _Pair, change: Change | None, of: str) -> str:
    assert change is not None
    place = 1 if name == "longer horizon" else 2
    sizes = " to ".join(f"{point[place]:,}" for point in pair)
    ends = (
        "one repeat"
        if change.lower is None or change.upper is None
        else f"{_signed(change.lower)} to {_signed(change.upper)}"
    )
    return f"{sizes} at {pair.larger[0]:,} environments: {_signed(change.value)} {of}, {ends}"


def _signed(share: float) -> str:
    return f"over +{percent(10.0, 0)}" if share > 10.0 else f"{share:+.0%}"


def _more_gpus(arm: str, scalings: Sequence[Scaling]) -> Lever:
    points = [
        (scaling, point) for scaling in scalings if arm in (scaling.arm, scaling.partner) for point in scaling.points
    ]
    if not points:
        return Lever(
            name="more GPUs", verdict="not measured", fps=None, seconds_to_target=None,
            evidence="add an arm that differs in `gpus` alone",
        )  # fmt: skip
    scaling, point = max(points, key=lambda pair: pair[1].fps_all_ranks)

    def change(efficiency: float | None) -> float | None:
        return None if efficiency is None else efficiency * scaling.world_size - 1.0

    fps = Change(value=point.speedup - 1.0, lower=change(point.efficiency_lower), upper=change(point.efficiency_upper))
    ends = "one repeat" if fps.lower is None or fps.upper is None else f"{_signed(fps.lower)} to {_signed(fps.upper)}"
    ranks = Ranks(scaling.world_size, "GPU")
    return Lever(
        name="more GPUs",
        verdict=_judged(fps, None),
        fps=fps,
        seconds_to_target=None,
        evidence=f"1 to {ranks.world_size} at {point.num_envs:,} environments each: {_signed(fps.value)} FPS, {ends}",
    )
