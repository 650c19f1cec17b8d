"""The phase that sets the knee, from a law t_phase(N) = t0 + c N for each phase of an iteration.

Input: records of throughput trials with phases. Output: one `PhaseLaws` per (arm, horizon, batch_size). Pure.

FPS grow towards ranks x horizon / sum of all c. The phase with the largest c limits them most, and making it cheaper helps most. The sum
of all t0 decides how many environments that takes: few environments mostly wait for the phase with the largest t0.

Each phase is fitted like the whole iteration (`affine`). All phases of a trial belong to the same iterations, so their residuals are drawn
together, trial by trial. The certainty that a phase has the largest c is the share of draws in which it has. The verdict uses only
measured doublings; these laws explain it.

With several ranks, N is per rank, and a phase's seconds are the mean over ranks.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from envknee.base.point import rollout_size
from envknee.record.schema import PHASES, Phase, Record
from envknee.verdict.measurements import Measurements, filtered
from envknee.verdict.rule import affine
from envknee.verdict.schema.phases import PhaseLaw, PhaseLaws, PhasePoint
from envknee.verdict.series import Ranks, Series
from envknee.verdict.settings import Settings
from envknee.verdict.throughput import measured_fps

RESOLUTION_S = 1e-6
"""Shortest time of a phase: clocks resolve no less, and a relative error of 0 s would be infinite."""


def analyse(measured: Measurements, settings: Settings) -> list[PhaseLaws]:
    """Return the phase laws of every series with phases."""
    timed = filtered(measured.throughput, lambda record: record.outcome.status == "ok")
    trials = {series: sum(map(len, by_size.values())) for series, by_size in timed.items()}
    resolved = filtered(timed, lambda record: record.phases_s)
    return [_of_series(series, by_size, trials[series], settings.confidence) for series, by_size in resolved.items()]


def fit(seconds: Mapping[int, Sequence[Mapping[Phase, float]]], confidence: float) -> list[PhaseLaw]:
    """Fit the law of every phase that takes any time, at three num_envs or more, with its shares of the whole.

    Works without records.
    """
    lines: dict[Phase, affine.Line] = {}
    errors: dict[Phase, float] = {}
    for phase in PHASES:
        times = {n: [trial.get(phase, 0.0) for trial in trials] for n, trials in seconds.items()}
        if not any(value > 0.0 for values in times.values() for value in values):
            continue
        measured = {float(n): [max(value, RESOLUTION_S) for value in values] for n, values in times.items()}
        line = affine.fit(measured, confidence)
        lines[phase] = line
        errors[phase] = max(abs(line.at(n) / statistics.geometric_mean(values) - 1.0) for n, values in measured.items())
    draws = np.stack([line.draws for line in lines.values()])  # (phases, resamples, 2)
    sums = draws.sum(axis=0)
    fixed, slope = sum(line.fixed for line in lines.values()), sum(line.slope for line in lines.values())
    # Shape (phases, 2). A draw in which all phases are 0 counts for none.
    certainty = ((draws == draws.max(axis=0)) & (draws > 0.0)).mean(axis=1)
    laws = []
    for place, (phase, line) in enumerate(lines.items()):
        of_t0, of_slope = (
            _share(value, whole, affine.divided(draws[place, :, i], sums[:, i]), confidence)
            for i, (value, whole) in enumerate(((line.fixed, fixed), (line.slope, slope)))
        )
        laws.append(
            PhaseLaw(
                phase=phase,
                t0_s=line.fixed, s_per_env=line.slope,
                share_of_t0=of_t0[0], share_of_t0_lower=of_t0[1], share_of_t0_upper=of_t0[2],
                share_of_slope=of_slope[0], share_of_slope_lower=of_slope[1], share_of_slope_upper=of_slope[2],
                largest_t0_certainty=float(certainty[place, 0]), largest_slope_certainty=float(certainty[place, 1]),
                largest_relative_error=errors[phase], used=errors[phase] <= affine.ERROR_LIMIT,
            )
        )  # fmt: skip
    return laws


def _of_series(series: Series, by_size: Mapping[int, Sequence[Record]], timed: int, confidence: float) -> PhaseLaws:
    """Return the laws of one series from the records with phases, among `timed` trials."""
    seconds: dict[int, list[Mapping[Phase, float]]] = {
        num_envs: [{phase: spread.median for phase, spread in (record.phases_s or {}).items()} for record in records]
        for num_envs, records in by_size.items()
    }
    ranks = Ranks.of(next(iter(by_size.values()))[0].request)
    points = [_point(num_envs, seconds[num_envs], records) for num_envs, records in by_size.items()]
    laws: list[PhaseLaw] = []
    asymptote = None
    if len(points) >= affine.LEAST_SIZES:
        laws = fit(seconds, confidence)
        slope = sum(law.s_per_env for law in laws)
        asymptote = ranks.world_size * series.horizon / slope if slope > 0.0 else None
    # An unused law may have a larger one: its t0 is at most t(N), and its c at most t(N) / N.
    first, last = points[0], points[-1]
    knee = _largest(laws, lambda law: law.s_per_env, lambda law: last.seconds[law.phase] / last.num_envs)
    wait = _largest(laws, lambda law: law.t0_s, lambda law: first.seconds[law.phase])
    return PhaseLaws(
        **series._asdict(),
        world_size=ranks.world_size,
        rank_word=ranks.word,
        points=points,
        laws=laws,
        sets_the_knee=knee.phase if knee else None,
        few_wait_for=wait.phase if wait else None,
        asymptote_fps=asymptote,
        trials=sum(map(len, by_size.values())),
        timed_trials=timed,
    )


def _point(num_envs: int, trials: Sequence[Mapping[Phase, float]], records: Sequence[Record]) -> PhasePoint:
    def mean(values: Sequence[float]) -> float:
        return statistics.geometric_mean(values) if min(values) > 0.0 else statistics.fmean(values)

    seconds = {phase: mean([trial.get(phase, 0.0) for trial in trials]) for phase in PHASES}
    whole = sum(seconds.values())
    request = records[0].request
    counted = mean(
        [rollout_size(num_envs, request.horizon) * request.world_size / fps for fps in measured_fps(records)]
    )
    return PhasePoint(
        num_envs=num_envs,
        repeats=len(trials),
        seconds=seconds,
        shares={phase: value / whole for phase, value in seconds.items()},
        share_of_total=whole / counted,
    )


def _share(
    value: float, whole: float, draws: NDArray[np.float64], confidence: float
) -> tuple[float | None, float | None, float | None]:
    return (value / whole, *affine.interval(draws, confidence)) if whole > 0.0 else (None, None, None)


def _largest(
    laws: Sequence[PhaseLaw], value_of: Callable[[PhaseLaw], float], at_most: Callable[[PhaseLaw], float]
) -> PhaseLaw | None:
    """Return the used law with the largest value, unless an unused law may have a larger one."""
    largest = max((law for law in laws if law.used), key=value_of, default=None)
    might = max((at_most(law) for law in laws if not law.used), default=0.0)
    return largest if largest is not None and value_of(largest) > might else None
