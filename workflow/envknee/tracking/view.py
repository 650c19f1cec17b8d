"""How MLflow shows a study to who opens it first: columns, charts, their order.

Input: a study. Output: the state of MLflow's page of runs, which it keeps as a tag of the experiment ("shared view") and
shows where its key stands in the address. Each reader may change it, and saves that for himself.

Upstream: the keys are those of MLflow 3.17's page (ExperimentPageUIState and RunsChartsCardConfig of its JavaScript);
a page that knows them no longer says so and shows its own charts.
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
"""What the address of a page of runs needs to show it."""

POINT = ["num_envs", "horizon", "batch_size"]
FPS, MEMORY, TO_TARGET = HEADLINES


def show(client: "MlflowClient", experiment: "Experiment", study: Study) -> None:
    """Make the view that of an experiment, where it is not already."""
    wanted = view_of(study)
    if experiment.tags.get(TAG) != wanted:
        client.set_experiment_tag(experiment.experiment_id, TAG, wanted)


def view_of(study: Study) -> str:
    """Return the tag's value: points against what they give and cost, then curves over frames and over time."""
    points, curves = [_parallel("points", [FPS, MEMORY])], [_curve("fps_total", "step")]
    sections = [_section("points", "All trials: FPS and memory", columns=1)]
    if study.learning is not None:
        points.append(_parallel("learning", [FPS, MEMORY, TO_TARGET]))
        sections.append(_section("learning", "Trials that reached the target", columns=1))
        curves = [_curve("reward_average", "step"), _curve("reward_average", "time-relative"), *curves]
    sections.append(_section("curves", "Curves: a step is a frame, time is in seconds", columns=3))
    state = {
        # Sorted by a figure, trials stand by themselves; by time MLflow would fold them into their arms.
        "orderByKey": f"metrics.`{FPS}`",
        "orderByAsc": False,
        "selectedColumns": [
            *(f"params.`{name}`" for name in POINT),
            "tags.`status`",
            *(f"metrics.`{name}`" for name in (FPS, MEMORY, TO_TARGET)),
        ],
        "runsHiddenMode": "FIRST_20_RUNS",
        "hideEmptyCharts": True,
        "isAccordionReordered": True,  # or sections would be sorted by name
        "compareRunSections": sections,
        "compareRunCharts": [*points, *curves],
    }
    return json.dumps(state, sort_keys=True)


def _section(name: str, title: str, columns: int) -> dict[str, Any]:
    return {"uuid": f"{KEY}-{name}", "name": title, "display": True, "isReordered": True, "columns": columns}


def _chart(kind: str, name: str, section: str) -> dict[str, Any]:
    return {"type": kind, "uuid": f"{KEY}-{name}", "metricSectionId": f"{KEY}-{section}", "isGenerated": False}


def _parallel(name: str, metrics: list[str]) -> dict[str, Any]:
    """Return parallel coordinates over all runs that have every one of these figures."""
    axes = {"selectedParams": POINT, "selectedMetrics": metrics, "showAllRuns": True}
    return _chart("PARALLEL", f"parallel-{name}", name) | axes


def _curve(metric: str, axis: str) -> dict[str, Any]:
    """Return a metric over `step` (frames) or `time-relative` (seconds since the run's first value)."""
    return _chart("LINE", f"{metric}-{axis}", "curves") | {
        "metricKey": metric, "selectedMetricKeys": [metric], "xAxisKey": axis, "useGlobalXaxisKey": False,
        "xAxisScaleType": "linear", "scaleType": "linear", "range": {}, "yAxisKey": "metric", "yAxisExpressions": [],
        "lineSmoothness": 0, "useGlobalLineSmoothing": True, "selectedXAxisMetricKey": "", "ignoreOutliers": False,
    }  # fmt: skip
