"""Memory limit: how many environments fit the device's own memory?

Input: records of every kind of trial. Output: one `MemoryLimit` per arm. Pure.

The peak of a trial is modelled as v0 + v_env N + v_roll N T + v_batch B (N num_envs, T horizon, B the mini-batch) by
non-negative least squares on measured peaks: no part of a trial gives memory back. On a GPU the peak is what the device
reports as used; on a CPU it is the resident set of the process, against the memory of the host. Trials that learned in
parts to fit what there was (`on_oom: retry_accumulate`) are no evidence of what whole ones take.

How far the model errs shows only where more points (num_envs, horizon, batch size) were measured than it has unknowns: repeats
of a point differ by next to nothing on a GPU, and say nothing of it. So intervals rest on how far the means of points are off
the model, with points less unknowns for degrees of freedom, and besides on how far repeats are off their point's mean; with
as many points as unknowns there is none. Whether errors grow with the peak or not matters where a card is much smaller or larger
than what was measured, and few points hardly tell: unless one is 7 times as likely as the other, intervals span those of both.

Where several ranks train together all of it is per rank: N and B are one rank's, the peak is that of the fullest rank. Each
rank has a GPU of its own; on a CPU they share the host's memory in equal parts.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from envknee.config import Decide
from envknee.limits import ONE_GPU, Ranks, Series, listed, residuals, shown_batch, times
from envknee.record import Frozen, Record, Status
from envknee.space import Point, batch_transitions, rollout_size

RESAMPLES = 500

DECISIVE = 2.0
"""Difference of log-likelihoods from which on trials tell whether their noise is absolute or relative: 7 times as likely."""

FAR_BEYOND = 4.0
"""A largest num_envs this many times the largest measured one is called an extrapolation."""

CARDS_MIB = {
    "8 GB (RTX 4060)": 8188,
    "12 GB (RTX 4070)": 12282,
    "16 GB (RTX 4080)": 16376,
    "24 GB (RTX 4090)": 24564,
    "32 GB (RTX 5090)": 32607,
    "40 GB (A100)": 40960,
    "48 GB (L40S)": 46068,
    "80 GB (H100)": 81559,
    "96 GB (H100 NVL)": 95830,
    "141 GB (H200)": 143771,
}
"""Memory of named cards as their drivers report it (nvidia-smi, total), in MiB."""

GB_PER_MIB = 2**20 / 1e9

METHOD = (
    "non-negative least squares on measured peaks, by absolute or relative errors, whichever are likelier; interval, where there are"
    " more points than unknowns: bootstrap of the points' residuals and of the repeats' within points, with those of one more trial"
    " added, by both kinds of errors where neither is much likelier; it holds as far as the linear model does"
)


class MemoryTerm(Frozen):
    """One part of the memory model."""

    name: Literal["base", "per_environment", "per_transition", "per_batch_transition"]
    gb: float
    """GB (1e9 bytes) per unit: once, per environment, per transition of a rollout, per transition of a mini-batch (each of one
    rank)."""
    gb_lower: float | None
    """Two-sided interval; None with too few points for one."""
    gb_upper: float | None


class MemoryWall(Frozen):
    """The largest num_envs that fits at one horizon and batch size."""

    horizon: int
    batch_size: int | None
    largest_num_envs: int | None
    """None where the model has no term that grows with num_envs."""
    largest_num_envs_lower: int | None
    """Two-sided prediction interval for one more trial; None: open, or too few points for one."""
    largest_num_envs_upper: int | None
    largest_fitted: int | None
    """Largest num_envs measured to fit at this horizon and batch size, be it in parts."""
    smallest_failed: int | None
    """Smallest num_envs measured not to fit."""
    extrapolation: float | None
    """largest_num_envs over the largest num_envs that the model was fitted to."""
    contradicted: bool
    """True where a trial at or below largest_num_envs did not fit."""


class InfeasibleTrial(Frozen):
    """A point that ran out of memory, or was refused because it must."""

    kind: str
    num_envs: int
    horizon: int
    batch_size: int | None
    status: Literal["oom", "refused"]
    trials: int


class CardPrediction(Frozen):
    """The largest num_envs predicted to fit a card of another size, at one horizon and batch size."""

    card: str
    memory_gb: float
    """What such a card reports as its own, in GB (1e9 bytes)."""
    horizon: int
    batch_size: int | None
    largest_num_envs: int
    """With the study's margin kept free; 0 where not even one fits."""
    largest_num_envs_lower: int | None
    """Two-sided prediction interval, as of a `MemoryWall`."""
    largest_num_envs_upper: int | None
    extrapolation: float
    """largest_num_envs over the largest num_envs that the model was fitted to."""


