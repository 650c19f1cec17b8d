"""Critical batch size: from which batch on do more transitions per optimizer step no longer save optimizer steps?

Input: records of learning trials. Output: `BatchLaw`s per arm. Pure.

McCandlish et al. 2018 ("An Empirical Model of Large-Batch Training", arXiv:1812.06162) find S(B) = S_min (1 + B_noise / B):
S optimizer steps to a target at batch size B, and E = B S examples. With B_noise transitions per step, steps and examples each
cost twice their least; below it steps are wasted, above it examples. An example is here a frame that was collected: a frame is
learned from `num_learning_epochs` times, and frames / B is the optimizer steps in one of those epochs. That number of epochs
is the same for all batch sizes of an arm, so it scales S and S_min and leaves B_noise and E_min alone: S is given per epoch.

Multiplied by B the law is a line, E(B) = E_min + S_min B with E_min = S_min B_noise, whose relative errors are those of
S; it is fitted by `affine` to the interquartile mean over seeds of frames to target, one point per batch size.
Intervals come from a stratified bootstrap: seeds are drawn within each batch size. Where it says 95% the interval of B_noise
covers 95 to 98% with three or more seeds each and 90 to 92% with two (tests/unit/test_limits_batch.py).

A batch size with a seed that spent its budget first has no frames to target, only fewer than it would have needed: it is
shown as a lower bound, takes no part in the fit, and contradicts the law where the law expects fewer frames than were spent.

num_envs and horizon change learning too (older data in the rollout, other advantages), so batch sizes are compared at the same
num_envs and horizon. Only where no such group has three batch sizes are all of an arm pooled, which is said.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from envknee.config import Decide
from envknee.limits import Ranks, affine, learning, listed, percent
from envknee.limits.learning import Cost, Seeds
from envknee.record import Frozen, Record
from envknee.space import batch_transitions

LEAST_SIZES = 3
"""Two parameters would fit any two batch sizes."""

METHOD = (
    "S(B) = S_min (1 + B_noise / B) as E(B) = E_min + S_min B: least squares of relative errors, both at least 0, through"
    " interquartile means over seeds; intervals: stratified bootstrap (1,000 resamples) of the logarithms, widened by Student's t"
)


class BatchPoint(Frozen):
    """What learning took at one batch size."""

    batch_size: int
    """Transitions in one optimizer step, of all ranks together."""
    seeds: int
    reached: int
    frames_to_target: Cost
    """A lower bound where a seed did not reach the target."""
    steps_to_target: float
    """frames / batch: optimizer steps in one epoch over the rollouts."""


class BatchLaw(Frozen):
    """S(B) of one arm, at one num_envs and horizon."""

    arm: str
    num_envs: int | None
    """Of each rank; None where different ones are pooled."""
    horizon: int | None
    state: Literal["fitted", "too few batch sizes"]
    confidence: float
    points: list[BatchPoint]
    b_noise: float | None
    """Transitions per optimizer step; None where not fitted, or where steps shrink in proportion to the batch: no end seen."""
    b_noise_lower: float | None
    b_noise_upper: float | None
    """None: the measurements set no upper end."""
    s_min: float | None
    """Optimizer steps in one epoch that no batch size goes below."""
    s_min_lower: float | None
    s_min_upper: float | None
    e_min_frames: float | None
    """Frames that no batch size goes below."""
    e_min_frames_lower: float | None
    e_min_frames_upper: float | None
    largest_relative_error: float | None
    used: bool
    """False where the law misses a point by more than 10% and by more than the point's interval, or contradicts a bound."""
    method: str = METHOD
    notes: list[str]
    statement: str


def analyse(records: Sequence[Record], settings: Decide) -> list[BatchLaw]:
    """Return the law of each arm: one per (num_envs, horizon) with enough batch sizes, else one over all of them."""
    by_arm: dict[str, list[Record]] = {}
    for record in sorted(learning.that_ran(records), key=lambda record: record.request.number):
        if record.request.kind == "learning" and _batch_size(record):
            by_arm.setdefault(record.request.arm, []).append(record)
    return [law for _, of_arm in sorted(by_arm.items()) for law in _of_arm(of_arm, settings.confidence)]


