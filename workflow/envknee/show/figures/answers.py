"""Shared parts of the figures of the joint answer: whose answer a panel shows, its unit, its trials, and names of settings."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from envknee.record.schema import Record
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import shade, wrapped
from envknee.verdict.joint.observed import Observed, observed
from envknee.verdict.schema.joint import JointAnswer, JointPlan, JointShape, LikelySetting, MiniBatches, ProfileValue
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.words.joint_costs import short_setting
from envknee.words.likeness import planned_from

NO_TRIAL = "No trial tells a cost yet."

ROUGH_PLAN = "a rough surface: its numbers are withheld"

ROUGH = (
    "The surface is rough: the cost deviates so much from its trend that trials of other settings tell little."
    " The model's numbers are withheld."
)

NARROW = 8.0
"""A logarithmic axis of less than this factor needs more numbers than 1, 2, 5."""


class Answered(NamedTuple):
    """The joint answer of an arm to one kind of trial, with its trials."""

    arm: ArmVerdict
    answer: JointAnswer
    trials: Sequence[tuple[Record, Observed]]
    """Those that tell a cost, in the order of their numbers."""

    @property
    def is_fps(self) -> bool:
        """Whether the cost is shown as FPS, of which more is better."""
        return self.answer.kind == "throughput"

    @property
    def plan(self) -> JointPlan | None:
        """The plan of an arm whose search was another arm's; None of any other arm."""
        return self.answer.plan

    @property
    def shape(self) -> JointShape | None:
        """The surface: by the model of all trials, or as it was planned."""
        return self.answer.shape if self.plan is None else self.plan.shape

    @property
    def likely(self) -> Sequence[LikelySetting]:
        """The settings that may be the best, by the same surface."""
        return self.answer.likely if self.plan is None else self.plan.likely

    @property
    def valley(self) -> Sequence[MiniBatches]:
        """The profile over the number of mini-batches, by the same surface."""
        return self.answer.mini_batches if self.plan is None else self.plan.mini_batches

    @property
    def is_rough(self) -> bool:
        """Whether this surface is too rough to be told."""
        return self.answer.is_rough if self.plan is None else self.plan.is_rough

    @property
    def quantity(self) -> str:
        """The label of an axis."""
        if not self.is_fps:
            return "Wall seconds to the target"
        return "FPS" + (", all ranks together" if self.arm.world_size > 1 else "")

    def value(self, cost: float) -> float:
        """Return a cost as it is shown: seconds, or FPS."""
        return 1.0 / cost if self.is_fps else cost

    def ends(self, lower: float, upper: float) -> tuple[float, float]:
        """Return the ends of an interval of costs as they are shown, the smaller one first."""
        return (1.0 / upper, 1.0 / lower) if self.is_fps else (lower, upper)

    def short(self, cost: float) -> str:
        """Return the number for a cell of a map: `6.1` or `12k`."""
        value = self.value(cost)
        if value >= 1e6:
            return f"{value / 1e6:.1f}M"
        if value >= 1e4:
            return f"{value / 1e3:.{1 if value < 1e5 else 0}f}k"
        return f"{value:.1f}" if value < 100 else f"{value:,.0f}"

    def mini_batches(self, record: Record) -> int | None:
        """Return the mini-batches of a trial's epoch; None with the library's own batch."""
        point = record.request.point
        return None if point.batch_size is None else point.rollout * self.arm.world_size // point.batch_size


def answered(evidence: Evidence) -> list[Answered]:
    """Return every joint answer of a study that has trials."""
    return [
        Answered(arm, answer, _trials(evidence.records, arm.arm, answer))
        for arm in evidence.verdict.arms
        for answer in arm.joint
        if answer.state != "no data"
    ]


def _trials(records: Iterable[Record], arm: str, answer: JointAnswer) -> list[tuple[Record, Observed]]:
    own = [record for record in records if (record.request.arm, record.request.kind) == (arm, answer.kind)]
    own.sort(key=lambda record: record.request.number)
    return [(record, cost) for record in own if (cost := observed(record)) is not None]


def with_shape(shown: Sequence[Answered]) -> list[tuple[Answered, JointShape]]:
    """Return the answers whose model is told, with its surface."""
    return [(own, own.shape) for own in shown if own.shape is not None]


def why_nothing(shown: Sequence[Answered]) -> str:
    """Return why no answer has a surface."""
    return ROUGH if any(own.is_rough for own in shown) else NO_TRIAL