class MemoryLimit(Frozen):
    """The memory limit of one arm."""

    arm: str
    quantity: Literal["device memory used", "resident set of the process"]
    device: str | None
    device_memory_gb: float | None
    """What one rank may use: its GPU's, or its part of the host's."""
    world_size: int = 1
    """Ranks that trained together: num_envs are those of each."""
    margin: float
    """Share of it to keep free."""
    confidence: float
    identifiable: bool
    terms: list[MemoryTerm]
    trials: int
    largest_error_gb: float | None
    walls: list[MemoryWall]
    infeasible: list[InfeasibleTrial]
    cards: list[CardPrediction] = []
    """Environments for your GPU, small cards first; only from trials on a GPU whose memory grows with num_envs."""
    method: str
    notes: list[str]
    statement: str

    def peak_gb(self, num_envs: int, horizon: int, batch_transitions: float) -> float | None:
        """Return the model's peak in GB of one rank, or None when the model is not identifiable.

        Args:
            num_envs: of the rank
            horizon: environment steps
            batch_transitions: of the rank, as `batch_transitions` returns it
        """
        if not self.identifiable:
            return None
        units = {
            "base": 1.0,
            "per_environment": float(num_envs),
            "per_transition": float(rollout_size(num_envs, horizon)),
            "per_batch_transition": batch_transitions,
        }
        return sum(term.gb * units[term.name] for term in self.terms)

    def wall(self, horizon: int, batch_size: int | None) -> MemoryWall | None:
        """Return the wall at a horizon and batch size, or None when none was computed there."""
        return next((wall for wall in self.walls if (wall.horizon, wall.batch_size) == (horizon, batch_size)), None)


NAMES: tuple[Literal["base", "per_environment", "per_transition", "per_batch_transition"], ...] = (
    "base",
    "per_environment",
    "per_transition",
    "per_batch_transition",
)


@dataclass(frozen=True)
class Sample:
    """What one trial says about memory: all that this module needs of a record."""

    kind: str
    num_envs: int
    """Of each rank."""
    horizon: int
    batch_size: int | None
    """Of all ranks together; None for the library's own."""
    mini_batches: int | None
    """Optimizer steps per epoch that the library ran with, where that is known."""
    status: Status
    peak_gb: float | None
    """Of the fullest rank; None where none was measured."""
    in_parts: bool = False
    """True where it learned each mini-batch in parts, for whole ones did not fit."""

    @property
    def fitted(self) -> bool:
        """Tell whether it ran with a peak that was measured: out of memory cuts it short, whatever it says."""
        return self.peak_gb is not None and self.status not in ("oom", "refused")

    @property
    def whole(self) -> bool:
        """Tell whether the peak is what a trial takes at its point: in parts it is cut to what there was."""
        return self.fitted and not self.in_parts


@dataclass(frozen=True)
class Room:
    """The memory that one rank may use."""

    memory_gb: float | None
    device: str | None = None
    on_gpu: bool = True
    unknown_because: str = "no trial tells the memory of its device"
    """What to say where `memory_gb` is None."""


