"""Critical batch size: from which batch size on do larger batches no longer save optimizer steps?

Input: records of learning trials. Output: `BatchLaw`s per arm. Pure.

McCandlish et al. 2018 ("An Empirical Model of Large-Batch Training", arXiv:1812.06162) find S(B) = S_min (1 + B_noise / B), with S
optimizer steps to a target at batch size B, and E = B S examples. At B_noise, steps and examples are each twice their minimum; smaller
batches waste steps, larger ones waste examples. Here an example is a collected frame. A frame is used in `num_learning_epochs` epochs,
and frames / B are the optimizer steps of one epoch. All batch sizes of an arm have the same number of epochs, which scales S and S_min,
but neither B_noise nor E_min. So S is given per epoch.

Multiplied by B, the law is a line, E(B) = E_min + S_min B with E_min = S_min B_noise. Its relative errors are those of S. `affine` fits
it to the interquartile mean over seeds of environment steps to target, one point per batch size. Intervals come from a stratified
bootstrap, which draws seeds within each batch size. At 95%, the interval of B_noise covers 95 to 98% with three or more seeds per size,
and 90 to 92% with two (tests/unit/verdict/test_batch.py).

If a seed spent its budget first, its batch size has only a lower bound of its frames: shown, not fitted, and contradicted by a law below
it. num_envs and horizon also change learning (older data in the rollout, other advantages), so batch sizes are compared at the same ones.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import chain, groupby

import numpy as np

from envknee.record.schema import Record
from envknee.verdict import learning_cost
from envknee.verdict.rule import affine
from envknee.verdict.rule.schedule import LEAST_REPEATS
from envknee.verdict.schema.batch import BatchLaw, BatchPoint, Contradiction
from envknee.verdict.series import Ranks, batch_size_of
from envknee.verdict.settings import Settings


def analyse(records: Sequence[Record], settings: Settings) -> list[BatchLaw]:
    """Return the laws of one arm: one per (num_envs, horizon) with enough batch sizes, else one for the whole arm."""
    groups: dict[tuple[int, int], list[Record]] = {}
    for record in sorted(learning_cost.that_ran(records), key=lambda record: record.request.number):
        request = record.request
        # Off-policy, frames / B are no optimizer steps.
        if request.kind == "learning" and not request.is_off_policy and batch_size_of(record):
            groups.setdefault((request.num_envs, request.horizon), []).append(record)
    enough = {place: group for place, group in sorted(groups.items()) if len(_whole(group)) >= affine.LEAST_SIZES}
    if enough or len(groups) < 2:
        return [_law(group, place, settings.confidence) for place, group in (enough or groups).items()]
    return [_law(list(chain.from_iterable(groups.values())), None, settings.confidence)]


def fit(frames: Mapping[int, Sequence[float]], confidence: float) -> affine.Line:
    """Fit E(B) = E_min + S_min B, with draws of seeds. Works without records.

    Deviations of few seeds from their mean are too small by sqrt((n - 1) / n), and are widened (`affine.widening`). A batch size with one
    seed gets the others' deviations. `frames` has the environment steps to target of each seed, at three batch sizes or more.
    """
    sizes = np.array(sorted(frames), dtype=float)
    logs = [np.sort(np.log(np.array(frames[int(size)], dtype=float))) for size in sizes]
    values = np.array([learning_cost.interquartile_mean(np.exp(seeds)) for seeds in logs])
    fixed, slope = affine.solve(sizes, values[None])[0]
    free = sum(len(seeds) - 1 for seeds in logs)
    if not free:
        return affine.Line(float(fixed), float(slope), np.empty((0, 2)))
    widening = affine.widening(free, confidence)
    deviations = [(seeds - seeds.mean()) * math.sqrt(len(seeds) / max(len(seeds) - 1, 1)) for seeds in logs]
    pool = np.concatenate([own for own in deviations if len(own) > 1])
    generator = np.random.default_rng(0)
    columns = []
    for seeds, own in zip(logs, deviations, strict=True):
        source = own if len(own) > 1 else pool
        drawn = source[generator.integers(0, len(source), size=(affine.RESAMPLES, len(seeds)))]
        columns.append(learning_cost.interquartile_mean(np.exp(seeds.mean() + widening * drawn)))
    return affine.Line(float(fixed), float(slope), affine.solve(sizes, np.stack(columns, axis=1)))


def _by_batch(records: Sequence[Record]) -> dict[int, learning_cost.Seeds]:
    """Return the seeds' environment steps to target by ascending batch size."""
    groups = groupby(sorted(records, key=batch_size_of), key=batch_size_of)
    return {size: learning_cost.frames_of(list(group)) for size, group in groups}


