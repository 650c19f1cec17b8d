"""The statistical power of a study's throughput trials, from its plan and the noise to expect. Pure."""

import math

from envknee.study import space
from envknee.study.model import Study
from envknee.verdict.noise import CPU_CV, assumed_cv
from envknee.verdict.power import ENOUGH, MOST_REPEATS, enough_repeats, power
from envknee.verdict.rule.union import LEAST_REPEATS

PUBLISHED_HALF = 664.0
"""num_envs at which half of an iteration's time is fixed: from results-published/cartpole-one-gpu-full, horizon 64."""


def of_study(study: Study, on_gpu: bool, measured: float | None = None) -> str | None:
    """Return the power of a study's throughput trials in words; None without such trials.

    `measured` is the coefficient of variation between processes in earlier studies on this machine (`noise.measured_cv`).
    """
    sweep = study.throughput
    if sweep is None:
        return None
    largest = max(space.axes(sweep)[0])
    if measured is not None:
        cv, source = measured, "from earlier studies of this machine"
    elif on_gpu:
        cv = math.hypot(*(assumed_cv(size, PUBLISHED_HALF) for size in (largest / 2, largest))) / math.sqrt(2.0)
        source = "from published GPU studies"
    else:
        cv, source = CPU_CV, "from published CPU studies"
    settings = study.decide
    # The largest sizes end the last part of a repeat (`ask.ask`).
    points = space.points_asked(sweep, study.world_sizes)
    both_share = largest / 2 >= (sweep.fresh_below or 0)
    paired = sweep.block != 1 and space.chunk_sizes(points, sweep.block)[-1] > 1 and both_share
    repeats = sweep.all_repeats
    shown = power(repeats, cv, settings.delta, settings.confidence, paired)
    if repeats < LEAST_REPEATS:
        few = "1 repeat decides" if repeats == 1 else f"{repeats} repeats decide"
        first = f"Power: {few} nothing, {LEAST_REPEATS} are the least."
    else:
        first = f"Power: with {repeats} repeats a plateau is shown in {shown:.0%} of such studies."
    more = ""
    if shown < ENOUGH:
        enough = enough_repeats(cv, settings.delta, settings.confidence, paired) or f"over {MOST_REPEATS}"
        more = f" {enough} repeats would show it in {ENOUGH:.0%}."
    pairs = "; sizes compared within each process" if paired else ""
    return f"{first}{more} (cut-off {settings.delta:.0%}; noise between processes {cv:.1%}, {source}{pairs})"