@dataclass(frozen=True)
class _Fit:
    """A fitted model and its bootstrap replicates, in GB per unit of each term in `columns`."""

    columns: tuple[int, ...]
    points: int
    """Different (num_envs, horizon, batch size) among the trials."""
    values: NDArray[np.float64]
    """Shape (4,); terms not in `columns` are 0."""
    resampled: NDArray[np.float64] | None
    """Shape (RESAMPLES, 4)."""
    added_residuals: NDArray[np.float64] | None
    """Shape (RESAMPLES,): the residual of one more trial, in GB or, where `relative`, in parts of its peak."""
    relative: bool
    """True where the noise grows with the peak."""
    largest_error_gb: float
    other: "_Fit | None" = None
    """By the other kind of errors, where the trials leave open which kind is theirs: intervals span both."""

    @property
    def errs_visibly(self) -> bool:
        """Tell whether there are more points than unknowns: with as many the model meets each of them, however wrong it is."""
        return self.points > len(self.columns)

    @property
    def no_interval(self) -> str:
        """Why there is no interval, and what helps."""
        return f"no interval: {self.points} points for {len(self.columns)} unknowns; measure another num_envs"


def analyse(records: Sequence[Record], settings: Decide) -> list[MemoryLimit]:
    """Return the memory limit of every arm among `records`, in order of name."""
    return [
        _limit(arm, [record for record in records if record.request.arm == arm], settings)
        for arm in sorted({record.request.arm for record in records})
    ]


def at_point(horizon: int, batch_size: int | None) -> str:
    """Return ` at horizon 16, batch 128`, to stand behind "environments fit"."""
    return f" at horizon {horizon}, {shown_batch(batch_size)}"


def limit_of(
    arm: str,
    samples: Sequence[Sample],
    room: Room,
    settings: Decide,
    *,
    ranks: Ranks = ONE_GPU,
    device_notes: Sequence[str] = (),
    at: Callable[[int, int | None], str] = at_point,
) -> MemoryLimit:
    """Return the limit of one arm from plain numbers: what `analyse` does without its records.

    Args:
        arm: its name
        samples: of every kind of trial, in any order
        room: what one rank may use
        settings: margin and confidence
        ranks: that trained together, each with num_envs environments of its own
        device_notes: what a reader must know about the devices
        at: how horizon and batch size are said in the statement
    """
    measured = [sample for sample in samples if sample.whole]
    failed = [sample for sample in samples if sample.status in ("oom", "refused")]
    fit, why_not = _fit(measured, ranks.world_size, settings.confidence)
    notes = [f"not identifiable: {why_not}"] if why_not else []
    notes += device_notes
    if in_parts := sum(sample.fitted and sample.in_parts for sample in samples):
        trials = "trial" if in_parts == 1 else "trials"
        notes.append(f"{in_parts} {trials} learned in parts, to fit what there was: not in the model")
    walls = _walls(arm, samples, measured, failed, fit, room.memory_gb, ranks.world_size, settings)
    if fit is not None:
        notes += _fit_notes(fit, measured, walls)
    return MemoryLimit(
        arm=arm,
        quantity="device memory used" if room.on_gpu else "resident set of the process",
        device=room.device,
        device_memory_gb=room.memory_gb,
        world_size=ranks.world_size,
        margin=settings.memory_margin,
        confidence=settings.confidence,
        identifiable=fit is not None,
        terms=_terms(fit, settings.confidence) if fit else [],
        trials=len(measured),
        largest_error_gb=fit.largest_error_gb if fit else None,
        walls=walls,
        cards=_cards(arm, samples, measured, fit, ranks.world_size, settings) if room.on_gpu else [],
        infeasible=_infeasible(failed),
        method=METHOD,
        notes=notes,
        statement=_statement(walls, fit, why_not, room, ranks, settings, at),
    )


class Prediction(NamedTuple):
    """What the fitted model says of one more trial, without an interval: milliseconds, where those take seconds."""

    peak_gb: float
    largest_num_envs: int | None
    """That fits all of the memory at this horizon and batch size; None: no limit."""
    trials: int
    largest_error_gb: float
    errs_visibly: bool
    """False with as many points as unknowns: the model meets each of them, however wrong it is elsewhere."""


