"""Progress in a line: of a study (trials done of planned, the latest result, time left), or of a trial that runs. Pure."""

import math
from collections.abc import Sequence

from envknee.record.schema import Record, Request, Row
from envknee.verdict.schema.foresight import Foresight, KneeForesight
from envknee.verdict.schema.plan import KindTime
from envknee.verdict.series import Ranks
from envknee.words.ranks import ranks_words
from envknee.words.statuses import STATUS_WORDS


def trial_words(request: Request) -> str:
    """Return a trial's parameters in a few words: `throughput stock · 64 envs x 2 GPUs · T16 · B256 · repeat 1`."""
    if request.skip is not None:
        return f"{request.kind} {request.arm} · repeat {request.repeat + 1}"
    batch = "B library" if request.batch_size is None else f"B{request.batch_size}"
    envs = f"{request.num_envs} envs" + (f" x {ranks_words(Ranks.of(request))}" if request.world_size > 1 else "")
    drill = " · DRILL" if request.inject else ""
    fresh = " · fresh" if request.confirms else ""
    return f"{request.kind} {request.arm} · {envs} · T{request.horizon} · {batch} · repeat {request.repeat + 1}{fresh}{drill}"


def starting_words(elapsed_s: float, compiles: bool, newest: str | None) -> str:
    """Return how long a trial without a row has been starting, whether it compiles, and the `newest` line that it printed."""
    doing = "compiling kernels" if compiles else "starting"
    said = "it has printed nothing" if newest is None else f"newest line: {newest}"
    return f"{doing}, {elapsed_s:.0f} s since its start; {said}"


def running_words(request: Request, row: Row, elapsed_s: float) -> str:
    """Return what a running trial does: the iteration of its newest `row`."""
    reward = "" if row.reward_mean is None else f", reward {row.reward_mean:.2f}"
    if request.iterations is not None:
        number, wanted = row.iteration + 1, request.untimed_iterations + request.iterations
        position = f"iteration {number}" if number > wanted else f"iteration {number} of {wanted}"
    else:
        position = f"{row.wall_s:.0f} of {request.budget_s:.0f} s"
    fps = "" if row.fps_total is None else f", {row.fps_total:,.0f} FPS"
    return f"{position}{fps}{reward}"


def finished_line(
    record: Record,
    done: int,
    planned: int,
    left: Sequence[KindTime],
    alike: int = 1,
    gain: float | None = None,
    foresight: Foresight | KneeForesight | None = None,
) -> str:
    """Return the line for a finished trial: `[ 7/27] throughput stock · ... → measured: 1,432 FPS, 0.90 GB, 9 s; 3 to 5 min left`.

    At most `planned` trials are measured; `left` is the time of those to come. `alike` successive trials, this one the last, were skipped
    for one reason. `gain` is that in FPS over half as many environments, `foresight` a prediction of the next doubling's, or of the knee.
    """
    later = [foresight and predicted(foresight), time_left_words(left)]
    trials = f" · {alike} trials" if alike > 1 else ""
    return (
        f"[{done:>{len(str(planned))}}/{planned}] {trial_words(record.request)}{trials} →"
        f" {'; '.join(filter(None, [result_words(record, gain), *later]))}"
    )


def predicted(foresight: Foresight | KneeForesight) -> str:
    """Return `predicted: 32,768 would gain 9% (4% to 15%)`, or of a knee `predicted: the knee is near 8,192 (1,024 to 65,536)`."""
    if isinstance(foresight, KneeForesight):
        if foresight.in_proportion:
            return f"predicted: the knee is at {foresight.lower:,} or above"
        return f"predicted: the knee is near {foresight.num_envs:,} ({foresight.lower:,} to {foresight.upper:,})"
    interval = f"{round(foresight.lower, 2) + 0.0:.0%} to {foresight.upper:.0%}"  # never "-0%"
    return f"predicted: {foresight.num_envs:,} would gain {foresight.gain:.0%} ({interval})"


def result_words(record: Record, gain: float | None = None) -> str:
    """Return the result of a trial: `measured: 1,432 FPS, 0.90 GB, 9 s`; with a `gain`, `1,432 FPS (+38% over half as many envs)`."""
    if record.outcome.status == "skipped":
        return f"{STATUS_WORDS['skipped']}: {record.outcome.reason}"
    parts = []
    if record.fps_total is not None:
        over_half = "" if gain is None else f" ({gain:+.0%} over half as many envs)"
        parts.append(f"{record.fps_total.median:,.0f} FPS{over_half}")
    if record.seconds_to_target is not None:
        parts.append(f"target in {record.seconds_to_target:.1f} s")
    elif record.best_reward is not None:
        parts.append(f"best reward {record.best_reward:.2f}")
    if record.memory_peak_gb is not None:
        parts.append(f"{record.memory_peak_gb:.2f} GB")
    parts.append(f"{record.outcome.total_s:.0f} s{_parts_of_time(record)}")
    return f"{STATUS_WORDS[record.outcome.status]}: {', '.join(parts)}"


def _parts_of_time(record: Record) -> str:
    """Return ` (start 24 s, of which compiling 11 s; timed 4 s)` of a foreign command's throughput trial; "" of any other."""
    request, outcome, timed = record.request, record.outcome, record.fps_total
    is_known = request.command is not None and request.kind == "throughput"
    if not is_known or outcome.setup_s is None or timed is None:
        return ""
    # Some programs log a row after several rollouts.
    row_transitions = record.frames / (request.untimed_iterations + timed.iterations)
    timed_s = timed.iterations * row_transitions / timed.median
    compiling = "" if outcome.compile_s is None else f", of which compiling {_seconds(outcome.compile_s)}"
    return f" (start {_seconds(outcome.setup_s)}{compiling}; timed {_seconds(timed_s)})"


def _seconds(seconds: float) -> str:
    """Return `4.1 s`, or `24 s`."""
    return f"{seconds:.1f} s" if seconds < 10.0 else f"{seconds:.0f} s"


def time_left_words(left: Sequence[KindTime]) -> str:
    """Return `2 to 5 min left`, or with several kinds `left: throughput 2 to 5 min, learning not timed yet`; "" if nothing is known."""
    known = [of_kind for of_kind in left if of_kind.most_s is not None]
    if not known:
        return ""
    if len(left) == 1:
        return f"{seconds_range(left[0].least_s, left[0].most_s)} left"
    each = (f"{of_kind.kind} {seconds_range(of_kind.least_s, of_kind.most_s)}" for of_kind in left)
    return f"left: {', '.join(each)}"


def seconds_range(least_s: float | None, most_s: float | None) -> str:
    """Return a range of seconds in whole units: `2 to 5 min`, `about 40 s`, `up to 1.5 h`, or `not timed yet`."""
    if least_s is None or most_s is None:
        return "not timed yet"
    step_s, unit_s, unit = _steps(most_s)
    least = math.floor(least_s / step_s) * step_s / unit_s
    most = math.ceil(most_s / step_s) * step_s / unit_s
    if least == most:
        return f"about {most:g} {unit}"
    return f"{least:g} to {most:g} {unit}" if least else f"up to {most:g} {unit}"


def _steps(seconds: float) -> tuple[float, float, str]:
    """Return the seconds to which a duration is rounded, those of its unit, and the unit's name."""
    if seconds < 90.0:
        return 10.0, 1.0, "s"
    if seconds < 5400.0:
        return 60.0, 60.0, "min"
    return 360.0, 3600.0, "h"
