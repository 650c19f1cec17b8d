"""Cost against num_envs, and against horizon, with the other axes at their best for each value."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.answers import (
    ROUGH_PLAN,
    Answered,
    answered,
    cost_ticks,
    fresh_of_profile,
    panel_name,
    panel_names,
    plan_key,
    titled,
    why_nothing,
    with_shape,
)
from envknee.show.figures.style import COLOURS, DASHED, GREY, INK
from envknee.verdict.schema.joint import AxisProfile, ProfileValue
from envknee.words.joint_costs import cost_words, short_setting
from envknee.words.likeness import plan_words

MODEL, FRESH = COLOURS[0], COLOURS[1]

PLANNED: dict[str, Any] = {"linewidth": 1.4, "linestyle": DASHED, "marker": "o", "markerfacecolor": "white"}
"""The look of a plan."""


def draw_profile(evidence: Evidence) -> Figure:
    """Return a panel for each answer and each axis with several values."""
    verdict, shown = evidence.verdict, answered(evidence)
    rows = [(own, profile) for own, shape in with_shape(shown) for profile in shape.profiles]
    if not rows:
        why = "num_envs and horizon have one value each." if with_shape(shown) else why_nothing(shown)
        return canvas.in_words("Profile", why, verdict)
    title = titled(shown, [_found(own) for own in shown], "Where more stops paying, by the model of all trials")
    figure, panels = canvas.panels(
        title, verdict, height=1.7 + 3.0 * len(rows), ratios=(1.0,) * len(rows), share=False, gaps=(0.0, 0.85)
    )
    name_of = dict(zip(map(id, shown), panel_names(shown), strict=True))
    for axes, (own, profile) in zip(panels, rows, strict=True):
        _panel(axes, own, profile)
        panel_name(axes, name_of[id(own)])
        label = (
            canvas.num_envs_label(verdict) if profile.axis == "num_envs" else "Environment steps per rollout (horizon)"
        )
        canvas.sizes_axis(axes, [point.value for point in profile.values], label)
    canvas.legend(panels[0], _keys([own for own, _ in rows]))
    return figure


def _panel(axes: Axes, own: Answered, profile: AxisProfile) -> None:
    known = {point.value: _shown(own, point) for point in profile.values}
    sizes, values = list(known), [value for value, *_ in known.values()]
    lower, upper = [low for _, low, _ in known.values()], [high for *_, high in known.values()]
    axes.fill_between(sizes, lower, upper, color=MODEL, alpha=0.15, linewidth=0)
    cut_offs = list[float]()
    if own.plan is None:
        axes.plot(sizes, values, "o-", color=MODEL, linewidth=1.8, markersize=6, zorder=4)
        cut_offs = _cut_offs(axes, dict(zip(sizes, values, strict=True)), own)
    else:
        axes.plot(sizes, values, color=MODEL, markersize=6, zorder=4, **PLANNED)
    fresh = fresh_of_profile(axes, own, profile.values, FRESH)
    axes.set_yscale("log")
    # A wide interval of few fresh seeds goes on beyond the panel.
    bottom, top = min([*lower, *cut_offs, *fresh]), max([*upper, *cut_offs, *fresh])
    axes.set_ylim(bottom / (top / bottom) ** 0.5, top * (top / bottom) ** 0.2)
    cost_ticks(axes.yaxis, *axes.get_ylim())
    canvas.arrows_beyond(axes)
    for point in profile.values:
        axes.annotate(
            _others(point, profile), (point.value, 0.02), xycoords=("data", "axes fraction"), ha="center", va="bottom",
            fontsize=8, color=INK, linespacing=1.1, zorder=5, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    axes.set_ylabel(own.quantity)
    threshold = next((found for found in own.answer.thresholds if found.axis == profile.axis), None)
    if threshold is not None and threshold.threshold is not None:
        axes.axvline(threshold.threshold, color=INK, linewidth=1.2, zorder=1)
        axes.annotate(
            f" threshold {threshold.threshold:,}", (threshold.threshold, 0.99), xycoords=("data", "axes fraction"),
            va="top", fontsize=9,
        )  # fmt: skip


def _shown(own: Answered, point: ProfileValue) -> tuple[float, float, float]:
    """Return the value of a point, and its interval."""
    assert point.cost is not None and point.cost_lower is not None and point.cost_upper is not None
    return own.value(point.cost), *own.ends(point.cost_lower, point.cost_upper)


def _others(point: ProfileValue, profile: AxisProfile) -> str:
    """Return the best setting of the other axes at a value, in lines."""
    other = f"T {point.horizon:,}" if profile.axis == "num_envs" else f"N {point.num_envs:,}"
    return f"{other}\nB {'lib' if point.batch_size is None else f'{point.batch_size:,}'}"


def _cut_offs(axes: Axes, values: dict[int, float], own: Answered) -> list[float]:
    """Draw from each value where the next doubling must lie to pay; return these places."""
    pays = 1.0 + own.answer.delta if own.is_fps else 1.0 - own.answer.delta
    doubled = [size for size in values if 2 * size in values]
    for size in doubled:
        value = values[size]
        axes.plot([size, 2 * size], [value, value * pays], color=GREY, linewidth=1.0, linestyle=DASHED, zorder=2)
        axes.plot(2 * size, value * pays, "_", color=GREY, markersize=14, markeredgewidth=1.6, zorder=2)
    return [values[size] * pays for size in doubled]


def _keys(shown: Sequence[Answered]) -> list[Line2D | Patch]:
    answer, modelled = shown[0].answer, [own for own in shown if own.plan is None]
    keys: list[Line2D | Patch] = []
    if modelled:
        keys.append(
            canvas.line_key("model of all trials,\nthe other axes at their best", MODEL, 1.8, marker="o", markersize=6)
        )
    keys += plan_key(shown, color=MODEL, **PLANNED)
    keys.append(Patch(color=MODEL, alpha=0.15, linewidth=0, label=f"its {answer.confidence:.0%} interval"))
    directions = dict.fromkeys("up" if own.is_fps else "down" for own in modelled)
    keys += [
        canvas.line_key(f"cut-off: doubling pays\nif it gets {way} to the bar", linestyle=DASHED) for way in directions
    ]
    if any(setting.cost is not None for own in shown for setting in own.answer.confirmed):
        keys.append(canvas.key("the same setting by fresh\nseeds alone, if confirmed", "s", FRESH, hollow=True, size=5))
    is_library = any(own.shape and _has_library(own.shape.profiles) for own in shown)
    of_library = "\n(lib: the library's own)" if is_library else ""
    keys.append(canvas.note(f"at each value the best:\nN num_envs, T horizon, B batch{of_library}"))
    return keys


def _has_library(profiles: Sequence[AxisProfile]) -> bool:
    return any(point.batch_size is None for profile in profiles for point in profile.values)


def _found(own: Answered) -> str:
    """Return what is known of the threshold of num_envs, or of a plan its best setting."""
    if own.plan is not None:
        return plan_words(own.plan, own.answer.likeness, _planned_best(own))
    answer, gains = own.answer, "gains" if own.is_fps else "saves"
    found = next((threshold for threshold in answer.thresholds if threshold.axis == "num_envs"), None)
    if found is not None and found.threshold is not None:
        return f"doubling {gains} less than {answer.delta:.0%} from {found.threshold:,} environments on"
    if found is not None and found.state == "still pays":
        return f"doubling still {gains} {answer.delta:.0%} at the most environments"
    if answer.is_rough:
        return "a rough surface: no profile"
    why = {"searched": "; there is no confirming stage", "confirming": "; fresh seeds are under way"}.get(
        answer.state, ""
    )
    return f"no threshold of num_envs is shown at {answer.delta:.0%}{why}"


def _planned_best(own: Answered) -> str:
    if own.shape is None:
        return ROUGH_PLAN
    best = min(own.shape.expected, key=lambda setting: setting.cost)
    return f"soonest at {short_setting(best)}, {cost_words(own.answer.kind, best.cost)}"
