"""Compares remedies against too little memory: arms with a baseline, by environments that fit and by FPS.

Input: records and arms of a study that names a baseline (`decide.baseline`), and the memory limits of its arms. Output: `Remedies`, the
best first. Pure.

There are two estimands, both at the baseline's own horizon and batch size. Fit: the largest num_envs of the arm's memory model over the
baseline's, on the same amount of memory. If both have intervals, MOVER combines them on logarithms (Zou and Donner 2008, Statistics in
Medicine 27:1693). Measurements have priority over models: if one arm fitted a num_envs at which the other ran out of memory, it makes
more room. Speed: FPS over the baseline's at the largest num_envs that was timed with both, by Welch's t on logarithms, with an interval
that holds at every look (`rule.looks`). Each interval holds for its remedy alone.

In simulated studies with 1% noise, one to three repeats and three or four sizes, 200 of each, 95% intervals of the fit held the truth in
99 to 100%, and none showed a difference where there was none (some of them: tests/unit/verdict/test_remedy_gains.py).
"""

import math
from collections.abc import Mapping
from typing import Any, Literal

from envknee.verdict.levers import fps_looked_at
from envknee.verdict.measurements import Groups, Measurements, filtered, records_at
from envknee.verdict.memory_sample import largest_peak_gb
from envknee.verdict.rule import doublings
from envknee.verdict.rule.schedule import ONCE, Schedule
from envknee.verdict.schema.levers import Change, Difference, Remedies, Remedy
from envknee.verdict.schema.memory import MemoryLimit, MemoryWall
from envknee.verdict.series import Series
from envknee.verdict.settings import ArmSettings, Settings
from envknee.verdict.throughput import measured_fps

LEAST_ENVS = 0.5
"""Stands for 0 environments in logarithms."""


def analyse(
    measured: Measurements,
    arms: Mapping[str, ArmSettings],
    limits: Mapping[str, MemoryLimit],
    settings: Settings,
    schedule: Schedule = ONCE,
) -> Remedies | None:
    """Return the comparison of each arm with the baseline; None without a baseline or its throughput trials.

    `limits` are the memory limits of the arms that have one, and `schedule` is that of throughput trials.
    """
    name = settings.baseline
    if name is None or name not in limits:
        return None
    timed = filtered(measured.throughput, lambda record: measured_fps([record]))
    best = {
        series: max(max(measured_fps(group)) for group in by_size.values())
        for series, by_size in timed.items()
        if series.arm == name
    }
    if not best:
        return None
    baseline = max(best, key=lambda series: best[series])
    limit = limits[name]
    others = [arm for arm in arms if arm != name and arm in limits]
    remedies = [_remedy(arm, arms, measured.throughput, timed, limits, baseline, settings, schedule) for arm in others]
    remedies.sort(key=lambda remedy: (remedy.fits is None, -remedy.fits.value if remedy.fits else 0.0, remedy.arm))
    return Remedies(
        baseline=name,
        horizon=baseline.horizon,
        batch_size=baseline.batch_size,
        quantity=limit.quantity,
        device_memory_gb=limit.device_memory_gb,
        baseline_wall=limit.wall(baseline),
        remedies=remedies,
    )


