"""Phrases and tables that figures, report and terminal share. Pure: they repeat a verdict."""

from collections.abc import Iterable

from envknee.verdict.schema.learning import Cost, LearningLimit, Rules
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.words.intervals import with_interval
from envknee.words.shared import shared_series
from envknee.words.tables import Table

STATUS_WORDS = {
    "ok": "measured",
    "target_reached": "target reached",
    "timeout": "budget spent first",
    "oom": "out of memory",
    "refused": "refused: cannot fit",
    "nan": "NaN",
    "diverged": "diverged",
    "invalid": "invalid: fast but wrong",
    "skipped": "not needed",
}


def progress(verdict: Verdict) -> str:
    """Return the number of trials, and their statuses."""
    statuses = ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in verdict.statuses.items()) or "none yet"
    return f"{verdict.trials_measured} of {verdict.trials_planned} trials: {statuses}"


def hardware_of(verdict: Verdict) -> list[str]:
    """Return the hardware of all trials, each once."""
    return sorted({device for arm in verdict.arms for device in arm.hardware})


def task_and_hardware(verdict: Verdict) -> str:
    """Return the line below a title: task, hardware, shared horizon and batch size, and study."""
    hardware = hardware_of(verdict) or ["hardware unknown: nothing ran"]
    known = [verdict.drill, verdict.task_id, *hardware, shared_series(verdict), f"study {verdict.study}"]
    return " · ".join(word for word in known if word)


def recommended(arm: ArmVerdict) -> ThroughputLimit | None:
    """Return the limit of the recommended series; None if no throughput trial was timed to its end."""
    wanted = arm.headline and arm.headline.series._replace(arm=arm.arm)
    return next((limit for limit in arm.throughput if limit.series == wanted), None)


def reached(limits: Iterable[LearningLimit]) -> str:
    """Return `3 of 5 trials`: how many of those that could reached the target."""
    points = [point for limit in limits for point in limit.points]
    return f"{sum(point.reached for point in points)} of {sum(point.trials for point in points)} trials"


def rules_table(rules: Rules) -> Table:
    """Return the values of each rule at each size, and the cost of the target there."""
    columns = (
        "rule", "environments", "horizon", "batch", "learning rate", "reached", "seconds to target", "GPU-seconds", "frames",
        "s per million frames",
    )  # fmt: skip
    rows = [
        (
            rule.arm, f"{point.num_envs:,}", f"{point.horizon}", "library" if point.batch_size is None else f"{point.batch_size:,}",
            "the task's" if point.learning_rate is None else f"{point.learning_rate:.3g}", f"{point.reached} of {point.seeds}",
            _cost(point.seconds_to_target, 1), _cost(point.gpu_seconds_to_target, 1), _cost(point.frames_to_target, 0),
            "" if point.seconds_per_million_frames is None else f"{point.seconds_per_million_frames:,.2f}",
        )
        for rule in rules.rules
        for point in rule.points
    ]  # fmt: skip
    return Table("Rules side by side", columns, rows)


def _cost(cost: Cost | None, decimals: int) -> str:
    """Return `12.3 (11.0 to 13.7)`, or `over 12.3` for a lower bound."""
    if cost is None:
        return ""
    if cost.lower_bound:
        return f"over {cost.value:,.{decimals}f}"
    return with_interval(cost.value, cost.interval_lower, cost.interval_upper, decimals)
