"""The numbers of an arm's answer, as metrics of its run. Pure.

What trials have, too (FPS, memory, seconds to the target), has the same name here: one column of MLflow's table shows arms and trials.
"""

from envknee.tracking.describe import HEADLINES
from envknee.verdict.schema.study import ArmVerdict

FPS, MEMORY, TO_TARGET = HEADLINES
SHARED = {"fps": FPS, "memory_peak_gb": MEMORY}
"""Numbers of a headline that trials have, too."""


def answer_of(decided: ArmVerdict) -> dict[str, float]:
    """Return the numbers of an arm's answer: of the recommended setting, and of the one that is soonest at the target."""
    return _headline(decided) | _soonest(decided) | _joint(decided)


def _headline(decided: ArmVerdict) -> dict[str, float]:
    numbers = {name: value for name, value in decided.headline or () if type(value) in (int, float)}
    return {SHARED.get(name, f"verdict/{name}"): value for name, value in numbers.items()}


def _soonest(decided: ArmVerdict) -> dict[str, float]:
    """Return the setting that is soonest, where all seeds reached the target."""
    if decided.soonest is None or any(found.kind == "learning" for found in decided.joint):
        return {}
    limit, point = decided.soonest
    if point.seconds_to_target is None:
        return {}
    return {TO_TARGET: point.seconds_to_target.value} | _sizes(
        "verdict/soonest_", point.num_envs, limit.horizon, limit.batch_size
    )


def _joint(decided: ArmVerdict) -> dict[str, float]:
    """Return the settings that the joint answers name."""
    numbers: dict[str, float] = {}
    for found in decided.joint:
        setting = None if found.soonest is None else found.confirmed[found.soonest]
        if setting is None or setting.cost is None:
            continue
        sizes = setting.num_envs, setting.horizon, setting.batch_size
        if found.kind == "learning":
            numbers |= {TO_TARGET: setting.cost} | _sizes("verdict/soonest_", *sizes)
        else:
            numbers |= {FPS: 1.0 / setting.cost} | _sizes("verdict/", *sizes)
    return numbers


def _sizes(prefix: str, num_envs: int, horizon: int, batch_size: int | None) -> dict[str, float]:
    sizes = {"num_envs": num_envs, "horizon": horizon, "batch_size": batch_size}
    return {f"{prefix}{name}": size for name, size in sizes.items() if size is not None}
