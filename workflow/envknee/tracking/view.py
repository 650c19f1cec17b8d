"""MLflow's first view of a study: columns, charts and their order.

Input: a study. Output: the state of MLflow's page of runs ("shared view"). It is a tag of the experiment, and MLflow shows it if the
address holds its key. Each reader may change the view for themselves.

Upstream: the keys are those of MLflow 3.17's page (ExperimentPageUIState and RunsChartsCardConfig of its JavaScript). A page that no
longer knows them says so and shows its own charts.
"""

import json
from typing import TYPE_CHECKING, Any

from envknee.study.model import Study
from envknee.tracking.describe import HEADLINES

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

KEY = "envknee"
TAG = f"mlflow.sharedViewState.{KEY}"
ADDRESS = f"compareRunsMode=CHART&viewStateShareKey={KEY}"
"""Part of an address that makes MLflow show the view."""

POINT = ["num_envs", "horizon", "batch_size"]
FPS, MEMORY, TO_TARGET = HEADLINES


def show(client: "MlflowClient", experiment: "Experiment", study: Study) -> None:
    """Set the view of an experiment, unless it is set already."""
    wanted = view_of(study)
    if experiment.tags.get(TAG) != wanted:
        client.set_experiment_tag(experiment.experiment_id, TAG, wanted)


def view_of(study: Study) -> str:
    """Return the tag's value: points with their FPS and memory, then curves over frames and over time."""
    points, curves = [_parallel("points", [FPS, MEMORY])], [_curve("fps_total", "step")]
    sections = [_section("points", "All trials: FPS and memory", columns=1)]
    if study.learning is not None:
        points.append(_parallel("learning", [FPS, MEMORY, TO_TARGET]))
        sections.append(_section("learning", "Trials that reached the target", columns=1))
        curves = [_curve("reward_average", "step"), _curve("reward_average", "time-relative"), *curves]
    sections.append(_section("curves", "Curves: a step is a frame, time is in seconds", columns=3))
    state = {
        # Sorted by a metric, trials have rows of their own; sorted by time, MLflow would fold them into their arms.
        "orderByKey": f"metrics.`{FPS}`",
        "orderByAsc": False,
        "selectedColumns": [
            *(f"params.`{name}`" for name in POINT),
            "tags.`status`",
            *(f"metrics.`{name}`" for name in (FPS, MEMORY, TO_TARGET)),
        ],
        "runsHiddenMode": "FIRST_20_RUNS",
        "hideEmptyCharts": True,
        "isAccordionReordered": True,  # otherwise sections are sorted by name
        "compareRunSections": sections,
        "compareRunCharts": [*points, *curves],
    }
    return json.dumps(state, sort_keys=True)


def _section(name: str, title: str, columns: int) -> dict[str, Any]:
    return {"uuid": f"{KEY}-{name}", "name": title, "display": True, "isReordered": True, "columns": columns}


def _chart(kind: str, name: str, section: str) -> dict[str, Any]:
    return {"type": kind, "uuid": f"{KEY}-{name}", "metricSectionId": f"{KEY}-{section}", "isGenerated": False}


def _parallel(name: str, metrics: list[str]) -> dict[str, Any]:
    """Return parallel coordinates over all runs that have all these metrics."""
    axes = {"selectedParams": POINT, "selectedMetrics": metrics, "showAllRuns": True}
    return _chart("PARALLEL", f"parallel-{name}", name) | axes


def _curve(metric: str, axis: str) -> dict[str, Any]:
    """Return a metric over `step` (frames) or `time-relative` (seconds since the run's first value)."""
    return _chart("LINE", f"{metric}-{axis}", "curves") | {
        "metricKey": metric, "selectedMetricKeys": [metric], "xAxisKey": axis, "useGlobalXaxisKey": False,
        "xAxisScaleType": "linear", "scaleType": "linear", "range": {}, "yAxisKey": "metric", "yAxisExpressions": [],
        "lineSmoothness": 0, "useGlobalLineSmoothing": True, "selectedXAxisMetricKey": "", "ignoreOutliers": False,
    }  # fmt: skip
