"""MLflow's views of a study: which runs, columns and charts its page of runs shows, under names in its menu "Views".

Input: a study. Output: a tag of the experiment for each view. MLflow opens a view if the address holds its key. Each reader may change a
view for themselves.

Upstream: the keys of a state are those of MLflow 3.17's page (ExperimentPageUIState and the search facets of its JavaScript), and a
named view is MLflow's own "saved view".
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from envknee.study.model import Study
from envknee.tracking.charts import Chart, bars, contour, curve, parallel, scatter, section
from envknee.tracking.describe import HEADLINES

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

KEY = "envknee"
"""Key of the view that opens first."""
TAG = "mlflow.sharedViewState."
"""Begins the name of a view's tag; its key follows."""

POINT = ("num_envs", "horizon", "batch_size")
FPS, MEMORY, TO_TARGET = HEADLINES
FRAMES, SECONDS = "step", "wall_s"
"""What curves are drawn over. MLflow's own relative time would begin with a run's first value, not with its training."""
SMOOTHED = 85
"""Over seconds, the seeds of a group have no values in common: smoothed, their curve is a moving mean over all of them."""


@dataclass(frozen=True)
class View:
    """One view of a study."""

    key: str
    name: str
    """In MLflow's menu."""
    state: dict[str, Any]

    def tag_value(self, place: int) -> str:
        """Return the tag's value. `place` stands for the time of MLflow's own views, so that publishing again changes nothing."""
        state = json.dumps(self.state, sort_keys=True)
        return json.dumps({"name": self.name, "createdAt": place, "updatedAt": place, "state": state}, sort_keys=True)


def show(client: "MlflowClient", experiment: "Experiment", study: Study) -> None:
    """Set the views of an experiment, unless they are set already."""
    for place, view in enumerate(views_of(study), start=1):
        name, value = f"{TAG}{view.key}", view.tag_value(place)
        if experiment.tags.get(name) != value:
            client.set_experiment_tag(experiment.experiment_id, name, value)


def address_of(key: str) -> str:
    """Return the part of an address that makes MLflow show a view."""
    return f"compareRunsMode=CHART&viewStateShareKey={key}"


def views_of(study: Study) -> list[View]:
    """Return the views of a study; the first one is opened first."""
    views = {"Every trial": _every_trial(study)}
    if any(sweep.confirm is not None for sweep in study.sections.values()):
        views |= {"Confirmed settings": _confirmed(study)}
    if study.learning is not None:
        curves = {"Curves by arm and num_envs": _curves(study)}
        views = views | curves if study.learning.is_joint else curves | views
    keys = [KEY, *(f"{KEY}-{place}" for place in range(2, len(views) + 1))]
    return [View(key, name, state) for key, (name, state) in zip(keys, views.items(), strict=True)]


def _every_trial(study: Study) -> dict[str, Any]:
    """Return the state of a view with a row and a line for each trial: sizes and what they cost."""
    axes = [*(["arm"] if len(study.arms) > 1 else []), *POINT]
    sections, charts = [], list[Chart]()
    if study.learning is not None:
        sections.append(section("learning", "Trials that reached the target: seconds"))
        charts.append(
            parallel("learning", axes, [FPS, MEMORY, TO_TARGET] if not study.learning.is_joint else [TO_TARGET])
        )
    if study.throughput is not None:
        sections.append(section("points", "All trials: memory and FPS"))
        charts.append(parallel("points", axes, [MEMORY, FPS]))
    if joint := [metric for metric, sweep in _costs(study) if sweep.is_joint]:
        sections.append(section("maps", "Maps of the settings, and mini-batches of an epoch"))
        for metric in joint:
            charts += [contour("maps", "num_envs", "batch_size", metric), scatter("maps", "num_mini_batches", metric)]
    sections.append(section("curves", CURVES))
    return _state(study, sections, [*charts, *_lines(study)])


def _curves(study: Study) -> dict[str, Any]:
    """Return the state of a view with a group of runs for each arm and num_envs: a click on its eye hides or shows all its curves."""
    sections = [section("curves", CURVES), section("bars", "Seconds to the target")]
    grouped = _grouped("arm", "num_envs") | {
        "useGroupedValuesInCharts": False,
        "searchFilter": "params.kind = 'learning'",
    }
    return _state(study, sections, [*_lines(study), bars("bars", TO_TARGET)]) | grouped


def _confirmed(study: Study) -> dict[str, Any]:
    """Return the state of a view with a mean curve and a bar for each setting with fresh seeds."""
    sections = [section("bars", "Means of fresh seeds"), section("curves", MEANS)]
    charts = [bars("bars", metric) for metric, sweep in _costs(study) if sweep.confirm is not None]
    fresh = _grouped("arm", *POINT) | {"useGroupedValuesInCharts": True, "searchFilter": "params.confirms = 'true'"}
    return _state(study, sections, [*charts, *_lines(study, SMOOTHED)]) | fresh


CURVES = "Curves over environment steps and over seconds of training"
MEANS = "Curves over environment steps (mean, lowest and highest seed) and over seconds (smoothed)"


def _costs(study: Study) -> list[tuple[str, Any]]:
    """Return the metric that each section's trials are compared by, with the section."""
    of_kind = {"throughput": FPS, "learning": TO_TARGET}
    return [(of_kind[kind], sweep) for kind, sweep in study.sections.items()]


def _lines(study: Study, smoothness: int = 0) -> list[Chart]:
    fps = curve("curves", "fps_total", FRAMES)
    if study.learning is None:
        return [fps]
    over_seconds = curve("curves", "reward_average", SECONDS, smoothness)
    return [curve("curves", "reward_average", FRAMES), over_seconds, fps]


def _grouped(*names: str) -> dict[str, Any]:
    keys = [{"mode": "param", "groupByData": name} for name in names]
    return {"groupBy": {"aggregateFunction": "average", "groupByKeys": keys}}


def _state(study: Study, sections: Sequence[dict[str, Any]], charts: Sequence[Chart]) -> dict[str, Any]:
    """Return the state of a view without groups: best trials first, all of them drawn."""
    by_seconds = study.learning is not None
    columns = [
        *(f"params.`{name}`" for name in ("arm", *POINT)),
        *(f"metrics.`{name}`" for name in (TO_TARGET, FPS, MEMORY)),
        "tags.`status`",
        "params.`seed`",
    ]
    return {
        # Sorted by a metric, trials have rows of their own; sorted by time, MLflow would fold them into their arms.
        "orderByKey": f"metrics.`{TO_TARGET if by_seconds else FPS}`",
        "orderByAsc": by_seconds,
        "selectedColumns": columns,
        "columnOrder": columns,
        "runsHiddenMode": "SHOW_ALL",
        "hideEmptyCharts": True,
        "isAccordionReordered": True,  # otherwise sections are sorted by name
        "compareRunSections": list(sections),
        "compareRunCharts": list(charts),
    }
