"""A study in a line: progress, hardware, and what its arms share. Pure."""

from collections.abc import Iterable

from envknee.verdict.schema.learning import LearningLimit
from envknee.verdict.schema.study import Verdict
from envknee.words.numbers import counted, listed
from envknee.words.series import series_words
from envknee.words.statuses import STATUS_WORDS


def progress(verdict: Verdict) -> str:
    """Return the number of trials, and how those that were measured ended."""
    statuses = verdict.statuses_of_measured.items()
    ended = ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in statuses) or "none yet"
    return f"{trials_done(verdict)}: {ended}"


def trials_done(verdict: Verdict) -> str:
    """Return `113 trials done, 7 not needed`, or `66 of 135 trials done`."""
    return done_words(verdict.trials_measured, verdict.trials_left, verdict.trials_planned, verdict.trials_not_needed)


def trials_done_briefly(verdict: Verdict) -> str:
    """Return `113 trials done`, without those that were not needed, for a title."""
    return done_words(verdict.trials_measured, verdict.trials_left, verdict.trials_planned)


def done_words(done: int, left: int, planned: int, not_needed: int = 0) -> str:
    """Return how many trials are done, of how many that are needed, and how many are not."""
    trials = f"{done} of {counted(planned, 'trial')} done" if left else f"{counted(done, 'trial')} done"
    return f"{trials}, {not_needed} not needed" if not_needed else trials


def crashed_lines(verdict: Verdict) -> list[str]:
    """Return the sizes that crashed, with the line of the log that says why: `32 crashed: ...`."""
    several = len({crashed.arm for crashed in verdict.crashed}) > 1
    return [
        f"{f'{crashed.arm}: ' * several}{listed(crashed.num_envs)} crashed: `{crashed.line}`"
        for crashed in verdict.crashed
    ]


def hardware_of(verdict: Verdict) -> list[str]:
    """Return the hardware of all trials, each once."""
    return sorted({device for arm in verdict.arms for device in arm.hardware})


def task_and_hardware(verdict: Verdict) -> str:
    """Return the line below a title: task, hardware, shared horizon and batch size, and study."""
    hardware = hardware_of(verdict) or ["hardware unknown: nothing ran"]
    known = [verdict.drill, verdict.task_id, *hardware, shared_series(verdict), f"study {verdict.study}"]
    return " · ".join(word for word in known if word)


def shared_series(verdict: Verdict) -> str | None:
    """Return horizon and batch size if several arms have the same: a figure names them once, below its title."""
    series = {series_words(limit.series) for arm in verdict.arms for limit in arm.throughput}
    series |= {
        f"{series_words(limit.series)}"
        + (f" at {limit.scaled_from.num_envs:,} environments" if limit.scaled_from else "")
        for arm in verdict.arms
        for limit in arm.learning
    }
    return series.pop() if len(series) == 1 and len(verdict.arms) > 1 else None


def reached(limits: Iterable[LearningLimit]) -> str:
    """Return `3 of 5 trials`: how many of those that could reached the target."""
    points = [point for limit in limits for point in limit.points]
    return f"{sum(point.reached for point in points)} of {sum(point.trials for point in points)} trials"
