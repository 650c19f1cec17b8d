"""The statistical power of a study's throughput trials, from its plan and the noise to expect. Pure."""

import math

from envknee.decide.settings import schedule_of
from envknee.study import space
from envknee.study.model import Study
from envknee.study.sweep import Throughput
from envknee.verdict.noise import CPU_CV, assumed_cv
from envknee.verdict.power import enough_repeats, power
from envknee.verdict.rule.schedule import LEAST_REPEATS
from envknee.verdict.schema.plan import NoiseSource, Power

PUBLISHED_HALF = 664.0
"""num_envs at which half of an iteration's time is fixed: from results-published/cartpole-one-gpu-full, horizon 64."""


def of_study(study: Study, on_gpu: bool, measured: float | None = None) -> Power | None:
    """Return the power of a study's throughput trials; None without such trials, and for a joint search, which repeats no size.

    `measured` is the coefficient of variation between processes in earlier studies on this machine (`noise.measured_cv`).
    """
    sweep = study.throughput
    if sweep is None or sweep.is_joint:
        return None
    largest = max(space.axes(sweep)[0])
    cv, source = _noise(largest, on_gpu, measured)
    delta, confidence = study.decide.delta, study.decide.confidence
    paired = _is_paired(study, sweep, largest)
    schedule = schedule_of(sweep)
    return Power(
        repeats=sweep.all_repeats,
        least_repeats=LEAST_REPEATS,
        plateau_shown=power(sweep.all_repeats, cv, delta, confidence, paired, schedule),
        enough_repeats=enough_repeats(cv, delta, confidence, paired, schedule.when),
        delta=delta,
        cv=cv,
        noise_source=source,
        paired=paired,
    )


def _noise(largest: int, on_gpu: bool, measured: float | None) -> tuple[float, NoiseSource]:
    """Return the coefficient of variation of the two largest sizes, and where it was measured."""
    if measured:  # 0: FPS so rounded that all repeats are equal tell nothing
        return measured, "this machine"
    if not on_gpu:
        return CPU_CV, "published CPU studies"
    both = (assumed_cv(size, PUBLISHED_HALF) for size in (largest / 2, largest))
    return math.hypot(*both) / math.sqrt(2.0), "published GPU studies"


def _is_paired(study: Study, sweep: Throughput, largest: int) -> bool:
    """Tell whether each process measures both ends of the last doubling: the largest sizes end the last part of a repeat (`ask.ask`)."""
    points = space.points_asked(sweep, study.world_sizes)
    both_share = largest / 2 >= (sweep.fresh_below or 0)
    return sweep.block != 1 and space.chunk_sizes(points, sweep.block)[-1] > 1 and both_share
