"""Seconds and environment steps to the target against num_envs, with every seed."""

from collections.abc import Callable, Sequence

from envknee.record.schema import Record
from envknee.show.charts.model import Curves, Line, Mark, Panel, TrialMark
from envknee.show.charts.series import line_of, thresholds_of
from envknee.show.figures import canvas
from envknee.show.figures.style import Look, looks_of
from envknee.verdict.learning_cost import seconds_of, that_ran
from envknee.verdict.schema.learning import Cost, LearningLimit, LearningPoint
from envknee.verdict.schema.study import Verdict
from envknee.verdict.series import series_of
from envknee.words.charts import cost_lines

CostOf = Callable[[LearningPoint], Cost | None]


def chart_target(verdict: Verdict, records: Sequence[Record]) -> Curves | None:
    """Return the chart; None without a learning trial that ran."""
    limits = [limit for arm in verdict.arms for limit in arm.learning if any(point.seeds for point in limit.points)]
    if not limits:
        return None
    looks_by_series = looks_of(verdict, {limit.series for limit in limits})
    shown = [(limit, looks_by_series[limit.series]) for limit in limits]
    learned = [record for record in that_ran(records) if record.request.kind == "learning"]
    thresholds = thresholds_of(shown)
    label = canvas.num_envs_label(verdict)

    def panel(y_label: str, unit: str, cost_of: CostOf, seeds: Sequence[Record]) -> Panel:
        return Panel(
            x_label=label, y_label=y_label, y_scale="log", at_x=thresholds,
            lines=[_line(limit, look, unit, cost_of, seeds) for limit, look in shown],
        )  # fmt: skip

    return Curves(
        panels=[
            panel("Wall seconds to the target", "s", lambda point: point.seconds_to_target, learned),
            # A seed's own environment steps say little beside its seconds.
            panel("Environment steps to the target", "environment steps", lambda point: point.frames_to_target, []),
        ]
    )


def _line(limit: LearningLimit, look: Look, unit: str, cost_of: CostOf, seeds: Sequence[Record]) -> Line:
    known = [(point, cost) for point in limit.points if (cost := cost_of(point)) is not None]
    return line_of(
        limit.series,
        look,
        marks=[
            Mark(
                x=point.num_envs * look.dodge, y=cost.value, low=cost.interval_lower, high=cost.interval_upper,
                is_bound=cost.lower_bound, said=cost_lines(look.name, point, cost, unit, limit.confidence),
            )
            for point, cost in known
        ],
        trials=[
            mark for record in seeds if series_of(record) == limit.series for mark in _seed(record, look)
        ],
    )  # fmt: skip


def _seed(record: Record, look: Look) -> list[TrialMark]:
    """Return the seconds of a trial, if it tells any."""
    seconds, x, number = seconds_of([record]), record.request.num_envs * look.dodge, record.request.number
    reached = [TrialMark(x, float(value), number, False) for value in seconds.reached]
    return reached + [TrialMark(x, float(value), number, True) for value in seconds.censored]
