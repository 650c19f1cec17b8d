"""Measured memory peaks against num_envs, with the model through them."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from envknee.base.point import batch_transitions
from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT
from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import DASHED, GREY, INK, STATUS_MARKERS, Look, looks_of
from envknee.verdict.memory_sample import measured_peaks
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.series import Series, series_of
from envknee.words.memory import memories_title, memory_title
from envknee.words.statuses import STATUS_WORDS

SYMBOLS = "N num_envs, T horizon,\nB batch size; v₀, a, b, c fitted"


def draw_memory(evidence: Evidence) -> Figure:
    """Return the measured peaks against num_envs, the model through them, and the device's memory."""
    verdict, records, _ = evidence
    looks = looks_of(verdict, octaves=0.05)
    # A joint section's settings are no series.
    in_series = [record for record in records if series_of(record) in looks]
    measured = measured_peaks(in_series)
    failed = [record for record in in_series if record.outcome.status in DID_NOT_FIT]
    if not measured:
        ran_out = any(record.outcome.status in DID_NOT_FIT for record in records)
        why = "No trial lived long enough to measure its memory." if ran_out else "No trial is finished."
        return canvas.in_words("Memory", why, verdict)
    if not any(record.memory_peak_gb for record in measured):
        return canvas.in_words("Memory", "No trial took any memory of its GPUs.", verdict)
    limit_of = {arm.arm: arm.memory for arm in verdict.arms if arm.memory is not None}
    titles = {arm.arm: memory_title(arm.memory) if arm.memory else "no peak was measured" for arm in verdict.arms}
    figure, (axes,) = canvas.panels(canvas.by_arm(titles, memories_title(limit_of)), verdict, height=5.4)
    limits = list(limit_of.values())

    def place_of(record: Record) -> float:
        return record.request.num_envs * looks[series_of(record)].dodge

    peaks_gb = [record.memory_peak_gb or 0.0 for record in measured]
    for record, peak_gb in zip(measured, peaks_gb, strict=True):
        look = looks[series_of(record)]
        axes.plot(
            place_of(record), peak_gb, look.marker, color=look.colour, markersize=5, alpha=0.75, markeredgewidth=0
        )
    for series, look in looks.items():
        _memory_model(axes, limit_of.get(series.arm), series, look, measured)
    top = _device_limits(axes, limits, max(peaks_gb))
    axes.set_ylim(0, top)
    _card_lines(axes, limits, top)
    for record in failed:
        marker, colour = STATUS_MARKERS[record.outcome.status], looks[series_of(record)].colour
        width = 1.5 if marker == "_" else 0
        axes.plot(place_of(record), 0.96 * top, marker, color=colour, markersize=8, markeredgewidth=width)
    sizes = [record.request.num_envs for record in (*measured, *failed)]
    canvas.sizes_axis(axes, sizes, canvas.num_envs_label(verdict))
    axes.set_ylabel(f"Peak memory (GB):\n{' / '.join(sorted({limit.quantity for limit in limits}))}")
    errors = [limit.largest_error_gb for limit in limits if limit.largest_error_gb is not None]
    known = f"\n(misses by up to {max(errors):.2f} GB)" if errors else ":\ntoo few points"
    keys = [
        canvas.key("one trial"),
        canvas.line_key(f"model v₀ + a·N + b·N·T + c·B{known}", width=1.4),
        canvas.note(SYMBOLS),
    ]
    statuses = sorted({record.outcome.status for record in failed})
    keys += [canvas.key(STATUS_WORDS[status], STATUS_MARKERS[status]) for status in statuses]
    canvas.series_legend(axes, looks.values(), keys)
    return figure


def _memory_model(
    axes: Axes, limit: MemoryLimit | None, series: Series, look: Look, measured: Sequence[Record]
) -> None:
    """Draw the model of one series over all measured num_envs."""
    if limit is None or not limit.identifiable:
        return
    mini_batches = next((r.num_mini_batches for r in measured if series_of(r) == series and r.num_mini_batches), None)
    sizes = sorted({record.request.num_envs for record in measured if record.request.arm == series.arm})
    batch = batch_transitions(1, series.horizon, series.batch_size, mini_batches, limit.world_size)
    model = [
        limit.peak_gb(size, series.horizon, batch if series.batch_size else batch * size) or 0.0
        for size in canvas.densely(sizes)
    ]
    axes.plot(canvas.densely(sizes), model, color=look.colour, linewidth=1.4)


def _card_lines(axes: Axes, limits: Sequence[MemoryLimit], top: float) -> None:
    """Draw the memory of other cards, as far as lines and names do not touch each other or the device's."""
    devices = [device_gb for limit in limits if (device_gb := limit.device_memory_gb)]
    drawn: list[float] = []
    cards = {card.memory_gb: card.card for limit in limits for card in limit.cards}
    for memory_gb, card in sorted(cards.items(), reverse=True):
        # The device's own name is below its lines.
        near_device = any(-0.04 < (device_gb - memory_gb) / top < 0.13 for device_gb in devices)
        if near_device or memory_gb > top or any(other - memory_gb < 0.055 * top for other in [*drawn, math.inf]):
            continue
        drawn.append(memory_gb)
        axes.axhline(memory_gb, color=GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        axes.annotate(
            card, (0.01, memory_gb), xycoords=("axes fraction", "data"), xytext=(0, 2), textcoords="offset points",
            fontsize=8, color=GREY,
        )  # fmt: skip


def _device_limits(axes: Axes, limits: Sequence[MemoryLimit], highest: float) -> float:
    """Draw the memory of each device if it is near the peaks, else write how far above it is. Return the top of the axis."""
    top = highest * 1.25
    above = []
    for device_gb, margin in sorted(
        {(limit.device_memory_gb, limit.margin) for limit in limits if limit.device_memory_gb}
    ):
        assert device_gb is not None
        usable = device_gb * (1.0 - margin)
        if usable <= 4.0 * highest:
            top = max(top, device_gb * 1.08)
            axes.axhline(device_gb, color=INK, linewidth=1.2)
            axes.axhline(usable, color=INK, linewidth=1.0, linestyle=DASHED)
            axes.annotate(
                f"device: {device_gb:,.1f} GB; usable with {margin:.0%} kept free: {usable:,.1f} GB", (0.01, usable),
                xycoords=("axes fraction", "data"), xytext=(0, -4), textcoords="offset points", va="top", fontsize=9,
            )  # fmt: skip
        else:
            above.append(f"usable: {usable:,.1f} GB, {usable / highest:,.0f} times the largest peak (above this axis)")
    if above:
        axes.annotate("\n".join(above), (0.01, 0.985), xycoords="axes fraction", va="top", fontsize=9, color=GREY)
    return top
