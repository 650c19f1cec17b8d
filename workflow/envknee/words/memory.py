"""The memory limit in sentences. Pure."""

from collections.abc import Collection, Mapping

from envknee.verdict.schema.memory import LEAST_SIZES, MemoryLimit, MemoryWall
from envknee.verdict.series import Series
from envknee.words.numbers import counted, ends, listed, shown_batch
from envknee.words.ranks import each, ranks_words

METHOD = (
    "non-negative least squares on measured peaks, by absolute or relative errors, whichever are likelier; interval, where there are"
    " more points than unknowns: Student's t prediction interval of one more trial on the means of points, inverted, by both kinds of"
    " errors where neither is much likelier; it holds as far as the linear model does"
)

SETTINGS = ("horizon", "batch_size")
"""Settings beside num_envs on which the largest num_envs depends. A table may lack either, and then a reader is not told of it."""


def memory_statement(limit: MemoryLimit, settings: Collection[str] = SETTINGS) -> str:
    """Return the memory limit in one sentence, which names the horizon and batch size that are among `settings`."""
    failed = limit.smallest_failed
    measured = "" if failed is None else f"; the smallest that did not fit: {failed:,}"
    return f"{memory_title(limit, settings)}{_detail(limit)}{measured}"


def memory_title(limit: MemoryLimit, settings: Collection[str] = SETTINGS) -> str:
    """Return the beginning of `memory_statement`: what fits, without interval and failures."""
    missing = _missing(limit)
    if missing:
        return f"not identifiable: {missing}"
    wall, per_rank = limit.tightest, each(limit.ranks)
    if wall is None:
        return "memory does not grow with num_envs at the points measured"
    where = _at(wall.series, settings)
    if wall.is_far_beyond:
        largest = f"{_multiple(wall.extrapolation or 0.0)} times the largest num_envs{per_rank} measured"
        return f"far from binding: {_share(limit)} would take {largest}{where}, an extrapolation"
    sizes = f"{_sure_num_envs(wall):,} environments{per_rank} fit {_share(limit)}{where}"
    if wall.is_measured_beyond_lower:
        return f"measured: up to {sizes}"
    if (wall.extrapolation or 0.0) > 1.0:
        return f"predicted: up to {sizes}"
    return f"up to {sizes}"


def memories_title(limits: Mapping[str, MemoryLimit]) -> str:
    """Return in one sentence which of several arms fills the memory first."""
    walls = {arm: limit.tightest for arm, limit in limits.items() if not _missing(limit)}
    near = {arm: wall for arm, wall in walls.items() if wall is not None and not wall.is_far_beyond}
    if not near:
        return "What fits into memory, by arm"
    first = min(near, key=lambda arm: _sure_num_envs(near[arm]))
    return (
        f"{first} fills the memory first: {_sure_num_envs(near[first]):,} environments{each(limits[first].ranks)} fit"
    )


def memory_notes(limit: MemoryLimit, settings: Collection[str] = SETTINGS) -> list[str]:
    """Return notes on the memory and its model, a sentence each."""
    notes = []
    is_shared = limit.quantity == "resident set of the process" and limit.world_size > 1
    if is_shared and limit.device_memory_gb is not None:
        notes.append(f"{ranks_words(limit.ranks)} share the host's memory: {limit.device_memory_gb:,.1f} GB for each")
    if limit.device_kinds > 1:
        notes.append(f"{limit.device_kinds} kinds of device: the smallest memory is taken")
    if limit.trials_in_parts:
        trials = counted(limit.trials_in_parts, "trial")
        notes.append(f"{trials} learned in parts, to fit what there was: not in the model")
    if limit.unsteady:
        notes.append(
            f"peaks of repeats differ by more than 10% at {listed(limit.unsteady)} environments: the larger ones count"
        )
    if limit.identifiable:
        notes += _notes_on_terms(limit, settings)
    if any(wall.contradicted for wall in limit.walls):
        notes.append("a trial at or below a predicted largest num_envs did not fit: trust the trial")
    return notes


def _notes_on_terms(limit: MemoryLimit, settings: Collection[str]) -> list[str]:
    if limit.keeps_replay:
        return ["the replay buffer is within base: it is as large whatever num_envs and horizon are"]
    if "per_transition" in limit.terms_gb:
        return []
    if len(limit.horizons) > 1:
        return ["the rollout's part cannot be told from the others at these points"]
    if "horizon" not in settings:
        return []
    return [f"one horizon ({listed(limit.horizons)}): the rollout's part is within per_environment"]


def _missing(limit: MemoryLimit) -> str:
    """Return what the limit lacks; "" if it is known."""
    if limit.lacks == "sizes":
        return f"{limit.sizes} different num_envs measured, {LEAST_SIZES} are needed"
    if limit.lacks == "points":
        return f"{limit.points} different points for {limit.unknowns} unknowns"
    if limit.device_memory_gb is None:
        # Peaks without the memory of their device are those of a table.
        return "the GPU's memory is not given (--device-gb)"
    return ""


def _share(limit: MemoryLimit) -> str:
    """Return `95% of the GPU's 85.0 GB`."""
    return f"{1.0 - limit.margin:.0%} of {_owner(limit)} {limit.device_memory_gb:,.1f} GB"


def _owner(limit: MemoryLimit) -> str:
    """Return whose memory it is."""
    is_alone = limit.world_size == 1
    if limit.quantity == "device memory used":
        return "the GPU's" if is_alone else "each GPU's"
    return "the host's" if is_alone else "each rank's"


def _at(series: Series, settings: Collection[str]) -> str:
    """Return ` at horizon 16, batch 128`, as far as they are among `settings`."""
    parts = []
    if "horizon" in settings:
        parts.append(f"horizon {series.horizon}")
    if "batch_size" in settings:
        parts.append(shown_batch(series.batch_size))
    return f" at {', '.join(parts)}" if parts else ""


def _multiple(extrapolation: float) -> str:
    return "over 1,000" if extrapolation > 1000.0 else f"about {extrapolation:,.0f}"


def _sure_num_envs(wall: MemoryWall) -> int:
    """Return the num_envs that is named: what fitted, the interval's lower end, or the estimate."""
    if wall.is_measured_beyond_lower:
        return wall.largest_fitted or 0
    if wall.largest_num_envs_lower is not None:
        return wall.largest_num_envs_lower
    return wall.largest_num_envs or 0


def _detail(limit: MemoryLimit) -> str:
    """Return in parentheses what a title lacks: estimate and interval, or why there is no interval."""
    wall = limit.tightest
    if _missing(limit):
        return ""
    if wall is None:
        return f" ({_share(limit)} available)"
    if wall.is_far_beyond:
        return ""
    if wall.largest_num_envs_lower is not None:
        interval = ends(wall.largest_num_envs_lower, wall.largest_num_envs_upper)
        return f" (estimate {wall.largest_num_envs or 0:,}, {limit.confidence:.0%} interval {interval})"
    if limit.points > limit.unknowns:
        return ""
    return f" (no interval: {limit.points} points for {limit.unknowns} unknowns; measure another num_envs)"
