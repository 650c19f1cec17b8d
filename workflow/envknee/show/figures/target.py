"""Cost of reaching the target against num_envs, seed by seed."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from envknee.record.schema import Record
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import Look, looks_of
from envknee.verdict.card import card_of
from envknee.verdict.lead import lead_of
from envknee.verdict.learning_cost import gpus_of, seconds_of, that_ran
from envknee.verdict.schema.learning import LearningLimit, best_of
from envknee.verdict.series import Series, series_of
from envknee.words.lead import ahead_in
from envknee.words.learning import seconds_told
from envknee.words.series import series_words
from envknee.words.study import reached

DASHES = (0, (6, 3))
"""Dashes of the lines at thresholds; intervals are solid."""


def draw_target(evidence: Evidence) -> Figure:
    """Return the cost of the target against num_envs: wall seconds and, beside them, GPU-seconds.

    If each trial has one device, environment steps stand there instead.
    """
    verdict, records, _ = evidence
    limits = [limit for arm in verdict.arms for limit in arm.learning if any(point.seeds for point in limit.points)]
    if not limits:
        return canvas.in_words("Cost of the target", "No learning trial ran.", verdict)
    looks = looks_of(verdict, {limit.series for limit in limits})
    sizes = {point.num_envs for limit in limits for point in limit.points if point.seeds}
    rotates = len(sizes) > 5
    more = 0.2 if rotates else 0.0
    figure, (left, right) = canvas.panels(
        _title(limits, evidence), verdict, height=5.4 + more, columns=2, gaps=(0.75, 0.0), below=0.62 + more
    )
    # With one GPU the GPU-seconds are the wall seconds again.
    with_gpus = any(point.gpu_seconds_to_target for limit in limits for point in limit.points) and any(
        limit.world_size > 1 for limit in limits
    )
    for limit in limits:
        canvas.cost_line(left, [(p.num_envs, p.seconds_to_target) for p in limit.points], looks[limit.series])
        costs = [(p.num_envs, p.gpu_seconds_to_target if with_gpus else p.frames_to_target) for p in limit.points]
        canvas.cost_line(right, costs, looks[limit.series])
    for record in that_ran(records):
        _seed(left, record, looks, 1.0)
        if with_gpus:
            _seed(right, record, looks, float(gpus_of(record)))
    left.set_ylabel("Wall seconds of training to the target")
    right.set_ylabel("GPU-seconds to the target" if with_gpus else "Environment steps to the target")
    for axes in (left, right):
        canvas.sizes_axis(axes, sizes, canvas.num_envs_label(verdict))
        axes.tick_params(axis="x", labelrotation=45 if rotates else 0)
        canvas.costs_axis(axes)
        for limit in limits:
            if limit.threshold_num_envs is not None:
                colour = looks[limit.series].colour
                axes.axvline(limit.threshold_num_envs, color=colour, linewidth=1.3, linestyle=DASHES, zorder=1)
    keys = [
        canvas.key(f"interquartile mean of\nseeds, {verdict.confidence:.0%} interval"),
        canvas.key("one seed", size=3.2),
    ]
    if any(point.seeds > point.reached for limit in limits for point in limit.points):
        keys.append(canvas.key("a seed that did not reach\nit: more than this", "^", hollow=True))
    if any(limit.threshold_num_envs is not None for limit in limits):
        keys.append(canvas.line_key("doubling stops saving", width=1.3, linestyle=DASHES))
    canvas.series_legend(right, looks.values(), keys)
    return figure


def _seed(axes: Axes, record: Record, looks: dict[Series, Look], devices: float) -> None:
    """Draw a trial, if it is a learning trial of one of the series."""
    look, seconds = looks.get(series_of(record)), seconds_of([record])
    if record.request.kind != "learning" or look is None:
        return
    x = record.request.num_envs * look.dodge
    for value in seconds.reached:
        axes.plot(x, value * devices, look.marker, color=look.colour, markersize=3.2, alpha=0.55)
    for value in seconds.censored:
        axes.plot(x, value * devices, "^", color=look.colour, markersize=4.5, markerfacecolor="white")


def _title(limits: Sequence[LearningLimit], evidence: Evidence) -> str:
    verdict, records, _ = evidence
    arms, settings = {limit.arm for limit in limits}, {limit.series[1:] for limit in limits}

    def of(limit: LearningLimit) -> str:
        parts = [limit.arm] * (len(arms) > 1) + [series_words(limit.series)] * (len(settings) > 1)
        return f" ({', '.join(parts)})" if parts else ""

    soonest = f"No point reached the target with every seed ({reached(limits)} did)"
    if found := best_of(limits):
        limit, best = found
        soonest = f"{best.num_envs:,} environments{of(limit)} reach the target soonest: {seconds_told(best)}"
    soonest = ahead_in(lead_of(verdict, card_of(verdict, records)), "learning") or soonest
    thresholds = [
        f"{limit.threshold_num_envs:,}{of(limit)}" for limit in limits if limit.threshold_num_envs is not None
    ]
    said = "No limit is decided" if any(limit.gains for limit in limits) else "No doubling was measured"
    if thresholds:
        said = f"Doubling saves less than {limits[0].delta:.0%} of the time from {', '.join(thresholds)} on"
    return f"{soonest}\n{said}; {reached(limits)} got there"