def predict(samples: Sequence[Sample], point: Point, memory_gb: float, world_size: int) -> Prediction | None:
    """Return what the model of `samples` says of a trial at `point` on a device of `memory_gb`; None where there is no model.

    There is one where more trials than unknowns were measured.
    """
    measured = [sample for sample in samples if sample.whole]
    fit, _ = _fit(measured, world_size, None)
    if fit is None or len(measured) <= len(fit.columns):
        return None
    here = Sample(
        "throughput", point.num_envs, point.horizon, point.batch_size, _usual_mini_batches(measured), "ok", None
    )
    series = Series("", point.horizon, point.batch_size)
    largest, _, _ = _largest(fit, series, measured, world_size, memory_gb, Decide(memory_margin=0.0))
    peak_gb = float(np.array(_design(here, world_size)) @ fit.values)
    return Prediction(peak_gb, largest, len(measured), fit.largest_error_gb, fit.errs_visibly)


def sample_of(record: Record) -> Sample:
    """Return what a record says about memory."""
    request = record.request
    return Sample(
        kind=request.kind,
        num_envs=request.num_envs,
        horizon=request.horizon,
        batch_size=request.batch_size,
        mini_batches=record.num_mini_batches,
        status=record.outcome.status,
        peak_gb=record.memory_peak_gb,
        in_parts=bool(record.outcome.micro_batches),
    )


def measured_peaks(records: Sequence[Record]) -> list[Record]:
    """Return the records that ran with a peak that was measured: out of memory cuts it short, whatever it says."""
    return [record for record in records if sample_of(record).fitted]


def _limit(arm: str, records: Sequence[Record], settings: Decide) -> MemoryLimit:
    devices = [record.outcome.environment.device for record in records if record.outcome.environment is not None]
    smallest = min(devices, key=lambda device: device.memory_gb, default=None)
    room = Room(
        memory_gb=min((r.rank_memory_gb for r in records if r.rank_memory_gb is not None), default=None),
        device=smallest.name if smallest else None,
        on_gpu=any(device.type == "cuda" for device in devices),
    )
    ranks = Ranks.of(records[0].request)
    notes = []
    if room.memory_gb is not None and not room.on_gpu and ranks.world_size > 1:
        notes.append(f"{ranks} share the host's memory: {room.memory_gb:,.1f} GB for each")
    if len({device.name for device in devices}) > 1:
        notes.append(f"{len({device.name for device in devices})} kinds of device: the smallest memory is taken")
    return limit_of(arm, [sample_of(record) for record in records], room, settings, ranks=ranks, device_notes=notes)


def _design(sample: Sample, world_size: int) -> tuple[float, float, float, float]:
    """Return how many units of each term of `NAMES` a trial needs."""
    batch = batch_transitions(sample.num_envs, sample.horizon, sample.batch_size, sample.mini_batches, world_size)
    return 1.0, float(sample.num_envs), float(rollout_size(sample.num_envs, sample.horizon)), batch


def _fit(samples: Sequence[Sample], world_size: int, confidence: float | None) -> tuple[_Fit | None, str]:
    """Return the fitted model, or None and why there is none; without `confidence` it has no bootstrap replicates."""
    sizes = len({sample.num_envs for sample in samples})
    if sizes < 2:
        return None, f"{sizes} different num_envs measured, 2 are needed"
    # Sorted: the order in which trials ran must not reach the draws of the interval.
    rows = np.array(sorted((*_design(sample, world_size), sample.peak_gb or 0.0) for sample in samples))
    design, peaks = rows[:, :-1], rows[:, -1]
    columns = _independent(design)
    points = len(np.unique(design, axis=0))
    if points < len(columns):
        return None, f"{points} different points for {len(columns)} unknowns"
    evidence = _relative_over_absolute(design, peaks, columns)
    found = _fitted(design, peaks, columns, evidence > 0.0, confidence)
    # Repeats that agree tell nothing of how points err: the evidence is that of as many trials as points.
    if found.resampled is not None and abs(evidence) * points / len(peaks) < DECISIVE:
        found = dataclasses.replace(found, other=_fitted(design, peaks, columns, not found.relative, confidence))
    return found, ""