def _whole(records: Sequence[Record]) -> dict[int, tuple[float, ...]]:
    """Return environment steps to target by batch size, for sizes at which every seed reached it."""
    return {size: seeds.reached for size, seeds in _by_batch(records).items() if not seeds.censored}


def _law(records: Sequence[Record], place: tuple[int, int] | None, confidence: float) -> BatchLaw:
    points = [
        BatchPoint(
            batch_size=size,
            seeds=seeds.count,
            reached=len(seeds.reached),
            frames_to_target=learning_cost.cost(seeds, confidence),
        )
        for size, seeds in _by_batch(records).items()
    ]
    whole = _whole(records)
    ranks = Ranks.of(records[0].request)
    requests = [record.request for record in records]
    line = fit(whole, confidence) if len(whole) >= affine.LEAST_SIZES else None
    fitted = [point for point in points if point.batch_size in whole]
    missed: list[int] = []
    contradicted: list[Contradiction] = []
    error, noise, few_seeds = None, (None, None), False
    if line is not None:
        missed = [point.batch_size for point in fitted if _is_missed(point, line)]
        contradicted = _contradicted(points, line)
        error = max(_error(point, line) for point in fitted)
        if len(line.draws):
            noise = affine.interval(line.ratio_draws, confidence)
            few_seeds = min(map(len, whole.values())) < LEAST_REPEATS
    return BatchLaw(
        arm=requests[0].arm,
        num_envs=place[0] if place else None,
        horizon=place[1] if place else None,
        state="too few batch sizes" if line is None else "fitted",
        points=points,
        b_noise=line.fixed / line.slope if line and line.slope > 0.0 else None,
        b_noise_lower=noise[0],
        b_noise_upper=noise[1],
        s_min=line.slope if line else None,
        e_min_frames=line.fixed if line else None,
        largest_relative_error=error,
        used=line is not None and not missed and not contradicted,
        pooled_num_envs=[] if place else sorted({request.num_envs for request in requests}),
        pooled_horizons=[] if place else sorted({request.horizon for request in requests}),
        rules=[base for base in dict.fromkeys(request.scaled_from for request in requests) if base is not None],
        is_library_batch=any(request.batch_size is None for request in requests),
        missed=missed,
        contradicted=contradicted,
        few_seeds=few_seeds,
        world_size=ranks.world_size,
        rank_word=ranks.word,
    )


def _contradicted(points: Sequence[BatchPoint], line: affine.Line) -> list[Contradiction]:
    """Return the lower bounds that lie above the law by more than the limit of its errors."""
    found = []
    for point in points:
        expected, least = line.at(point.batch_size), point.frames_to_target.value
        if point.frames_to_target.lower_bound and expected * (1.0 + affine.ERROR_LIMIT) < least:
            found.append(Contradiction(batch_size=point.batch_size, expected_frames=expected, least_frames=least))
    return found


def _error(point: BatchPoint, line: affine.Line) -> float:
    return abs(line.at(point.batch_size) / point.frames_to_target.value - 1.0)


def _is_missed(point: BatchPoint, line: affine.Line) -> bool:
    """Tell whether the law misses a point by more than the limit and by more than the seeds' noise."""
    lower, upper = point.frames_to_target.interval_lower, point.frames_to_target.interval_upper
    inside = lower is not None and upper is not None and lower <= line.at(point.batch_size) <= upper
    return not inside and _error(point, line) > affine.ERROR_LIMIT
