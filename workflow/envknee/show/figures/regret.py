"""Expected regret of the model's pick against trials spent."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.answers import Answered, answered, names, titled, why_nothing, with_shape
from envknee.show.figures.style import DASHED, DASHES, INK, Look, look_at
from envknee.verdict.schema.joint import RegretStep
from envknee.words.joint_costs import short_setting
from envknee.words.numbers import percent

LEAST = 1e-3
"""The least loss that is drawn."""


def draw_regret(evidence: Evidence) -> Figure:
    """Return what the search would have lost, had it ended after its first trials."""
    verdict, shown = evidence.verdict, answered(evidence)
    told = [(own, shape.regret) for own, shape in with_shape(shown) if shape.regret]
    if not told:
        return canvas.in_words("Regret of the search", why_nothing(shown), verdict)
    arms = [own for own, _ in told]
    figure, (axes,) = canvas.panels(
        titled(arms, [_found(steps) for _, steps in told], "What the pick of the search is expected to lose"),
        verdict,
        height=5.2,
    )
    looks = [look_at(place, name or "expected") for place, name in enumerate(names(arms))]
    for (_, steps), look in zip(told, looks, strict=True):
        _draw(axes, steps, look)
    for delta in sorted({own.answer.delta for own in arms}):
        axes.axhline(delta, color=INK, linewidth=1.0, linestyle=DASHED, zorder=1)
        axes.annotate(
            f"cut-off {delta:.0%}", (0.995, delta), xycoords=("axes fraction", "data"), xytext=(0, 2),
            textcoords="offset points", ha="right", va="bottom", fontsize=9,
        )  # fmt: skip
    counts = sorted({step.trials for _, steps in told for step in steps})
    canvas.sizes_axis(axes, counts, "Trials of the search")
    axes.set_ylabel("Expected loss of the model's pick\nagainst the best setting")
    axes.set_yscale("log")
    every = [share for _, steps in told for step in steps for share in (step.regret, step.regret_upper)]
    # A pick that is surely the best one has no loss, and lies below the panel.
    seen = [share for share in every if share >= LEAST] + [own.answer.delta for own in arms]
    axes.set_ylim(min(seen) / 1.5, max(seen) * 1.3)
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
    _legend(axes, arms, looks, told[0][1] if len(told) == 1 else [])
    return figure


def _draw(axes: Axes, steps: Sequence[RegretStep], look: Look) -> None:
    counts = [step.trials for step in steps]
    axes.plot(
        counts, [step.regret for step in steps], f"{look.marker}-", color=look.colour, linewidth=1.8, markersize=6
    )
    axes.plot(counts, [step.regret_upper for step in steps], color=look.colour, linewidth=1.0, linestyle=DASHES[2])


def _legend(axes: Axes, arms: Sequence[Answered], looks: Sequence[Look], steps: Sequence[RegretStep]) -> None:
    """Explain the lines, and of a single answer the picks of `steps`."""
    keys = [canvas.line_key(look.label, look.colour, 1.8, marker=look.marker, markersize=6) for look in looks]
    keys.append(canvas.line_key(f"{arms[0].answer.confidence:.0%} upper bound", linestyle=DASHES[2]))
    keys.append(canvas.note("by the model of all trials,\nfresh seeds included"))
    if steps:
        keys.append(canvas.note("the pick after (num_envs ×\nhorizon × batch)"))
        keys += [canvas.note(f"{step.trials:,} trials: {short_setting(step)}") for step in _changes(steps)]
    canvas.legend(axes, keys)


def _changes(steps: Sequence[RegretStep]) -> list[RegretStep]:
    """Return the steps with another pick than the step before."""
    earlier = [None, *map(short_setting, steps)]
    return [step for step, name in zip(steps, earlier, strict=False) if short_setting(step) != name]


def _found(steps: Sequence[RegretStep]) -> str:
    last = steps[-1]
    half = min(steps, key=lambda step: (abs(2 * step.trials - last.trials), step.trials))
    ended = f"after {last.trials:,} trials the pick is expected to lose {percent(last.regret)} against the best setting"
    return ended if half is last else f"{ended}, after {half.trials:,} trials {percent(half.regret)}"
