"""Confirmed settings by their fresh seeds: means, intervals and seeds, with the cut-off."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETLEFT, CARETRIGHT

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.answers import Answered, answered, cost_ticks, names, panel_name, titled
from envknee.show.figures.style import COLOURS, DASHED, GREY, INK
from envknee.verdict.schema.joint import ConfirmedSetting
from envknee.words.joint import FIRST
from envknee.words.joint_costs import cost_words, interval_words, level_words, short_setting

COLOUR = COLOURS[0]

LEFT_IN = 1.5
"""Room for names of settings, inches."""

USEFUL = 4.0
"""The largest bound of how much worse a setting is that is worth saying, as a share."""


def draw_forest(evidence: Evidence) -> Figure:
    """Return a panel for each answer with a row for each confirmed setting, the best one on top."""
    verdict = evidence.verdict
    shown = [own for own in answered(evidence) if own.answer.confirmed]
    if not shown:
        return canvas.in_words("Confirmed settings", "No fresh seed has run yet.", verdict)
    rows = [max(2, len(own.answer.confirmed)) for own in shown]
    figure, panels = canvas.panels(
        titled(shown, [_found(own) for own in shown], "Confirmed settings by their fresh seeds"), verdict,
        height=max(1.6 + 0.4 * sum(rows) + 0.8 * (len(rows) - 1), 4.4),
        ratios=tuple(map(float, rows)), share=False, gaps=(0.0, 0.8),
    )  # fmt: skip
    figure.subplots_adjust(left=LEFT_IN / canvas.WIDTH_IN)
    for axes, own, name in zip(panels, shown, names(shown), strict=True):
        _panel(axes, own)
        panel_name(axes, name)
    canvas.legend(panels[0], _keys(shown))
    return figure


def _panel(axes: Axes, own: Answered) -> None:
    answer = own.answer
    for place, setting in enumerate(answer.confirmed):
        _seeds(axes, own, setting, place)
        _mean(axes, own, setting, place)
        said = ", ".join(part for part in (_roles(own, place), _bound(setting)) if part)
        axes.annotate(
            said, (0.995, place - 0.36), xycoords=("axes fraction", "data"), ha="right", va="center", fontsize=7.5,
            color=INK, zorder=5, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
        )  # fmt: skip
    if answer.soonest is not None and (best := answer.confirmed[answer.soonest].cost) is not None:
        axes.axvline(own.value(best * (1.0 + answer.delta)), color=INK, linewidth=1.0, linestyle=DASHED, zorder=1)
    axes.set_yticks(range(len(answer.confirmed)), [short_setting(setting) for setting in answer.confirmed], fontsize=8)
    axes.set_ylim(max(2, len(answer.confirmed)) - 0.5, -0.7)
    axes.set_xscale("log")
    cost_ticks(axes.xaxis, *axes.get_xlim())
    axes.set_xlabel(own.quantity)


def _mean(axes: Axes, own: Answered, setting: ConfirmedSetting, place: int) -> None:
    """Draw a mean with its interval, which is drawn to a factor of `canvas.WIDEST` at most; a caret says that it goes on."""
    if setting.cost is None:
        return
    value = own.value(setting.cost)
    if setting.cost_lower is not None and setting.cost_upper is not None:
        ends = own.ends(setting.cost_lower, setting.cost_upper)
        drawn = max(ends[0], value / canvas.WIDEST), min(ends[1], value * canvas.WIDEST)
        axes.plot(drawn, [place] * 2, color=COLOUR, linewidth=1.8)
        for end, at, caret in zip(ends, drawn, (CARETLEFT, CARETRIGHT), strict=True):
            if end != at:
                axes.plot(at, place, color=COLOUR, marker=caret, markersize=6)
    face = COLOUR if setting.may_be_best else "white"
    axes.plot(value, place, "D", color=COLOUR, markersize=6.5, markerfacecolor=face, zorder=4)


def _seeds(axes: Axes, own: Answered, setting: ConfirmedSetting, place: int) -> None:
    for record, cost in own.trials:
        point = record.request.point
        of_setting = (point.num_envs, point.horizon, point.batch_size) == (
            setting.num_envs,
            setting.horizon,
            setting.batch_size,
        )
        if record.request.confirms and of_setting:
            marker, face = (">", "white") if cost.is_censored else ("o", GREY)
            axes.plot(
                own.value(cost.cost), place + 0.22, marker, color=GREY, markersize=3.4, markerfacecolor=face, alpha=0.8,
                zorder=3,
            )  # fmt: skip


def _bound(setting: ConfirmedSetting) -> str:
    if setting.lost:
        return f"{setting.lost} did not run"
    if setting.most_slower is None:
        return f"{setting.reached} of {setting.seeds} seeds arrived" if setting.reached < setting.seeds else ""
    if setting.most_slower == 0.0:
        return "shown to be the best"
    return (
        f"at most {math.ceil(100 * setting.most_slower)}% worse" if setting.most_slower <= USEFUL else "no useful bound"
    )


def _roles(own: Answered, place: int) -> str:
    answer = own.answer
    roles = {
        FIRST[answer.kind]: answer.soonest,
        "fewest environments": answer.fewest_environments,
        "least memory": answer.least_memory,
        "fewest GPU-seconds": answer.fewest_gpu_seconds,
    }
    return ", ".join(role for role, at in roles.items() if at == place)


def _keys(shown: Sequence[Answered]) -> list[Line2D]:
    answer, settings = shown[0].answer, [setting for own in shown for setting in own.answer.confirmed]
    keys = [canvas.key("mean of fresh seeds: no other\nsetting is shown to be better", "D", COLOUR)]
    if any(not setting.may_be_best for setting in settings):
        keys.append(canvas.key("another is shown to be better", "D", COLOUR, hollow=True))
    if any(setting.cost_lower is not None for setting in settings):
        keys.append(
            canvas.line_key(
                f"{level_words(answer.error_of_claim)} interval that holds\nfor all settings at once", COLOUR, 1.8
            )
        )
    if any(own.answer.state == "confirming" for own in shown):
        keys.append(canvas.note("intervals follow once the\nplanned seeds have ended"))
    keys.append(canvas.key("one seed", size=3.4))
    if any(cost.is_censored and record.request.confirms for own in shown for record, cost in own.trials):
        keys.append(canvas.key("a seed that did not reach\nthe target: more than this", ">", hollow=True, size=4))
    if any(own.answer.soonest is not None for own in shown):
        keys.append(canvas.line_key(f"cut-off: {answer.delta:.0%} worse than\nthe best mean", INK, linestyle=DASHED))
    keys.append(canvas.note("row: num_envs × horizon\n× batch"))
    if any(setting.most_slower is not None for setting in settings):
        keys.append(canvas.note("worse: against the best\nother confirmed setting"))
    return keys


def _found(own: Answered) -> str:
    answer = own.answer
    if answer.soonest is None:
        if answer.state == "confirming":
            return "fresh seeds are under way: no setting is named yet"
        return "no setting can be named: too few fresh seeds tell its cost"
    best = answer.confirmed[answer.soonest]
    assert best.cost is not None and best.cost_lower is not None and best.cost_upper is not None
    interval = interval_words(answer.kind, best.cost_lower, best.cost_upper)
    return f"{FIRST[answer.kind]}: {short_setting(best)}, {cost_words(answer.kind, best.cost)} ({interval})"