def _fitted(
    design: NDArray[np.float64],
    peaks: NDArray[np.float64],
    columns: tuple[int, ...],
    relative: bool,
    confidence: float | None,
) -> _Fit:
    """Return the model that errs least, by absolute errors or relative ones."""
    different, point_of_trial, repeats = np.unique(design, axis=0, return_inverse=True, return_counts=True)
    points = len(different)
    # An allocator's slack grows with what it holds, the host's noise does not: each trial counts by its own scale.
    scales = peaks if relative else np.ones(len(peaks))
    values = _solve(design, peaks, columns, scales)
    errors = peaks - design @ values
    resampled = added = None
    if confidence is not None and points > len(columns):
        off_model = np.bincount(point_of_trial, errors / scales) / repeats
        drawn = residuals.draws(off_model, len(columns), confidence, (RESAMPLES, points + 1))
        # What a point is off the model all its repeats are.
        drawn = drawn[:, [0, *(point_of_trial + 1)]]
        if len(peaks) > points:
            off_mean = errors / scales - off_model[point_of_trial]
            drawn = drawn + residuals.draws(off_mean, points, confidence, drawn.shape, seed=1)
        noisy = design @ values + drawn[:, 1:] * scales
        resampled = np.array([_solve(design, one, columns, scales) for one in noisy])
        added = drawn[:, 0]
    return _Fit(columns, points, values, resampled, added, relative, float(np.abs(errors).max()))


def _relative_over_absolute(design: NDArray[np.float64], peaks: NDArray[np.float64], columns: tuple[int, ...]) -> float:
    """Return how much likelier noise in proportion to the peak is than the same for all: a difference of log-likelihoods.

    Gaussian, maximized; 0 where there are no more trials than unknowns.
    """
    if len(peaks) <= len(columns):
        return 0.0

    def log_likelihood(scales: NDArray[np.float64]) -> float:
        errors = (peaks - design @ _solve(design, peaks, columns, scales)) / scales
        # What is exact to a millionth is exact.
        variance = max(float(np.square(errors).mean()), float(np.square(1e-6 * peaks / scales).mean()))
        return -0.5 * len(peaks) * math.log(variance) - float(np.log(scales).sum())

    return log_likelihood(peaks) - log_likelihood(np.ones(len(peaks)))


def _independent(design: NDArray[np.float64]) -> tuple[int, ...]:
    """Return the columns that the points can tell apart: one is left out when it follows from those before it."""
    scaled = design / np.maximum(np.abs(design).max(axis=0), 1e-300)
    kept: list[int] = []
    for column in range(design.shape[1]):
        if np.linalg.matrix_rank(scaled[:, [*kept, column]], tol=1e-6) == len(kept) + 1:
            kept.append(column)
    return tuple(kept)


