"""Peak memory of every trial against num_envs, with what the device has."""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.show.charts.model import Curves, Level, Panel, TrialMark
from envknee.show.charts.series import line_of
from envknee.show.figures import canvas
from envknee.show.figures.style import looks_of
from envknee.verdict.memory_sample import measured_peaks
from envknee.verdict.schema.study import Verdict
from envknee.verdict.series import series_of

NEAR = 4.0
"""Times the largest peak up to which the device's memory is drawn: beyond, peaks could not be read."""


def chart_memory(verdict: Verdict, records: Sequence[Record]) -> Curves | None:
    """Return the chart; None without a measured peak."""
    by_series = looks_of(verdict, octaves=0.05)
    measured = measured_peaks([record for record in records if series_of(record) in by_series])
    if not measured:
        return None
    lines = []
    for series, look in by_series.items():
        own = [record for record in measured if series_of(record) == series]
        trials = [
            TrialMark(record.request.num_envs * look.dodge, record.memory_peak_gb or 0.0, record.request.number, False)
            for record in own
        ]
        lines.append(line_of(series, look, trials=trials))
    highest = max(trial.y for line in lines for trial in line.trials)
    limits = [arm.memory for arm in verdict.arms if arm.memory is not None and arm.memory.device_memory_gb]
    devices = {limit.device_memory_gb for limit in limits if limit.device_memory_gb}
    panel = Panel(
        x_label=canvas.num_envs_label(verdict),
        y_label="Peak memory (GB)",
        y_scale="linear",
        lines=lines,
        at_y=[
            Level(value=device_gb, label=f"device: {device_gb:,.1f} GB")
            for device_gb in sorted(devices)
            if device_gb <= NEAR * highest
        ],
    )
    return Curves(panels=[panel])
