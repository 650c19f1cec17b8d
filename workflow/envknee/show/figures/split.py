"""Seconds to the target as environment steps times seconds for each, along the profile of num_envs."""

from collections.abc import Sequence
from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.answers import (
    Answered,
    answered,
    cost_ticks,
    fresh_of_profile,
    titled,
    why_nothing,
    with_shape,
)
from envknee.show.figures.style import DASHED, GREY, Look, look_at, wrapped
from envknee.verdict.schema.joint import FramesOfSetting, JointShape, ProfileValue
from envknee.words.likeness import plan_words, planned_from

Band = tuple[int, float, float, float]
"""num_envs, a value, and its interval."""

MILLION = 1e6


def draw_split(evidence: Evidence) -> Figure:
    """Return three quantities one above the other: seconds, frames, and seconds per million frames."""
    verdict = evidence.verdict
    shown = [own for own in answered(evidence) if not own.is_fps]
    told = [(own, shape) for own, shape in with_shape(shown) if len(shape.frames) > 1]
    if not told:
        why = "num_envs has one value." if with_shape(shown) else why_nothing(shown)
        return canvas.in_words("Environment steps, and seconds for each", why, verdict)
    looks = [_look(place, own) for place, (own, _) in enumerate(told)]
    arms = [own for own, _ in told]
    figure, (seconds, frames, speeds) = canvas.panels(
        titled(
            arms, [_found(own, shape) for own, shape in told], "Environment steps to the target, and seconds for each"
        ),
        verdict,
        height=8.2,
        ratios=(1.0, 1.0, 1.0),
        gaps=(0.0, 0.15),
    )
    for (own, shape), look in zip(told, looks, strict=True):
        profile = next((own.values for own in shape.profiles if own.axis == "num_envs"), [])
        _draw(seconds, [band for point in profile if (band := _seconds(point))], look)
        if own.plan is not None:
            fresh_of_profile(seconds, own, profile, look.colour)
        _draw(frames, [(at.num_envs, at.frames, at.frames_lower, at.frames_upper) for at in shape.frames], look)
        _draw(speeds, [_per_million(at) for at in shape.frames], look)
    seconds.set_ylabel("Wall seconds\nto the target")
    frames.set_ylabel("Environment steps\nto the target")
    speeds.set_ylabel("Seconds per million\nenvironment steps")
    for axes in (seconds, frames, speeds):
        axes.set_yscale("log")
        cost_ticks(axes.yaxis, *axes.get_ylim())
    canvas.sizes_axis(speeds, [at.num_envs for _, shape in told for at in shape.frames], canvas.num_envs_label(verdict))
    _legend(seconds, arms, looks)
    return figure


def _seconds(point: ProfileValue) -> Band | None:
    if point.cost is None or point.cost_lower is None or point.cost_upper is None:
        return None
    return point.value, point.cost, point.cost_lower, point.cost_upper


def _per_million(at: FramesOfSetting) -> Band:
    lower, upper = at.seconds_per_frame_lower, at.seconds_per_frame_upper
    return at.num_envs, MILLION * at.seconds_per_frame, MILLION * lower, MILLION * upper


def _draw(axes: Axes, bands: Sequence[Band], look: Look) -> None:
    sizes = [size for size, *_ in bands]
    axes.fill_between(
        sizes,
        [lower for *_, lower, _ in bands],
        [upper for *_, upper in bands],
        color=look.colour,
        alpha=0.15,
        linewidth=0,
    )
    axes.plot(
        sizes, [value for _, value, *_ in bands], look.marker, linestyle=look.dashes, color=look.colour, linewidth=1.6, markersize=6,
        markeredgecolor="white", markeredgewidth=0.8,
    )  # fmt: skip


def _legend(axes: Axes, arms: Sequence[Answered], looks: Sequence[Look]) -> None:
    keys = [
        canvas.line_key(look.label, look.colour, 1.8, marker=look.marker, markersize=6, linestyle=look.dashes)
        for look in looks
    ]
    band = Patch(color=GREY, alpha=0.25, linewidth=0, label=f"{arms[0].answer.confidence:.0%} interval")
    notes = canvas.note("at each num_envs the horizon\nand batch that the model of\nseconds takes for the best")
    factors = canvas.note("environment steps, and\nseconds for each,\nhave a model each")
    fresh = [canvas.key("a planned setting by fresh\nseeds alone, if confirmed", "s", hollow=True, size=5)]
    has_fresh = any(own.answer.confirmed for own in arms if own.plan is not None)
    canvas.legend(axes, [*keys, band, *(fresh if has_fresh else []), notes, factors])


def _look(place: int, own: Answered) -> Look:
    """Return the look of an arm; a plan is dashed."""
    if own.plan is None:
        return look_at(place, own.arm.arm)
    label = wrapped(f"{own.arm.arm}, {planned_from([own.plan.arm])}")
    return replace(look_at(place, label), dashes=DASHED, marker="o")  # squares are its fresh seeds


def _found(own: Answered, shape: JointShape) -> str:
    found = _factors(shape)
    return found if own.plan is None else plan_words(own.plan, own.answer.likeness, found)


def _factors(shape: JointShape) -> str:
    first, last = shape.frames[0], shape.frames[-1]
    return (
        f"from {first.num_envs:,} to {last.num_envs:,} environments:"
        f" {_millions(first.frames)} to {_millions(last.frames)} environment steps"
        f" at {MILLION * first.seconds_per_frame:,.1f} to {MILLION * last.seconds_per_frame:,.1f} s per million"
    )


def _millions(frames: float) -> str:
    return f"{frames / MILLION:,.2f} million" if frames >= 1e5 else f"{frames:,.0f}"