def fit(frames: Mapping[int, Sequence[float]], confidence: float) -> affine.Line:
    """Fit E(B) = E_min + S_min B; its draws are those of seeds: the statistics of this module without its records.

    Deviations of few seeds from their mean are too small by sqrt((n - 1) / n), and their spread is itself an estimate:
    hence Student's t over the normal quantile, as in `residuals`. A batch size with one seed deviates like the others.

    Args:
        frames: batch size -> frames to target of each seed; at least three batch sizes
        confidence: of the intervals
    """
    sizes = np.array(sorted(frames), dtype=float)
    logs = [np.sort(np.log(np.array(frames[int(size)], dtype=float))) for size in sizes]
    values = np.array([learning.interquartile_mean(np.exp(seeds)) for seeds in logs])
    fixed, slope = affine.solve(sizes, values[None])[0]
    free = sum(len(seeds) - 1 for seeds in logs)
    if not free:
        return affine.Line(float(fixed), float(slope), np.empty((0, 2)))
    tail = (1.0 - confidence) / 2
    widening = float(stdtrit(free, tail) / ndtri(tail))
    deviations = [(seeds - seeds.mean()) * math.sqrt(len(seeds) / max(len(seeds) - 1, 1)) for seeds in logs]
    pool = np.concatenate([own for own in deviations if len(own) > 1])
    generator = np.random.default_rng(0)
    columns = []
    for seeds, own in zip(logs, deviations, strict=True):
        source = own if len(own) > 1 else pool
        drawn = source[generator.integers(0, len(source), size=(affine.RESAMPLES, len(seeds)))]
        columns.append(learning.interquartile_mean(np.exp(seeds.mean() + widening * drawn)))
    return affine.Line(float(fixed), float(slope), affine.solve(sizes, np.stack(columns, axis=1)))


def _batch_size(record: Record) -> int:
    """Return the transitions of one optimizer step of all ranks; 0 where the library's own is unknown."""
    request = record.request
    of_each = batch_transitions(
        request.num_envs, request.horizon, request.batch_size, record.num_mini_batches, record.world_size
    )
    return round(of_each * record.world_size)


def _of_arm(records: Sequence[Record], confidence: float) -> list[BatchLaw]:
    groups: dict[tuple[int, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record.request.num_envs, record.request.horizon), []).append(record)
    enough = {place: group for place, group in sorted(groups.items()) if len(_whole(group)) >= LEAST_SIZES}
    if enough:
        return [_law(group, place, confidence) for place, group in enough.items()]
    return [_law(records, next(iter(groups)) if len(groups) == 1 else None, confidence)]


