"""Charts and sections of MLflow's page of runs, as parts of its state. Pure.

Upstream: the keys are those of MLflow 3.17's page (RunsChartsCardConfig of its JavaScript). A page that no longer knows them says so and
shows its own charts.
"""

from collections.abc import Sequence
from typing import Any

Chart = dict[str, Any]

OWN = "envknee"
"""Begins the ID of each chart and section."""


def section(name: str, title: str) -> dict[str, Any]:
    """Return a section, whose charts name it, one below the other: side by side they are too narrow in a window of 1,280 pixels."""
    return {"uuid": f"{OWN}-{name}", "name": title, "display": True, "isReordered": True, "columns": 1}


def parallel(place: str, params: Sequence[str], metrics: Sequence[str]) -> Chart:
    """Return parallel coordinates over all runs that have all of these. The last metric colours the lines."""
    axes = {"selectedParams": list(params), "selectedMetrics": list(metrics), "showAllRuns": True}
    return _chart("PARALLEL", f"parallel-{metrics[-1]}", place) | axes


def contour(place: str, x: str, y: str, metric: str) -> Chart:
    """Return a map of a metric over two parameters."""
    axes = {"xaxis": _param(x), "yaxis": _param(y), "zaxis": _metric(metric)}
    return _chart("CONTOUR", f"contour-{metric}-{x}-{y}", place) | axes


def scatter(place: str, x: str, metric: str) -> Chart:
    """Return a metric against a parameter, a point for each run."""
    return _chart("SCATTER", f"scatter-{metric}-{x}", place) | {"xaxis": _param(x), "yaxis": _metric(metric)}


def bars(place: str, metric: str) -> Chart:
    """Return a bar for each run or group of runs."""
    return _chart("BAR", f"bars-{metric}", place) | {"metricKey": metric}


def curve(place: str, metric: str, over: str, smoothness: int = 0) -> Chart:
    """Return a metric over `step`, or over another metric. `smoothness` is MLflow's, from 0 to 100."""
    axis = {"xAxisKey": "step", "selectedXAxisMetricKey": ""}
    if over != "step":
        axis = {"xAxisKey": "metric", "selectedXAxisMetricKey": over}
    return _chart("LINE", f"{metric}-{over}", place) | axis | {
        "metricKey": metric, "selectedMetricKeys": [metric], "useGlobalXaxisKey": False, "xAxisScaleType": "linear",
        "scaleType": "linear", "range": {}, "yAxisKey": "metric", "yAxisExpressions": [], "lineSmoothness": smoothness,
        "useGlobalLineSmoothing": False, "ignoreOutliers": False,
    }  # fmt: skip


def _chart(kind: str, name: str, place: str) -> Chart:
    return {"type": kind, "uuid": f"{OWN}-{name}", "metricSectionId": f"{OWN}-{place}", "isGenerated": False}


def _param(name: str) -> dict[str, str]:
    return {"key": name, "type": "PARAM"}


def _metric(name: str) -> dict[str, str]:
    return {"key": name, "type": "METRIC"}