def _remedy(
    arm: str,
    arms: Mapping[str, ArmSettings],
    trials: Groups,
    timed: Groups,
    limits: Mapping[str, MemoryLimit],
    baseline: Series,
    settings: Settings,
    schedule: Schedule,
) -> Remedy:
    """Return the comparison of an arm with the baseline, at the baseline's series."""
    arm_series = baseline._replace(arm=arm)
    arm_limit, baseline_limit = limits[arm], limits[baseline.arm]
    arm_wall, baseline_wall = arm_limit.wall(baseline), baseline_limit.wall(baseline)
    same_memory = arm_limit.device_memory_gb == baseline_limit.device_memory_gb
    fits = more = less = None
    if same_memory and arm_wall is not None and baseline_wall is not None:
        fits = ratio(arm_wall, baseline_wall)
        more, less = shown_at(arm_wall, baseline_wall), shown_at(baseline_wall, arm_wall)
    arm_timed, baseline_timed = timed.get(arm_series, {}), timed.get(baseline, {})
    common = max(set(arm_timed) & set(baseline_timed), default=None)
    fps = arm_peak_gb = baseline_peak_gb = None
    if common is not None:
        fps = Change.of(fps_looked_at(baseline_timed[common], arm_timed[common], schedule), settings.confidence)
        arm_peak_gb = largest_peak_gb(records_at(trials, arm_series, common))
        baseline_peak_gb = largest_peak_gb(records_at(trials, baseline, common))
    differing = differences(arms[arm], arms[baseline.arm])
    return Remedy(
        arm=arm,
        differs_in=[Difference(name=name, value=value) for name, value in differing.items()],
        settings_changed=len({_one_setting(name) for name in differing}),
        same_task=not any(name == "presets" or name.startswith(("env.", "agent.")) for name in differing),
        largest_num_envs=arm_wall.largest_num_envs if arm_wall else None,
        baseline_num_envs=baseline_wall.largest_num_envs if baseline_wall else None,
        fits=fits,
        extrapolated=any(wall is not None and wall.is_far_beyond for wall in (arm_wall, baseline_wall)),
        at_num_envs=common,
        fps=fps,
        peak_gb=arm_peak_gb,
        baseline_peak_gb=baseline_peak_gb,
        shown_at=more if more is not None else less,
        room=_room(more, less, fits),
    )


def _room(
    more: int | None, less: int | None, fits: Change | None
) -> Literal["more", "less", "not shown", "not measured"]:
    """Return whether more environments fit: trials have priority over the models' ratio."""
    if more is not None:
        return "more"
    if less is not None:
        return "less"
    return "not measured" if fits is None else fits.shown


def ratio(own: MemoryWall, other: MemoryWall) -> Change | None:
    """Return how many more environments fit with `own` than with `other`; None if either has no largest num_envs."""
    if not own.largest_num_envs or not other.largest_num_envs:
        return None
    value = math.log(own.largest_num_envs / other.largest_num_envs)

    def reach(wall: MemoryWall, end: int | None) -> float:
        """Return the distance of an interval's end from the estimate; infinite for an open end."""
        if wall.largest_num_envs_lower is None or end is None or not wall.largest_num_envs:
            return math.inf
        return math.log(max(end, LEAST_ENVS) / wall.largest_num_envs)

    down = math.hypot(reach(own, own.largest_num_envs_lower), reach(other, other.largest_num_envs_upper))
    up = math.hypot(reach(own, own.largest_num_envs_upper), reach(other, other.largest_num_envs_lower))
    return Change(
        value=doublings.expm1(value),
        lower=None if math.isinf(down) else doublings.expm1(value - down),
        upper=None if math.isinf(up) else doublings.expm1(value + up),
    )


def shown_at(own: MemoryWall, other: MemoryWall) -> int | None:
    """Return the smallest num_envs that fitted with `own` and ran out of memory with `other`, or None.

    Refused trials do not count, nor trials of one arm that contradict each other.
    """
    least = (other.largest_fitted or 0) + 1
    most = min(own.largest_fitted or 0, (own.smallest_failed or math.inf) - 1)
    return min((size for size in other.out_of_memory if least <= size <= most), default=None)


def differences(arm: ArmSettings, baseline: ArmSettings) -> dict[str, Any]:
    """Return the settings in which an arm differs from the baseline: name -> the arm's value; None for a missing override."""
    names = {**baseline.values, **arm.values}
    return {name: arm.values.get(name) for name in names if arm.values.get(name) != baseline.values.get(name)}


def _one_setting(name: str) -> str:
    """Return what counts as one setting: width and height are one."""
    return name.rpartition(".")[0] if name.endswith((".width", ".height")) else name