def _solve(
    design: NDArray[np.float64], peaks: NDArray[np.float64], columns: tuple[int, ...], scales: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the non-negative least squares solution, shape (4,), with 0 for columns left out; errors count over `scales`."""
    # A term that adds less than a millionth of the peaks is rounding, and would extrapolate to absurd sizes.
    # Columns differ by six orders of magnitude: scale them before solving.
    scale = design[:, columns].max(axis=0)
    solution = np.zeros(design.shape[1])
    contributions = nnls(design[:, columns] / scale / scales[:, None], peaks / scales)[0]
    solution[list(columns)] = np.where(contributions > 1e-6 * peaks.max(), contributions, 0.0) / scale
    return solution


def _terms(fit: _Fit, confidence: float) -> list[MemoryTerm]:
    tail = (1.0 - confidence) / 2
    resampled = [one.resampled for one in (fit, fit.other) if one is not None and one.resampled is not None]

    def ends(column: int, share: float) -> list[float]:
        return [float(np.quantile(draws[:, column], share)) for draws in resampled]

    return [
        MemoryTerm(
            name=NAMES[column],
            gb=float(fit.values[column]),
            gb_lower=min(ends(column, tail), default=None),
            gb_upper=max(ends(column, 1.0 - tail), default=None),
        )
        for column in fit.columns
    ]


def _walls(
    arm: str,
    samples: Sequence[Sample],
    measured: Sequence[Sample],
    failed: Sequence[Sample],
    fit: _Fit | None,
    memory_gb: float | None,
    world_size: int,
    settings: Decide,
) -> list[MemoryWall]:
    walls = []
    for series in _all_series(arm, samples):
        largest, lower, upper = (None, None, None)
        if fit is not None and memory_gb is not None:
            largest, lower, upper = _largest(fit, series, measured, world_size, memory_gb, settings)
        fitted = max((one.num_envs for one in _at(series, samples) if one.fitted), default=None)
        broken = min((one.num_envs for one in _at(series, failed)), default=None)
        far = max((one.num_envs for one in measured), default=None)
        walls.append(
            MemoryWall(
                horizon=series.horizon,
                batch_size=series.batch_size,
                largest_num_envs=largest,
                largest_num_envs_lower=lower,
                largest_num_envs_upper=upper,
                largest_fitted=fitted,
                smallest_failed=broken,
                extrapolation=largest / far if largest is not None and far else None,
                contradicted=largest is not None and broken is not None and broken <= largest,
            )
        )
    return walls


def _cards(
    arm: str,
    samples: Sequence[Sample],
    measured: Sequence[Sample],
    fit: _Fit | None,
    world_size: int,
    settings: Decide,
) -> list[CardPrediction]:
    """Return what the model says of cards of other sizes: memory use does not depend on how much there is."""
    if fit is None:
        return []
    far = max(sample.num_envs for sample in measured)
    predictions = []
    for card, mebibytes in CARDS_MIB.items():
        memory_gb = mebibytes * GB_PER_MIB
        for series in _all_series(arm, samples):
            largest, lower, upper = _largest(fit, series, measured, world_size, memory_gb, settings)
            if largest is not None:
                predictions.append(
                    CardPrediction(
                        card=card,
                        memory_gb=memory_gb,
                        horizon=series.horizon,
                        batch_size=series.batch_size,
                        largest_num_envs=largest,
                        largest_num_envs_lower=lower,
                        largest_num_envs_upper=upper,
                        extrapolation=largest / far,
                    )
                )
    return predictions


def _usual_mini_batches(samples: Sequence[Sample]) -> int | None:
    """Return how many mini-batches the library ran with most often."""
    mini_batches = Counter(one.mini_batches for one in samples if one.mini_batches)
    return mini_batches.most_common(1)[0][0] if mini_batches else None


def _all_series(arm: str, samples: Sequence[Sample]) -> list[Series]:
    found = {Series(arm, sample.horizon, sample.batch_size) for sample in samples}
    return sorted(found, key=lambda series: (series.horizon, series.batch_size or 0))


def _at(series: Series, candidates: Sequence[Sample]) -> list[Sample]:
    return [one for one in candidates if (one.horizon, one.batch_size) == (series.horizon, series.batch_size)]


def _largest(
    fit: _Fit,
    series: Series,
    measured: Sequence[Sample],
    world_size: int,
    memory_gb: float,
    settings: Decide,
) -> tuple[int | None, int | None, int | None]:
    """Return the largest num_envs within `memory_gb`, less the margin, with its interval; None: no limit, or no interval.

    The interval may reach below what was measured to fit: it is of one more trial, whose noise is its own. Cut off there, it held
    the limit in 48 instead of 85% of simulated studies with one trial per point, 2% of noise, and a size that just fits.
    """
    usual = _usual_mini_batches(_at(series, measured))
    available_gb = memory_gb * (1.0 - settings.memory_margin)
    # The library's batch grows with num_envs, a fixed one does not.
    of_one_env = batch_transitions(1, series.horizon, series.batch_size, usual, world_size)
    batch_per_env, fixed_batch = (of_one_env, 0.0) if series.batch_size is None else (0.0, of_one_env)

    def solve(values: NDArray[np.float64], added_gb: NDArray[np.float64] | float) -> NDArray[np.float64]:
        slope = values[..., 1] + values[..., 2] * series.horizon + values[..., 3] * batch_per_env
        free_gb = available_gb - values[..., 0] - values[..., 3] * fixed_batch - added_gb
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(slope > 0.0, np.floor(np.maximum(free_gb, 0.0) / slope), np.inf)

    def whole(num_envs: float) -> int | None:
        return int(num_envs) if math.isfinite(num_envs) else None

    largest = whole(float(solve(fit.values, 0.0)))
    tail = (1.0 - settings.confidence) / 2
    ends = []
    for one in (fit, fit.other):
        if one is not None and one.resampled is not None and one.added_residuals is not None:
            replicates = solve(one.resampled, one.added_residuals * (available_gb if one.relative else 1.0))
            ends += [float(np.quantile(replicates, share, method="nearest")) for share in (tail, 1.0 - tail)]
    return (largest, whole(min(ends)), whole(max(ends))) if ends else (largest, None, None)


def _infeasible(failed: Sequence[Sample]) -> list[InfeasibleTrial]:
    counts = Counter((one.kind, one.horizon, one.batch_size or 0, one.num_envs, one.status) for one in failed)
    return [
        InfeasibleTrial(
            kind=kind,
            num_envs=num_envs,
            horizon=horizon,
            batch_size=batch or None,
            status="oom" if status == "oom" else "refused",
            trials=trials,
        )
        for (kind, horizon, batch, num_envs, status), trials in sorted(counts.items())
    ]


def _fit_notes(fit: _Fit, measured: Sequence[Sample], walls: Sequence[MemoryWall]) -> list[str]:
    notes = []
    horizons = {sample.horizon for sample in measured}
    if 2 not in fit.columns:
        notes.append(
            f"one horizon ({listed(horizons)}): the rollout's part is within per_environment"
            if len(horizons) == 1
            else "the rollout's part cannot be told from the others at these points"
        )
    if any(wall.contradicted for wall in walls):
        notes.append("a trial at or below a predicted largest num_envs did not fit: trust the trial")
    far = [wall.extrapolation for wall in walls if wall.extrapolation is not None and wall.extrapolation > FAR_BEYOND]
    if far:
        notes.append(
            f"largest num_envs is up to {times(max(far))} the largest measured one: an extrapolation, not a measurement"
        )
    if not fit.errs_visibly:
        notes.append(fit.no_interval)
    return notes


def _statement(
    walls: Sequence[MemoryWall],
    fit: _Fit | None,
    why_not: str,
    room: Room,
    ranks: Ranks,
    settings: Decide,
    at: Callable[[int, int | None], str],
) -> str:
    failed = [wall.smallest_failed for wall in walls if wall.smallest_failed is not None]
    measured = f"; the smallest that did not fit: {min(failed):,}" if failed else ""
    if fit is None or room.memory_gb is None:
        return f"not identifiable: {why_not or room.unknown_because}{measured}"
    alone = ranks.world_size == 1
    whose = ("the GPU's" if alone else "each GPU's") if room.on_gpu else ("the host's" if alone else "each rank's")
    share = f"{1.0 - settings.memory_margin:.0%} of {whose} {room.memory_gb:,.1f} GB"
    known = [wall for wall in walls if wall.largest_num_envs is not None]
    if not known:
        return f"memory does not grow with num_envs at the points measured ({share} available){measured}"
    tightest = min(known, key=lambda wall: wall.largest_num_envs or 0)
    where = at(tightest.horizon, tightest.batch_size)
    beyond = tightest.extrapolation or 0.0
    if beyond > FAR_BEYOND:
        largest = f"{times(beyond)} the largest num_envs{ranks.each} measured"
        return f"far from binding: {share} would take {largest}{where}, an extrapolation{measured}"
    verb = "predicted: up to" if beyond > 1.0 else "up to"
    return f"{verb} {tightest.largest_num_envs:,} environments{ranks.each} fit {share}{where}{_interval(tightest, fit)}{measured}"


def _interval(wall: MemoryWall, fit: _Fit) -> str:
    if wall.largest_num_envs_lower is None:
        return "" if fit.errs_visibly else f" ({fit.no_interval})"
    upper = "open" if wall.largest_num_envs_upper is None else f"{wall.largest_num_envs_upper:,}"
    return f" (interval {wall.largest_num_envs_lower:,} to {upper})"
