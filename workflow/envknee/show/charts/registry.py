"""Which figures of the report have a chart: those of which a reader wants single values."""

from collections.abc import Callable, Sequence

from envknee.record.schema import Record
from envknee.show.charts.coordinates import chart_coordinates
from envknee.show.charts.maps import chart_maps
from envknee.show.charts.memory import chart_memory
from envknee.show.charts.model import Chart
from envknee.show.charts.target import chart_target
from envknee.show.charts.throughput import chart_throughput
from envknee.verdict.schema.study import Verdict

CHARTS: dict[str, Callable[[Verdict, Sequence[Record]], Chart | None]] = {
    "throughput": chart_throughput,
    "target": chart_target,
    "memory": chart_memory,
    "maps": chart_maps,
    "coordinates": chart_coordinates,
}
"""By the name of the figure."""


def charts_of(verdict: Verdict, records: Sequence[Record]) -> dict[str, Chart]:
    """Return every chart that a study has data for, by the name of its figure."""
    charts = {name: chart(verdict, records) for name, chart in CHARTS.items()}
    return {name: chart for name, chart in charts.items() if chart is not None}