def names(shown: Sequence[Answered]) -> list[str]:
    """Return a name for each answer: its arm, its kind, or both, as far as they differ."""
    arms, kinds = {own.arm.arm for own in shown}, {own.answer.kind for own in shown}

    def name(own: Answered) -> str:
        parts = [own.arm.arm] * (len(arms) > 1) + ["FPS" if own.is_fps else "learning"] * (len(kinds) > 1)
        return ", ".join(parts)

    return [name(own) for own in shown]


def panel_names(shown: Sequence[Answered]) -> list[str]:
    """Return what stands above the panel of each answer: its name, and of a plan that it is one."""
    return [
        name if own.plan is None else f"{name or own.arm.arm}: {planned_from([own.plan.arm])}, no claim"
        for own, name in zip(shown, names(shown), strict=True)
    ]


def plan_key(shown: Sequence[Answered], **style: Any) -> list[Line2D]:
    """Return the look of a plan for a legend; nothing without one."""
    arms = [own.plan.arm for own in shown if own.plan is not None]
    return [Line2D([], [], label=wrapped(f"{planned_from(arms)}, no claim"), **style)] if arms else []


def fresh_of_profile(
    axes: Axes, own: Answered, values: Iterable[ProfileValue], colour: str, beside: float = 1.06
) -> list[float]:
    """Draw what fresh seeds of the very settings of a profile show, `beside` times to the right of them; return their values."""
    confirmed = {short_setting(setting): setting for setting in own.answer.confirmed}
    drawn = []
    for point in values:
        setting = confirmed.get(short_setting(point))
        if setting is None or setting.cost is None:
            continue
        x = point.value * beside
        if setting.cost_lower is not None and setting.cost_upper is not None:
            canvas.interval_bar(axes, x, *own.ends(setting.cost_lower, setting.cost_upper), colour)
        drawn.append(own.value(setting.cost))
        axes.plot(x, drawn[-1], "s", color=colour, markersize=5, markerfacecolor="white", zorder=5)
    return drawn


def titled(shown: Sequence[Answered], phrases: Sequence[str], sentence: str) -> str:
    """Return a title from a phrase for each answer; `sentence` heads those of several answers."""
    return canvas.by_arm(dict(zip(names(shown), phrases, strict=True)), sentence)


def panels_below(
    shown: Sequence[Answered], phrases: Sequence[str], sentence: str, verdict: Verdict, height: float, gap: float
) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure with a panel for each answer, one below the other, with their names.

    `phrases` are what the title says of each, and `sentence` of several. `height` is the figure's, in inches; `gap` lies between two
    panels, in panels.
    """
    figure, panels = canvas.panels(
        titled(shown, phrases, sentence), verdict, height=height,
        ratios=(1.0,) * len(shown), share=False, gaps=(0.0, gap),
    )  # fmt: skip
    for axes, name in zip(panels, panel_names(shown), strict=True):
        panel_name(axes, name)
    return figure, panels


def panel_name(axes: Axes, name: str) -> None:
    """Write a name above the left corner of a panel, if there is one."""
    if name:
        axes.set_title(name, loc="left", fontsize=10, pad=5)


def cost_ticks(axis: Axis, least: float, most: float) -> None:
    """Number a logarithmic axis, also one that spans less than a decade."""
    canvas.readable_ticks(axis)
    if most < NARROW * least:
        axis.set_major_locator(LogLocator(10, subs=(1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)))


def reach(costs: Iterable[Sequence[float]], most: float) -> float:
    """Return at how many times the least cost of an answer the colours end: where the costs of all answers do, but at `most` times."""
    return max([1.2, *(min(most, max(own) / min(own)) for own in costs if own)])


def scale(costs: Iterable[float], worst: float) -> dict[float, str]:
    """Return a colour for each cost: dark for the least, light for `worst` times it and more."""
    every = sorted(set(costs))
    return {cost: shade(min(math.log(cost / every[0]) / math.log(worst), 1.0)) for cost in every}


def scale_steps(worst: float) -> list[tuple[str, str]]:
    """Return colours of `scale` for a legend, with what they mean."""
    said = {0.0: "the least cost", 0.5: f"{worst**0.5:.2g} times", 1.0: f"{worst:.2g} times and more"}
    return [(shade(share), label) for share, label in said.items()]
