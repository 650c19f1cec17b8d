"""Cost against the number of mini-batches, with every trial."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.answers import (
    NO_TRIAL,
    ROUGH_PLAN,
    Answered,
    answered,
    cost_ticks,
    panels_below,
    plan_key,
)
from envknee.show.figures.style import DASHED, GREY, INK, size_colours
from envknee.words.likeness import plan_words
from envknee.words.numbers import counted

PLANNED: dict[str, Any] = {"linewidth": 1.4, "linestyle": DASHED}
"""The look of a plan."""

BESIDE = 1.03
"""A factor on the number of mini-batches that keeps a mean beside its seeds."""


def draw_valley(evidence: Evidence) -> Figure:
    """Return a panel for each answer: trials by their mini-batches, coloured by num_envs, and the model's best at each number."""
    verdict = evidence.verdict
    shown = [
        own for own in answered(evidence) if own.valley or any(own.mini_batches(record) for record, _ in own.trials)
    ]
    if not shown:
        of_library = any(own.trials for own in answered(evidence))
        why = "The batch is the library's own, which fixes the number of mini-batches." if of_library else NO_TRIAL
        return canvas.in_words("Mini-batches", why, verdict)
    tried = {record.request.num_envs for own in shown for record, _ in own.trials}
    colours = {size: colour for size, colour in size_colours(evidence.records).items() if size in tried}
    figure, panels = panels_below(
        shown,
        [_found(own) for own in shown],
        "Cost by mini-batches of an epoch",
        verdict,
        1.4 + 3.7 * len(shown),
        gap=0.85,
    )
    for axes, own in zip(panels, shown, strict=True):
        _panel(axes, own, colours)
    canvas.legend(panels[0], _keys(shown, colours))
    return figure


def _panel(axes: Axes, own: Answered, colours: dict[int, str]) -> None:
    middle = (len(colours) - 1) / 2
    dodge = {size: 2.0 ** (min(0.08, 0.5 / len(colours)) * (place - middle)) for place, size in enumerate(colours)}
    for record, cost in own.trials:
        count, size = own.mini_batches(record), record.request.num_envs
        if count is not None:
            face = "white" if cost.is_censored else colours[size]
            axes.plot(
                count * dodge[size], own.value(cost.cost), "^" if cost.is_censored else "o", color=colours[size],
                markersize=5 if cost.is_censored else 4, markerfacecolor=face, alpha=0.85,
            )  # fmt: skip
    valley = own.valley
    counts = [point.value for point in valley]
    if valley:
        bands = [own.ends(point.cost_lower, point.cost_upper) for point in valley]
        lower, upper = [low for low, _ in bands], [high for _, high in bands]
        axes.fill_between(counts, lower, upper, color=GREY, alpha=0.2, linewidth=0, zorder=1)
        look: dict[str, Any] = {"linewidth": 1.6} if own.plan is None else PLANNED
        axes.plot(counts, [own.value(point.cost) for point in valley], color=INK, zorder=3, **look)
        for point in valley:
            face = INK if point.not_slower else "white"
            axes.plot(point.value, own.value(point.cost), "D", color=INK, markersize=6, markerfacecolor=face, zorder=4)
    if own.plan is not None:
        _fresh(axes, own, colours, dodge)
    counts = sorted({*counts, *(count for record, _ in own.trials if (count := own.mini_batches(record)))})
    axes.set_yscale("log")
    cost_ticks(axes.yaxis, *axes.get_ylim())
    canvas.sizes_axis(axes, counts, "Mini-batches of an epoch: optimizer steps over one rollout")
    axes.set_ylabel(own.quantity)


def _fresh(axes: Axes, own: Answered, colours: dict[int, str], dodge: dict[int, float]) -> None:
    """Draw the mean of each setting's fresh seeds, with its interval."""
    for setting in own.answer.confirmed:
        if setting.cost is None or setting.batch_size is None:
            continue
        size = setting.num_envs
        count = size * setting.horizon * own.arm.world_size // setting.batch_size
        x = count * dodge[size] * BESIDE
        if setting.cost_lower is not None and setting.cost_upper is not None:
            canvas.interval_bar(axes, x, *own.ends(setting.cost_lower, setting.cost_upper), colours[size])
        axes.plot(
            x, own.value(setting.cost), "s", color=colours[size], markersize=5.5, markerfacecolor="white", zorder=5
        )


def _keys(shown: Sequence[Answered], colours: dict[int, str]) -> list[Line2D | Patch]:
    keys: list[Line2D | Patch] = [canvas.note("a trial, by num_envs:")]
    keys += [canvas.key(f"{size:,}", "o", colour, size=4.5) for size, colour in colours.items()]
    if any(cost.is_censored for own in shown for _, cost in own.trials):
        keys.append(canvas.key("did not reach the target:\nmore than this", "^", hollow=True, size=5))
    if any(own.valley for own in shown):
        answer = shown[0].answer
        if any(own.valley and own.plan is None for own in shown):
            keys.append(canvas.line_key("model of all trials, the\nbest setting at each number", INK, 1.6))
        keys += plan_key(shown, color=INK, **PLANNED)
        keys += [
            Patch(color=GREY, alpha=0.2, linewidth=0, label=f"its {answer.confidence:.0%} interval"),
            canvas.key(f"not shown {answer.delta:.0%} worse than\nthe best", "D", INK),
        ]
        if any(not point.not_slower for own in shown for point in own.valley):
            keys.append(canvas.key("shown to be worse", "D", INK, hollow=True))
    if any(setting.cost is not None for own in shown if own.plan is not None for setting in own.answer.confirmed):
        keys.append(canvas.key("mean of a setting's fresh\nseeds, with its interval", "s", hollow=True, size=5.5))
    if any(own.is_rough for own in shown):
        keys.append(canvas.note("a rough surface:\nthe model is withheld"))
    return keys


def _found(own: Answered) -> str:
    near = [point.value for point in own.valley if point.not_slower]
    if own.plan is not None:
        found = f"{_range(near)} within {own.answer.delta:.0%} of the best number" if near else ROUGH_PLAN
        return plan_words(own.plan, own.answer.likeness, found)
    if not near:
        return f"{counted(len(own.trials), 'trial')} by mini-batches; the model is withheld"
    return f"{_range(near)} not shown to be {own.answer.delta:.0%} worse than the best number"


def _range(near: Sequence[int]) -> str:
    """Return `4 to 16 mini-batches are`."""
    return f"{near[0]} to {near[-1]} mini-batches are" if len(near) > 1 else f"{near[0]} mini-batches are"
