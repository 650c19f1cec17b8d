"""What each remedy against too little memory buys: arms beside a baseline, by what fits and by FPS, and advice for the card.

Input: records and arms of a study that names a baseline (`decide.baseline`), and the memory limits of its arms. Output:
`Remedies`, the best first. Pure.

Two estimands, both at the baseline's own horizon and batch size. What fits: the largest num_envs of the arm's memory model over
the baseline's, on the same amount of memory; its interval joins those of both by MOVER (Zou and Donner 2008, Statistics in
Medicine 27:1693), on logarithms, where both have one. What was measured decides before it: where one fitted a num_envs at which
the other ran out of memory, it makes more room, however far the models err. Speed: FPS over the baseline's at the largest
num_envs that both were timed at, by Welch's t on logarithms. Each interval holds for its remedy alone.

In simulated studies with 1% noise, one to three repeats and three or four sizes, 200 of each, intervals of 95% for what fits held
the truth in 99 to 100%, and none showed a difference where there was none (some: tests/unit/test_limits_remedies.py).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from envknee.config import Arm, Decide
from envknee.limits import Series, by_series, doublings, listed
from envknee.limits.levers import Change
from envknee.limits.memory import FAR_BEYOND, MemoryLimit, MemoryWall, measured_peaks
from envknee.limits.throughput import measured_fps
from envknee.record import Frozen, Record

LEAST_ENVS = 0.5
"""What an end at no environment at all counts as, where logarithms are taken."""


class Remedy(Frozen):
    """One arm beside the baseline."""

    arm: str
    differs_in: list[str]
    """Settings in which it is not the baseline, such as `observations: lean`; several act together."""
    same_task: bool
    """False where the environment's or agent's own settings differ: then what is learned has to be looked at, too."""
    largest_num_envs: int | None
    """That fits, by the memory model; None where that is not known."""
    fits: Change | None
    """1.0 stands for twice as many environments; None where either is not known, or on another amount of memory."""
    extrapolated: bool
    """True where the model says more than `FAR_BEYOND` times the largest num_envs measured, of either arm."""
    at_num_envs: int | None
    """Where FPS and peaks are compared; None where no num_envs was timed with both."""
    fps: Change | None
    """0.1 stands for 10% more."""
    peak_gb: float | None
    """Largest measured peak at `at_num_envs`."""
    baseline_peak_gb: float | None
    shown_at: int | None = None
    """The num_envs that fitted one of both, and at which the other ran out of memory; None where no trials show that."""
    room: Literal["more", "less", "not shown", "not measured"]
    """Whether more environments are shown to fit: by such trials, otherwise by the interval of `fits`."""
    speed: Literal["more", "less", "not shown", "not measured"]
    """Whether there are shown to be more FPS."""
    statement: str


class Remedies(Frozen):
    """What every other arm of a study buys beside its baseline."""

    baseline: str
    horizon: int
    batch_size: int | None
    device_memory_gb: float | None
    quantity: Literal["device memory used", "resident set of the process"]
    largest_num_envs: int | None
    """That fits with the baseline."""
    confidence: float
    remedies: list[Remedy]
    """Those that make most room first."""
    method: str = (
        "what fitted one and not the other, else largest num_envs by each arm's memory model, ratio by MOVER on logarithms; FPS at"
        " the largest num_envs timed with both, Welch t on ln FPS; two-sided, each remedy alone"
    )
    notes: list[str]
    statement: str
    """What to do, in sentences."""


def analyse(
    records: Sequence[Record],
    arms: Mapping[str, Arm],
    limits: Mapping[str, MemoryLimit],
    settings: Decide,
) -> Remedies | None:
    """Return what each arm buys beside the baseline, or None where the study names none or it has no throughput trial.

    Args:
        records: of the study, of all kinds
        arms: of the study
        limits: of those arms that have one
        settings: baseline and confidence
    """
    name = settings.baseline
    if name is None or name not in limits:
        return None
    series = _fastest(records, name)
    if series is None:
        return None
    limit = limits[name]
    wall = limit.wall(series.horizon, series.batch_size)
    found = [
        _remedy(arm, arms[arm], arms[name], records, limits, series, settings)
        for arm in arms
        if arm != name and arm in limits
    ]
    found.sort(key=lambda one: (one.fits is None, -one.fits.value if one.fits else 0.0, one.arm))
    notes = [
        f"{one.arm} differs from {name} in several settings: what each of them does is not told apart"
        for one in found
        if len({_one_setting(difference) for difference in one.differs_in}) > 1
    ]
    if limit.quantity == "resident set of the process":
        notes.append(
            "on the CPU memory is the process's resident set: the libraries' share is large, and what acts on a GPU's"
            " memory alone (expandable segments, clearing the cache) does nothing"
        )
    return Remedies(
        baseline=name,
        horizon=series.horizon,
        batch_size=series.batch_size,
        device_memory_gb=limit.device_memory_gb,
        quantity=limit.quantity,
        largest_num_envs=wall.largest_num_envs if wall else None,
        confidence=settings.confidence,
        remedies=found,
        notes=notes,
        statement=_advice(name, series, limit, wall, found),
    )


def differences(arm: Arm, baseline: Arm) -> dict[str, Any]:
    """Return the settings in which an arm is not the baseline: name -> its value, None for an override that it lacks."""
    own, other = _settings(arm), _settings(baseline)
    return {name: own.get(name) for name in {**other, **own} if own.get(name) != other.get(name)}


def _settings(arm: Arm) -> dict[str, Any]:
    """Return all settings of an arm by dotted name."""
    plain = dict(arm)
    overrides, memory = plain.pop("overrides"), plain.pop("memory")
    return {**plain, **{f"memory.{name}": value for name, value in dict(memory).items()}, **overrides}


def _one_setting(difference: str) -> str:
    """Return what a difference is about: width and height are one resolution."""
    name = difference.partition(":")[0]
    return name.rpartition(".")[0] if name.endswith((".width", ".height")) else name


def _is_same_task(names: Sequence[str]) -> bool:
    return not any(name == "presets" or name.startswith(("env.", "agent.")) for name in names)


def _fastest(records: Sequence[Record], arm: str) -> Series | None:
    """Return the series of an arm with the largest FPS."""
    best = {
        series: max((max(values) for group in by_size.values() if (values := measured_fps(group))), default=0.0)
        for series, by_size in by_series(records, "throughput").items()
        if series.arm == arm
    }
    return max(best, key=lambda series: best[series]) if any(best.values()) else None


def _remedy(
    arm: str,
    settings_of_arm: Arm,
    baseline: Arm,
    records: Sequence[Record],
    limits: Mapping[str, MemoryLimit],
    series: Series,
    settings: Decide,
) -> Remedy:
    own, other = limits[arm], limits[series.arm]
    walls = [limit.wall(series.horizon, series.batch_size) for limit in (own, other)]
    fits = more = less = None
    if own.device_memory_gb == other.device_memory_gb and walls[0] is not None and walls[1] is not None:
        fits = ratio(walls[0], walls[1])
        more, less = shown_at(own, other, series), shown_at(other, own, series)
    grouped = by_series(records, "throughput")
    timed, base = (
        {size: values for size, group in grouped.get(one, {}).items() if (values := measured_fps(group))}
        for one in (series._replace(arm=arm), series)
    )
    common = max(set(timed) & set(base), default=None)
    fps = None
    if common is not None:
        levels = [doublings.Level.of(common, values[common]) for values in (base, timed)]
        value, *ends = doublings.difference(levels[0], levels[1], settings.confidence)
        lower, upper = (None if end is None else doublings.expm1(end) for end in ends)
        fps = Change(value=math.expm1(value), lower=lower, upper=upper)
    peaks = [None if common is None else _peak_gb(records, one, common) for one in (series._replace(arm=arm), series)]
    found = differences(settings_of_arm, baseline)
    remedy = Remedy(
        arm=arm,
        differs_in=[f"{name}: {_plain(value)}" for name, value in found.items()],
        same_task=_is_same_task(list(found)),
        largest_num_envs=walls[0].largest_num_envs if walls[0] else None,
        fits=fits,
        extrapolated=any(wall is not None and (wall.extrapolation or 0.0) > FAR_BEYOND for wall in walls),
        at_num_envs=common,
        fps=fps,
        peak_gb=peaks[0],
        baseline_peak_gb=peaks[1],
        shown_at=more or less,
        room="more" if more else "less" if less else _shown(fits),
        speed=_shown(fps),
        statement="",
    )
    return remedy.model_copy(update={"statement": _statement(remedy, walls[1])})


def ratio(own: MemoryWall, other: MemoryWall) -> Change | None:
    """Return how many more environments fit with `own` than with `other`; None where either has no largest num_envs."""
    if not own.largest_num_envs or not other.largest_num_envs:
        return None
    value = math.log(own.largest_num_envs / other.largest_num_envs)

    def reach(wall: MemoryWall, end: int | None) -> float | None:
        """Return how far an end of a wall's interval lies from its estimate; None where that side is open."""
        if wall.largest_num_envs_lower is None or end is None or not wall.largest_num_envs:
            return None
        return math.log(max(end, LEAST_ENVS) / wall.largest_num_envs)

    def joined(one: float | None, two: float | None) -> float | None:
        return None if one is None or two is None else math.hypot(one, two)

    down = joined(reach(own, own.largest_num_envs_lower), reach(other, other.largest_num_envs_upper))
    up = joined(reach(own, own.largest_num_envs_upper), reach(other, other.largest_num_envs_lower))
    return Change(
        value=doublings.expm1(value),
        lower=None if down is None else doublings.expm1(value - down),
        upper=None if up is None else doublings.expm1(value + up),
    )


