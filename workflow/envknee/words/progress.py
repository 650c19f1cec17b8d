"""Progress in a line: of a study (trials done of planned, the latest result, time left), or of a trial that runs. Pure."""

from envknee.record.schema import Record, Request, Row
from envknee.verdict.series import Ranks
from envknee.words.ranks import ranks_words


def trial_words(request: Request) -> str:
    """Return a trial's parameters in a few words: `throughput stock · 64 envs x 2 GPUs · T16 · B256 · repeat 1`."""
    if request.skip is not None:
        return f"{request.kind} {request.arm} · repeat {request.repeat + 1}"
    batch = "B library" if request.batch_size is None else f"B{request.batch_size}"
    envs = f"{request.num_envs} envs" + (f" x {ranks_words(Ranks.of(request))}" if request.world_size > 1 else "")
    drill = " · DRILL" if request.inject else ""
    fresh = " · fresh" if request.confirms else ""
    return f"{request.kind} {request.arm} · {envs} · T{request.horizon} · {batch} · repeat {request.repeat + 1}{fresh}{drill}"


def running_words(request: Request, row: Row | None, elapsed_s: float) -> str:
    """Return what a running trial does: starting, or the iteration of its newest `row`."""
    if row is None:
        return f"starting, {elapsed_s:.0f} s"
    reward = "" if row.reward_mean is None else f", reward {row.reward_mean:.2f}"
    if request.iterations is not None:
        number, wanted = row.iteration + 1, request.untimed_iterations + request.iterations
        position = f"iteration {number}" if number > wanted else f"iteration {number} of {wanted}"
    else:
        position = f"{row.wall_s:.0f} of {request.budget_s:.0f} s"
    fps = "" if row.fps_total is None else f", {row.fps_total:,.0f} FPS"
    return f"{position}{fps}{reward}"


def finished_line(record: Record, done: int, planned: int, left_s: float | None, alike: int = 1) -> str:
    """Return the line for a finished trial: `[ 7/27] throughput stock · ... → ok: 1,432 FPS, 0.90 GB, 9 s; about 4 min left`.

    At most `planned` trials are measured, in `left_s` more seconds. `alike` successive trials, this one the last, were skipped for one
    reason.
    """
    left = "" if left_s is None or done >= planned else f"; {time_left_words(left_s)}"
    trials = f" · {alike} trials" if alike > 1 else ""
    return (
        f"[{done:>{len(str(planned))}}/{planned}] {trial_words(record.request)}{trials} → {result_words(record)}{left}"
    )


def result_words(record: Record) -> str:
    """Return the result of a trial: `ok: 1,432 FPS, 0.90 GB, 9 s`."""
    if record.outcome.status == "skipped":
        return f"skipped: {record.outcome.reason}"
    parts = []
    if record.fps_total is not None:
        parts.append(f"{record.fps_total.median:,.0f} FPS")
    if record.seconds_to_target is not None:
        parts.append(f"target in {record.seconds_to_target:.1f} s")
    elif record.best_reward is not None:
        parts.append(f"best reward {record.best_reward:.2f}")
    if record.memory_peak_gb is not None:
        parts.append(f"{record.memory_peak_gb:.2f} GB")
    parts.append(f"{record.outcome.total_s:.0f} s")
    return f"{record.outcome.status}: {', '.join(parts)}"


def time_left_words(seconds: float) -> str:
    """Return a duration with little precision: `about 4 min left`."""
    if seconds < 90:
        return f"about {round(seconds / 10) * 10:.0f} s left"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min left"
    return f"about {seconds / 3600:.1f} h left"
