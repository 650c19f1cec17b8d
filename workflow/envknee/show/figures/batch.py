"""Optimizer steps and environment steps to the target against batch size, with the law through them."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import CARETLEFT, CARETRIGHT

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import DASHED, Look, look_at, wrapped
from envknee.verdict.schema.batch import BatchLaw
from envknee.verdict.schema.study import Verdict
from envknee.words.batch import batch_statement, batch_title
from envknee.words.ranks import each


def draw_batch(evidence: Evidence) -> Figure:
    """Return optimizer steps (above) and environment steps (below) to the target against batch size, with S(B) and B_noise."""
    verdict = evidence.verdict
    laws = [law for arm in verdict.arms for law in arm.batch]
    if not laws:
        return canvas.in_words("Critical batch size", "No learning trial lived long enough to tell.", verdict)
    looks = [look_at(place, _name(law, verdict)) for place, law in enumerate(laws)]
    figure, (upper, lower) = canvas.panels(
        _title(laws), verdict, height=max(6.4, 3.6 + 0.62 * len(laws)), ratios=(1.0, 1.0)
    )
    sizes = sorted({point.batch_size for law in laws for point in law.points})
    left, right = _range(laws, sizes)
    for place, (law, look) in enumerate(zip(laws, looks, strict=True)):
        dodge = 2.0 ** (min(0.08, 0.4 / len(laws)) * (place - (len(laws) - 1) / 2))
        for axes, per_step in ((upper, True), (lower, False)):
            for point in law.points:
                unit = point.batch_size if per_step else 1
                canvas.cost_mark(axes, point.batch_size * dodge, point.frames_to_target, look, unit)
            _curve(axes, law, look, (left, right), per_step)
            _noise(axes, law, look, (left, right), 0.04 + 0.05 * (place % 6))
    for axes in (upper, lower):
        axes.set_xscale("log", base=2)
        axes.set_xlim(left, right)
        canvas.costs_axis(axes)
        low, high = axes.get_ylim()
        axes.set_ylim(low / (high / low) ** 0.22)  # the bars of B_noise are below all points
    canvas.size_ticks(lower, sizes, math.log2(right / left) / 11)
    lower.set_xlabel("Transitions in one optimizer step (batch size), all ranks together")
    upper.set_ylabel("Optimizer steps to target,\nin one epoch of each rollout")
    lower.set_ylabel("Environment steps\nto target")
    canvas.series_legend(upper, looks, _explained(laws, verdict))
    return figure


def _name(law: BatchLaw, verdict: Verdict) -> str:
    ranks = next(arm.ranks for arm in verdict.arms if arm.arm == law.arm)
    where = (
        "all num_envs and horizons"
        if law.num_envs is None
        else f"{law.num_envs:,} envs{each(ranks)}, horizon {law.horizon}"
    )
    said = wrapped(batch_title(law))
    unused = ["not used"] * (law.state == "fitted" and not law.used)
    return "\n".join([*[f"{wrapped(law.arm)}:"] * (len(verdict.arms) > 1), where, said, *unused])


def _range(laws: Sequence[BatchLaw], sizes: Sequence[int]) -> tuple[float, float]:
    """Return the ends of an axis with every batch size, and with B_noise and its interval if within a factor of 8."""
    ends = [end for law in laws for end in (law.b_noise, law.b_noise_lower, law.b_noise_upper) if end]
    low, high = float(sizes[0]), float(sizes[-1])
    near = [end for end in ends if low / 8 <= end <= high * 8]
    return min([low, *near]) / 1.4, max([high, *near]) * 1.4


def _curve(axes: Axes, law: BatchLaw, look: Look, ends: tuple[float, float], per_step: bool) -> None:
    if law.s_min is None or law.e_min_frames is None:
        return
    dense = [ends[0] * (ends[1] / ends[0]) ** (step / 100) for step in range(101)]
    values = [(law.e_min_frames + law.s_min * size) / (size if per_step else 1) for size in dense]
    alpha = 0.9 if law.used else 0.4
    axes.plot(dense, values, color=look.colour, linewidth=1.5, linestyle=look.dashes, alpha=alpha, zorder=2)


def _noise(axes: Axes, law: BatchLaw, look: Look, edges: tuple[float, float], height: float) -> None:
    """Draw B_noise as a line, and its interval as a bar near the axis: what goes on beyond the panel's edges ends there in an arrow."""
    if law.b_noise is None or not law.used:
        return
    left, right = edges
    axes.axvline(law.b_noise, color=look.colour, linewidth=1.0, linestyle=DASHED, zorder=1)
    if law.b_noise_lower is not None:
        transform = axes.get_xaxis_transform()
        lower, upper = law.b_noise_lower, law.b_noise_upper or math.inf
        ends = max(lower, left), min(upper, right)
        axes.plot(
            ends, [height] * 2, color=look.colour, linewidth=4.0, alpha=0.6, solid_capstyle="butt", transform=transform, zorder=3
        )  # fmt: skip
        for end, drawn, caret in zip((lower, upper), ends, (CARETLEFT, CARETRIGHT), strict=True):
            if end != drawn:
                axes.plot(
                    drawn,
                    height,
                    color=look.colour,
                    marker=caret,
                    markersize=8,
                    transform=transform,
                    zorder=4,
                    clip_on=False,
                )


def _explained(laws: Sequence[BatchLaw], verdict: Verdict) -> list[Line2D]:
    keys = []
    points = [point for law in laws for point in law.points]
    if any(point.frames_to_target.interval_lower is not None for point in points):
        keys.append(canvas.key(f"mean over seeds,\n{verdict.confidence:.0%} interval"))
    if any(law.s_min is not None for law in laws):
        keys.append(canvas.line_key("law S_min (1 + B_noise / B)\n(faint: not used)", width=1.5))
        keys.append(canvas.note("B batch size, S_min the fewest\nsteps, B_noise the critical batch"))
    if any(law.b_noise is not None and law.used for law in laws):
        keys.append(canvas.line_key("B_noise", linestyle=DASHED))
        if any(law.b_noise_lower is not None for law in laws):
            keys.append(canvas.line_key("its interval", width=4.0, alpha=0.6))
    if any(point.frames_to_target.lower_bound for point in points):
        keys.append(canvas.key("a seed spent its budget first:\na lower bound, not fitted", "^", hollow=True))
    return keys


def _title(laws: Sequence[BatchLaw]) -> str:
    known = sorted(law.b_noise for law in laws if law.used and law.b_noise is not None)
    if not known:
        return f"Critical batch size: {batch_statement(laws[0]) if len(laws) == 1 else 'none shown yet'}"
    values = " to ".join(dict.fromkeys(f"{value:,.0f}" for value in (known[0], known[-1])))
    return f"Critical batch size: {values} transitions per optimizer step"