def shown_at(own: MemoryLimit, other: MemoryLimit, series: Series) -> int | None:
    """Return the smallest num_envs that fitted with `own` and ran out of memory with `other`; None where trials show none.

    A trial that was refused has shown nothing, and two of one arm that contradict each other neither.
    """
    walls = [limit.wall(series.horizon, series.batch_size) for limit in (own, other)]
    if walls[0] is None or walls[1] is None or walls[0].largest_fitted is None:
        return None
    least = (walls[1].largest_fitted or 0) + 1
    most = min(walls[0].largest_fitted, (walls[0].smallest_failed or math.inf) - 1)
    failed = [
        one.num_envs
        for one in other.infeasible
        if (one.horizon, one.batch_size, one.status) == (series.horizon, series.batch_size, "oom")
    ]
    return min((size for size in failed if least <= size <= most), default=None)


def _peak_gb(records: Sequence[Record], series: Series, num_envs: int) -> float | None:
    group = by_series(measured_peaks(records), "throughput").get(series, {}).get(num_envs, [])
    return max((record.memory_peak_gb for record in group if record.memory_peak_gb is not None), default=None)


def _shown(found: Change | None) -> Literal["more", "less", "not shown", "not measured"]:
    """Return what the interval of a change shows."""
    if found is None:
        return "not measured"
    if found.lower is not None and found.lower > 0.0:
        return "more"
    return "less" if found.upper is not None and found.upper < 0.0 else "not shown"


