"""FPS against num_envs with every repeat, and below the gain of each doubling."""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.show.charts.model import Curves, Fill, Level, Line, Mark, Panel, TrialMark
from envknee.show.charts.series import line_of, thresholds_of
from envknee.show.figures import canvas
from envknee.show.figures.style import Look, looks_of
from envknee.verdict.schema.study import Verdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import series_of
from envknee.words.charts import fps_lines, gain_lines, no_fps

FILLS: dict[str, Fill] = {"pays": "half", "stopped": "full", "undecided": "none"}
"""How far the mark of a doubling is filled, by what is shown of it."""


def chart_throughput(verdict: Verdict, records: Sequence[Record]) -> Curves | None:
    """Return the chart; None without a measured point."""
    limits = [limit for arm in verdict.arms for limit in arm.throughput if limit.points]
    if not limits:
        return None
    looks_by_series = looks_of(verdict, {limit.series for limit in limits})
    label = canvas.num_envs_label(verdict)
    shown = [(limit, looks_by_series[limit.series]) for limit in limits]
    thresholds = thresholds_of(shown)
    fps = Panel(
        x_label=label,
        y_label="FPS",
        y_scale="log",
        lines=[_fps(limit, look, records) for limit, look in shown],
        at_x=[*thresholds, *_did_not_run(shown)],
    )
    gains = Panel(
        x_label=label,
        y_label="FPS gained by doubling",
        y_scale="share",
        lines=[_gains(limit, look, verdict) for limit, look in shown if limit.gains],
        at_x=thresholds,
        at_y=[Level(value=verdict.delta, label=f"cut-off {verdict.delta:.0%}")],
    )
    return Curves(panels=[fps, gains] if gains.lines else [fps])


def _did_not_run(shown: Sequence[tuple[ThroughputLimit, Look]]) -> list[Level]:
    """Return the sizes at which no repeat ran: a result, and no gap."""
    return [
        Level(value=point.num_envs * look.dodge, label=no_fps(point), colour=look.colour, arm=limit.arm)
        for limit, look in shown
        for point in limit.infeasible
    ]


def _fps(limit: ThroughputLimit, look: Look, records: Sequence[Record]) -> Line:
    own = [record for record in records if record.request.kind == "throughput" and series_of(record) == limit.series]
    sizes = [point.num_envs for point in limit.points]
    law, transitions = limit.law, limit.world_size * limit.horizon
    return line_of(
        limit.series,
        look,
        marks=[
            Mark(
                x=point.num_envs, y=point.fps, low=point.fps_lower, high=point.fps_upper,
                fill="none" if point.composed else "full", said=fps_lines(look.name, point, limit.confidence),
            )
            for point in limit.points
        ],
        trials=[
            TrialMark(record.request.num_envs, record.fps_total.median, record.request.number, False)
            for record in own
            if record.fps_total is not None
        ],
        law=[(size, size * transitions / (law.t0_s + law.s_per_env * size)) for size in canvas.densely(sizes)]
        if law is not None and law.used
        else [],
    )  # fmt: skip


def _gains(limit: ThroughputLimit, look: Look, verdict: Verdict) -> Line:
    return line_of(
        limit.series,
        look,
        joins=False,
        marks=[
            Mark(
                x=gain.num_envs * look.dodge, y=gain.gain, low=gain.gain_lower, high=gain.gain_upper,
                fill=FILLS[gain.shown(verdict.delta)], said=gain_lines(look.name, gain, verdict.delta, limit.confidence),
            )
            for gain in limit.gains
        ],
    )  # fmt: skip
