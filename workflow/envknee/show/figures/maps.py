"""Maps of cost over num_envs and batch size, one for each horizon."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.answers import (
    Answered,
    answered,
    names,
    reach,
    scale,
    scale_steps,
    titled,
    why_nothing,
    with_shape,
)
from envknee.show.figures.style import INK, wrapped
from envknee.verdict.schema.joint import ExpectedSetting, JointShape, Setting
from envknee.words.likeness import plan_words, planned_from, steps_of
from envknee.words.numbers import counted

LIKELY = "#E69F00"
WORST = 4.0
"""Times the least cost at which the colours end at the latest."""

COLUMNS = 2
MOST_NUMBERED = 8
"""Values of an axis up to which a cell has room for its number."""


def draw_maps(evidence: Evidence) -> Figure:
    """Return a map for each answer and horizon: expected cost, trials, and the settings that may be the best."""
    verdict, shown = evidence.verdict, answered(evidence)
    told = with_shape(shown)
    if not told:
        return canvas.in_words("Maps", why_nothing(shown), verdict)
    name_of = {
        id(own): f"{name or own.arm.arm}, planned" if own.plan is not None else name
        for own, name in zip(shown, names(shown), strict=True)
    }
    maps = [(own, shape, horizon) for own, shape in told for horizon in sorted({at.horizon for at in shape.expected})]
    worst = reach([[at.cost for at in shape.expected] for _, shape in told], WORST)
    columns = min(COLUMNS, len(maps))
    rows = math.ceil(len(maps) / columns)
    most = max(len({at.batch_size for at in shape.expected}) for _, shape in told)
    each = max(1.1, 0.33 * most)
    figure, panels = canvas.panels(
        titled([own for own, _ in told], [_found(own) for own, _ in told], "Settings that may be the best"), verdict,
        height=max(1.6 + (each + 0.55) * rows, 4.9), ratios=(1.0,) * rows, columns=columns, share=False, gaps=(0.3, 0.55),
    )  # fmt: skip
    for place, axes in enumerate(panels):
        if place >= len(maps):
            axes.set_axis_off()
            continue
        own, shape, horizon = maps[place]
        _map(axes, own, shape, horizon, worst)
        name = name_of[id(own)]
        axes.set_title(
            f"{name}: horizon {horizon:,}" if name else f"Horizon {horizon:,}", loc="left", fontsize=9.5, pad=4
        )
        axes.tick_params(labelleft=place % columns == 0)
        if place % columns == 0:
            axes.set_ylabel("Batch size")
        if place + columns >= len(maps):
            axes.set_xlabel("num_envs")
    canvas.legend(panels[columns - 1], _keys([own for own, _ in told], worst))
    return figure


def _map(axes: Axes, own: Answered, shape: JointShape, horizon: int, worst: float) -> None:
    sizes = sorted({at.num_envs for at in shape.expected})
    batches = sorted({at.batch_size for at in shape.expected}, key=lambda batch: batch or 0)
    colours = scale([at.cost for at in shape.expected], worst)
    least = min(at.cost for at in shape.expected)
    likely = {_key(setting) for setting in own.likely}
    fresh = _fresh(own)
    ran: dict[tuple[int, int, int | None], list[bool]] = {}
    for record, cost in own.trials:
        point = record.request.point
        ran.setdefault((point.num_envs, point.horizon, point.batch_size), []).append(cost.is_censored)
    for at in (at for at in shape.expected if at.horizon == horizon):
        x, y = sizes.index(at.num_envs), batches.index(at.batch_size)
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, color=colours[at.cost], linewidth=0, zorder=1))
        ink = "white" if at.cost < least * worst**0.6 else INK
        if len(sizes) <= MOST_NUMBERED:
            _number(axes, x, y, own.short(at.cost), fresh.get(_key(at)) or _off(at), ink)
        trials = ran.get(_key(at), [])
        if trials:
            axes.plot(x - 0.38, y + 0.3, "o", color=ink, markersize=2.2, zorder=3)
        if any(trials):
            axes.plot(
                x + 0.36, y + 0.27, "^", color=ink, markersize=4, markerfacecolor="none", markeredgewidth=0.9, zorder=3
            )
        if _key(at) in likely:
            edge = Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor=LIKELY, linewidth=2.0, zorder=4)
            axes.add_patch(edge)
    axes.set_xlim(-0.5, len(sizes) - 0.5)
    axes.set_ylim(-0.5, len(batches) - 0.5)
    axes.grid(visible=False)
    axes.set_xticks(range(len(sizes)), [f"{size:,}" for size in sizes], fontsize=8)
    axes.set_yticks(range(len(batches)), ["lib" if size is None else f"{size:,}" for size in batches], fontsize=8)
    if len(sizes) > MOST_NUMBERED:
        axes.tick_params(axis="x", labelrotation=90)
    axes.tick_params(length=0)


def _number(axes: Axes, x: float, y: float, value: str, below: str, ink: str) -> None:
    """Write the number of a cell, and what is said below it."""
    axes.text(x, y + (0.13 if below else 0.0), value, ha="center", va="center", fontsize=8, color=ink, zorder=3)
    if below:
        axes.text(x, y - 0.24, below, ha="center", va="center", fontsize=5.5, color=ink, zorder=3)


def _off(at: ExpectedSetting) -> str:
    """Return by how many times the model may be off, if that is known."""
    return "" if at.times_either_way is None else f"×/÷{at.times_either_way:.2f}"


def _fresh(own: Answered) -> dict[tuple[int, int, int | None], str]:
    """Return the mean of fresh seeds by setting, in words; nothing where the map shows a model of them."""
    if own.plan is None:
        return {}
    measured = own.answer.confirmed
    return {_key(setting): f"seeds {own.short(setting.cost)}" for setting in measured if setting.cost is not None}


def _key(setting: Setting) -> tuple[int, int, int | None]:
    return setting.num_envs, setting.horizon, setting.batch_size


def _keys(shown: Sequence[Answered], worst: float) -> list[Line2D | Patch]:
    quantities = " or ".join(dict.fromkeys("FPS" if own.is_fps else "seconds to target" for own in shown))
    planned = [own.plan.arm for own in shown if own.plan is not None]
    source = "by the model of all trials" if len(planned) < len(shown) else planned_from(planned)
    keys: list[Line2D | Patch] = [canvas.note(f"{quantities},\n{source}:")]
    keys += [Patch(color=colour, linewidth=0, label=label) for colour, label in scale_steps(worst)]
    keys.append(
        Patch(
            fill=False,
            edgecolor=LIKELY,
            linewidth=2.0,
            label=f"may be the best: the set\nholds it with {shown[0].answer.confidence:.0%}",
        )
    )
    keys.append(canvas.key("was tried", size=2.5, colour=INK))
    if any(cost.is_censored for own in shown for _, cost in own.trials):
        keys.append(canvas.key("a trial there did not\nreach the target", "^", INK, hollow=True, size=4.5))
    if planned:
        keys.append(canvas.note(wrapped(f"planned: {steps_of(planned)} over its own FPS, no claim")))
    if any(map(_fresh, shown)):
        keys.append(canvas.note("seeds 6.1: the mean of fresh\nseeds of a planned setting"))
    if any(at.times_either_way for own in shown if own.shape for at in own.shape.expected):
        keys.append(canvas.note("×/÷1.20: its interval is the\nvalue ÷ 1.20 to 1.20 × it"))
    if any(at.batch_size is None for own in shown if own.shape for at in own.shape.expected):
        keys.append(canvas.note("lib: the library's own batch"))
    if any(_has_gaps(own.shape) for own in shown if own.shape is not None):
        keys.append(canvas.note("white: not legal, the batch does\nnot divide the rollout"))
    return keys


def _has_gaps(shape: JointShape) -> bool:
    """Tell whether some combination of the axes' values is no setting."""
    axes = zip(*map(_key, shape.expected), strict=True)
    return math.prod(len(set(values)) for values in axes) > len(shape.expected)


def _found(own: Answered) -> str:
    count, confidence = len(own.likely), own.answer.confidence
    verb = "may be the best" if count > 1 else "is the best"
    if own.plan is not None:
        return plan_words(own.plan, own.answer.likeness, f"{counted(count, 'setting')} {verb} ({confidence:.0%})")
    return f"{counted(count, 'setting')} {verb}, by the model ({confidence:.0%})"