def _statement(one: Remedy, base: MemoryWall | None) -> str:
    parts = []
    if one.fits is not None and base is not None:
        far = ", far beyond what was measured" if one.extrapolated else ""
        parts.append(
            f"{one.largest_num_envs:,} instead of {base.largest_num_envs:,} environments fit ({factor(one.fits)}{far})"
        )
    else:
        parts.append("how many environments fit is not known")
    if one.shown_at is not None:
        parts.append(_trials_show(one))
    if one.fps is not None:
        parts.append(f"{change(one.fps)} FPS at {one.at_num_envs:,} environments")
    else:
        parts.append("no num_envs was timed with both")
    if one.peak_gb is not None and one.baseline_peak_gb is not None:
        parts.append(f"{one.peak_gb:.2f} instead of {one.baseline_peak_gb:.2f} GB there")
    return f"{one.arm} ({', '.join(one.differs_in) or 'the same settings'}): {'; '.join(parts)}"


def _trials_show(one: Remedy) -> str:
    """Return `64 fit where the baseline ran out of memory`, or the other way round."""
    if one.room == "more":
        return f"{one.shown_at:,} fit where the baseline ran out of memory"
    return f"ran out of memory with {one.shown_at:,}, which fit the baseline"


def factor(fits: Change) -> str:
    """Return `5.1 times, 4.2 to 6.1`."""
    return f"{1 + fits.value:,.2f} times, {_ends(fits, lambda value: f'{1 + value:,.2f}')}"