def _by_batch(records: Sequence[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for record in sorted(records, key=_batch_size):
        found.setdefault(_batch_size(record), []).append(record)
    return found


def _whole(records: Sequence[Record]) -> dict[int, list[float]]:
    """Return frames to target by batch size, where every seed reached it."""
    return {
        size: [float(record.frames_to_target or 0) for record in group]
        for size, group in _by_batch(records).items()
        if all(record.frames_to_target is not None for record in group)
    }


def _law(records: Sequence[Record], place: tuple[int, int] | None, confidence: float) -> BatchLaw:
    points = [_point(size, group, confidence) for size, group in _by_batch(records).items()]
    whole = _whole(records)
    ranks = Ranks.of(records[0].request)
    line = fit(whole, confidence) if len(whole) >= LEAST_SIZES else None
    notes = _notes(records, points, place, ranks)
    used, error = False, None
    if line is not None:
        missed = _missed(points, line)
        contradicted = [
            point for point in points if point.frames_to_target.lower_bound
            and line.at(point.batch_size) * (1.0 + affine.ERROR_LIMIT) < point.frames_to_target.value
        ]  # fmt: skip
        error = max(_error(point, line) for point in points if not point.frames_to_target.lower_bound)
        used = not missed and not contradicted
        if missed:
            notes.append(
                f"the law misses batch {listed(point.batch_size for point in missed)} by more than {affine.ERROR_LIMIT:.0%}"
                " and by more than the seeds' interval: shown, but not used"
            )
        for point in contradicted:
            notes.append(
                f"at batch {point.batch_size:,} the law expects {line.at(point.batch_size):,.0f} frames, and at least"
                f" {point.frames_to_target.value:,.0f} were needed: shown, but not used"
            )

    def bounds(draws_of: Callable[[affine.Line], NDArray[np.float64]]) -> tuple[float | None, float | None]:
        return affine.interval(draws_of(line), confidence) if line is not None and len(line.draws) else (None, None)

    noise = bounds(lambda line: line.ratio_draws)
    steps, frames = bounds(lambda line: line.draws[:, 1]), bounds(lambda line: line.draws[:, 0])
    if line is not None and not len(line.draws):
        notes.append("one seed per batch size: no interval")
    elif line is not None and min(map(len, whole.values())) < learning.LEAST_SEEDS:
        notes.append(f"fewer than {learning.LEAST_SEEDS} seeds at some batch size: the interval is somewhat too narrow")
    law = BatchLaw(
        arm=records[0].request.arm,
        num_envs=place[0] if place else None,
        horizon=place[1] if place else None,
        state="too few batch sizes" if line is None else "fitted",
        confidence=confidence,
        points=points,
        b_noise=line.fixed / line.slope if line and line.slope > 0.0 else None,
        b_noise_lower=noise[0],
        b_noise_upper=noise[1],
        s_min=line.slope if line else None,
        s_min_lower=steps[0],
        s_min_upper=steps[1],
        e_min_frames=line.fixed if line else None,
        e_min_frames_lower=frames[0],
        e_min_frames_upper=frames[1],
        largest_relative_error=error,
        used=used,
        notes=notes,
        statement="",
    )
    return law.model_copy(update={"statement": _statement(law, ranks)})


def _point(batch_size: int, records: Sequence[Record], confidence: float) -> BatchPoint:
    seeds = Seeds(
        tuple(float(record.frames_to_target) for record in records if record.frames_to_target is not None),
        tuple(float(max(record.frames, 1)) for record in records if record.frames_to_target is None),
    )
    frames = learning.cost(seeds, confidence)
    return BatchPoint(
        batch_size=batch_size,
        seeds=len(records),
        reached=len(seeds.reached),
        frames_to_target=frames,
        steps_to_target=frames.value / batch_size,
    )


def _error(point: BatchPoint, line: affine.Line) -> float:
    return abs(line.at(point.batch_size) / point.frames_to_target.value - 1.0)


def _missed(points: Sequence[BatchPoint], line: affine.Line) -> list[BatchPoint]:
    """Return the points that the law misses by more than the limit, noise of the seeds aside."""
    found = []
    for point in points:
        cost = point.frames_to_target
        lower, upper = cost.interval_lower, cost.interval_upper
        inside = lower is not None and upper is not None and lower <= line.at(point.batch_size) <= upper
        if not cost.lower_bound and not inside and _error(point, line) > affine.ERROR_LIMIT:
            found.append(point)
    return found


def _notes(
    records: Sequence[Record], points: Sequence[BatchPoint], place: tuple[int, int] | None, ranks: Ranks
) -> list[str]:
    notes = []
    if place is None:
        sizes = sorted({record.request.num_envs for record in records})
        horizons = sorted({record.request.horizon for record in records})
        notes.append(
            f"pooled over {listed(sizes)} environments{ranks.each} and horizon {listed(horizons)}: what looks like the batch's"
            " effect may be theirs"
        )
    censored = [point for point in points if point.reached < point.seeds]
    if censored:
        notes.append(
            "left out of the fit, because not every seed reached the target (a lower bound, shown as such): batch "
            + ", ".join(f"{point.batch_size:,} ({point.reached} of {point.seeds})" for point in censored)
        )
    if any(record.request.batch_size is None for record in records):
        notes.append("the library's own batch counts as what it was: the rollout over its number of mini-batches")
    return notes


def _statement(law: BatchLaw, ranks: Ranks) -> str:
    where = (
        "all num_envs and horizons pooled"
        if law.num_envs is None
        else f"{law.num_envs:,} environments{ranks.each}, horizon {law.horizon}"
    )
    if law.state != "fitted":
        known = [point.batch_size for point in law.points if point.reached == point.seeds]
        return f"{_measured(known)}: {what_to_measure(law)}"
    fitted = [point for point in law.points if point.reached == point.seeds]
    largest = fitted[-1].batch_size
    seeds = min(point.seeds for point in fitted)
    evidence = f"{len(fitted)} batch sizes, {seeds} seed{'' if seeds == 1 else 's'} or more each; {where}"
    unused = "" if law.used else "not used: "
    if law.b_noise is None:
        return f"{unused}optimizer steps fall in proportion to the batch up to {largest:,}: B_noise lies beyond it ({evidence})"
    assert law.s_min is not None and law.e_min_frames is not None
    return (
        f"{unused}B_noise {law.b_noise:,.0f} transitions ({_interval(law)}): a larger batch saves ever fewer optimizer steps, a"
        f" smaller one ever fewer frames; at batch {largest:,} frames are"
        f" {percent(_surplus(law, largest), 0)} above their least ({evidence})"
    )


def _surplus(law: BatchLaw, batch_size: int) -> float:
    """Return the share of frames above the least: B / B_noise."""
    return batch_size / law.b_noise if law.b_noise else math.inf


def _interval(law: BatchLaw) -> str:
    if law.b_noise_lower is None:
        return "no interval"
    upper = "no upper end" if law.b_noise_upper is None else f"{law.b_noise_upper:,.0f}"
    return f"{law.b_noise_lower:,.0f} to {upper}"


def _measured(known: Sequence[int]) -> str:
    if not known:
        return "no batch size at which every seed reached the target"
    return f"batch {listed(known)} alone"


def what_to_measure(law: BatchLaw) -> str:
    """Return what would give a law that has none yet."""
    known = [point.batch_size for point in law.points if point.reached == point.seeds]
    more = LEAST_SIZES - len(known)
    sizes = [size for size in (4 * max(known), min(known) // 4) if size] if known else []
    such = f", such as {' and '.join(f'{size:,}' for size in sizes[:more])}" if sizes else ""
    return (
        f"for B_noise measure {more} more batch size{'' if more == 1 else 's'}{such}, at one num_envs and horizon, with"
        f" {learning.LEAST_SEEDS} seeds each that reach the target"
    )
