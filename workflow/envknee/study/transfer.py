"""`learns_like`: which arm may have its settings planned from another arm's search. Pure.

The other arm tells how many environment steps a setting needs, and the arm's own throughput trials how long a step takes.
"""

from collections.abc import Iterator, Mapping

from envknee.study.arm import Arm
from envknee.study.errors import nearest
from envknee.study.sweep import PROFILE, Learning, Sweep, Throughput

LEAST_SETTINGS = 4
"""Settings at which both arms must be compared (`verdict.joint.alike`)."""

AXES = ("num_envs", "horizon", "batch_size")


def problems(
    name: str, arms: Mapping[str, Arm], throughput: Throughput | None, learning: Learning | None
) -> Iterator[str]:
    """Yield what forbids that an arm learns like the one that it names; nothing if it names none."""
    arm = arms[name]
    if arm.learns_like is None:
        return
    told = f"learns_like {arm.learns_like!r}"
    if arm.learns_like == name:
        yield f"{told} is this arm itself. Name another one, which has a search of its own"
        return
    if arm.learns_like not in arms:
        yield f"{told} is no arm of this study{nearest(arm.learns_like, arms)}. Arms: {', '.join(arms)}"
        return
    other = arms[arm.learns_like]
    if arm.measures is not None:
        yield f"{told} needs this arm's own FPS and fresh seeds, and measures is {arm.measures!r}. Take measures out"
        return
    if other.measures == "throughput":
        yield f"{told} needs the search of that arm, which measures throughput alone. Take its measures out"
        return
    if other.learns_like is not None:
        yield f"{told} has no search of its own, because it learns like {other.learns_like!r}. Name an arm that has one"
        return
    yield from (f"{told}: {problem}" for problem in _differences(arm, other))
    yield from (f"{told}: {problem}" for problem in _problems_of_sections(throughput, learning))


def _differences(arm: Arm, other: Arm) -> Iterator[str]:
    """Yield why the same setting is not the same learning."""
    if arm.world_size != other.world_size:
        yield (
            f"it trains on {other.world_size} ranks together, and this arm on {arm.world_size}. num_envs counts for each rank, so that the"
            " same setting has another rollout"
        )
    if arm.scaling != other.scaling:
        yield "the arms have different `scaling`, so that the same setting runs with other values"
    if arm.is_off_policy != other.is_off_policy:
        yield f"its trainer is {other.trainer}, and this arm's is {arm.trainer}: one of them learns from a replay buffer"
    if (arm.command is None) != (other.command is None):
        yield "one of the arms is a foreign command, whose task and target are its own"


def _problems_of_sections(throughput: Throughput | None, learning: Learning | None) -> Iterator[str]:
    if learning is None or not learning.is_joint or learning.confirm is None:
        yield f"it plans fresh seeds from a search, which needs a learning section with `sampler: {PROFILE}` and `confirm`"
        return
    if learning.confirm.settings < LEAST_SETTINGS:
        yield (
            f"that two arms learn alike takes {LEAST_SETTINGS} settings or more, and confirm.settings is"
            f" {learning.confirm.settings}. Confirm {LEAST_SETTINGS} or more"
        )
    if throughput is None:
        yield "this arm's seconds follow from its own FPS. Add a throughput section with the same num_envs, horizons and batch sizes"
        return
    for axis in AXES:
        if not _spans(throughput, learning, axis):
            yield (
                f"this arm's seconds follow from its own FPS, and throughput.{axis} does not reach from the smallest learning.{axis} to the"
                " largest. List the same values"
            )


def _spans(throughput: Sweep, learning: Sweep, axis: str) -> bool:
    """Tell whether the values of an axis lie within those of the throughput section."""
    timed, learned = getattr(throughput, axis), getattr(learning, axis)
    if "library" in (timed, learned):
        return timed == learned
    return min(timed) <= min(learned) and max(learned) <= max(timed)