def change(fps: Change) -> str:
    """Return `+12% (+5% to +20%)`."""
    return f"{fps.value:+.0%} ({_ends(fps, lambda value: f'{value:+.0%}')})"


def _ends(found: Change, shown: Callable[[float], str]) -> str:
    if found.lower is None and found.upper is None:
        return "no interval"
    lower, upper = ("open" if end is None else shown(end) for end in (found.lower, found.upper))
    return f"{lower} to {upper}"


def _plain(value: Any) -> str:
    """Return a setting's value as it stands in a study file."""
    return "its default" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _advice(name: str, series: Series, limit: MemoryLimit, wall: MemoryWall | None, found: Sequence[Remedy]) -> str:
    """Return what to do, first what leaves the task as it is."""
    where = "" if limit.device_memory_gb is None else f"On {limit.device_memory_gb:,.3g} GB "
    if wall is None or wall.largest_num_envs is None:
        first = f"{where}how many environments fit with {name} is not known at {series}."
    elif (wall.extrapolation or 0.0) > FAR_BEYOND:
        first = (
            f"{where}memory is far from binding with {name} at {series}: at most {wall.largest_fitted or 0:,} environments were"
            " measured, and what fits beyond is extrapolated."
        )
    else:
        known = wall.largest_num_envs_lower is not None
        ends = f" ({wall.largest_num_envs_lower:,} to {_or_open(wall)})" if known else " (no interval)"
        first = f"{where}{name} fits {wall.largest_num_envs:,} environments{ends} at {series}."
    sentences = [first[:1].upper() + first[1:]]
    helping = [one for one in found if one.room == "more"]
    free = [one for one in helping if one.same_task]
    paid = [one for one in helping if not one.same_task]
    if free:
        sentences.append(f"First what leaves the task as it is: {_named(free)}.")
    if paid:
        start = "If that is not enough, what" if free else "What"
        sentences.append(f"{start} changes the task makes room, too: {_named(paid)}; look whether it still learns.")
    others = (
        ("Makes less room", [one for one in found if one.room == "less"]),
        ("Not shown to make room", [one for one in found if one.room == "not shown"]),
        ("Not known", [one for one in found if one.room == "not measured"]),
    )
    sentences += [f"{start}: {_named(group)}." for start, group in others if group]
    return " ".join(sentences)


def _named(group: Sequence[Remedy]) -> str:
    """Return remedies with how many times as many environments fit, and their FPS where a change is shown."""
    words = []
    for one in group:
        parts = []
        if one.shown_at is not None:
            parts.append(_trials_show(one))
        if one.fits is not None:
            unsure = ", no interval" if one.fits.lower is None and one.fits.upper is None else ""
            parts.append(f"{1 + one.fits.value:,.2f} times as many{unsure}")
        if one.fps is not None and one.speed in ("more", "less"):
            parts.append(f"FPS {one.fps.value:+.0%}")
        words.append(f"{one.arm} ({'; '.join(parts)})" if parts else one.arm)
    return ", ".join(words)


def _or_open(wall: MemoryWall) -> str:
    return "open" if wall.largest_num_envs_upper is None else listed([wall.largest_num_envs_upper])
