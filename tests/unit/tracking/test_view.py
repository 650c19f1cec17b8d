"""MLflow's views of a study: which runs they show, and charts that the study can fill."""

import json
from typing import Any

import pytest
from envknee.study.model import Study
from envknee.tracking.view import KEY, View, views_of
from joint_study import a_study as a_joint_study
from records import LEARNING, a_study

LONGEST_TAG = 5000
"""Of an experiment, in a store of MLflow before 3.0; later ones take 20,000."""


def state_of(study: Study, name: str) -> dict[str, Any]:
    (state,) = [view.state for view in views_of(study) if view.name == name]
    return state


def charts_of(state: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [chart for chart in state["compareRunCharts"] if chart["type"] == kind]


def confirmed() -> Study:
    return a_joint_study(trials=24, confirm={"settings": 3, "seeds": 3}, arms={"stock": {}, "lean": {}})


@pytest.mark.parametrize(
    ("study", "names"),
    [
        (a_study(), ["Every trial"]),
        (a_study(learning=LEARNING), ["Curves by arm and num_envs", "Every trial"]),
        (confirmed(), ["Every trial", "Confirmed settings", "Curves by arm and num_envs"]),
        (a_joint_study("throughput", confirm={"settings": 3, "seeds": 3}), ["Every trial", "Confirmed settings"]),
    ],
    ids=["throughput", "learning", "joint", "joint FPS"],
)
def test_a_study_has_the_views_that_answer_its_question(study: Study, names: list[str]) -> None:
    views = views_of(study)
    assert [view.name for view in views] == names
    assert views[0].key == KEY and len({view.key for view in views}) == len(views)
    for place, view in enumerate(views, start=1):
        check(view, view.tag_value(place))


def check(view: View, tag: str) -> None:
    """Check that a view draws all runs, and that each of its charts is in one of its sections, and each section filled."""
    assert len(tag) < LONGEST_TAG
    named = json.loads(tag)
    assert (named["name"], json.loads(named["state"])) == (view.name, view.state)
    assert view.state["runsHiddenMode"] == "SHOW_ALL"
    charts = view.state["compareRunCharts"]
    sections = {section["uuid"] for section in view.state["compareRunSections"]}
    assert {chart["metricSectionId"] for chart in charts} == sections
    assert len({chart["uuid"] for chart in charts}) == len(charts)


def test_curves_are_over_frames_and_over_seconds_of_training() -> None:
    """MLflow's relative time would begin with the first value of a run, and lose the seconds before it."""
    for name in ("Curves by arm and num_envs", "Every trial"):
        curves = charts_of(state_of(a_study(learning=LEARNING), name), "LINE")
        axes = [(curve["metricKey"], curve["xAxisKey"], curve["selectedXAxisMetricKey"]) for curve in curves]
        assert axes[:2] == [("reward_average", "step", ""), ("reward_average", "metric", "wall_s")]
        assert ("fps_total", "step", "") in axes


def test_the_soonest_trials_come_first_or_without_learning_the_fastest() -> None:
    for study, order in ((a_study(learning=LEARNING), ("seconds_to_target", True)), (a_study(), ("fps", False))):
        state = views_of(study)[0].state
        assert (state["orderByKey"], state["orderByAsc"]) == (f"metrics.`{order[0]}`", order[1])
        assert {f"params.`{name}`" for name in ("arm", "num_envs", "horizon", "batch_size")} <= set(
            state["selectedColumns"]
        )


def test_a_joint_study_has_its_axes_with_the_cost_as_colour_and_a_map() -> None:
    state = state_of(confirmed(), "Every trial")
    (parallel,) = charts_of(state, "PARALLEL")
    assert parallel["selectedParams"] == ["arm", "num_envs", "horizon", "batch_size"]
    assert parallel["selectedMetrics"] == ["seconds_to_target"]  # the last one is the colour
    (contour,), (scatter,) = charts_of(state, "CONTOUR"), charts_of(state, "SCATTER")
    assert [contour[axis]["key"] for axis in ("xaxis", "yaxis", "zaxis")] == [
        "num_envs",
        "batch_size",
        "seconds_to_target",
    ]
    assert [scatter[axis]["key"] for axis in ("xaxis", "yaxis")] == ["num_mini_batches", "seconds_to_target"]
    fps = state_of(a_joint_study("throughput"), "Every trial")
    assert charts_of(fps, "CONTOUR")[0]["zaxis"]["key"] == charts_of(fps, "PARALLEL")[0]["selectedMetrics"][-1] == "fps"


def test_confirmed_settings_are_groups_of_their_fresh_seeds() -> None:
    state = state_of(confirmed(), "Confirmed settings")
    keys = [key["groupByData"] for key in state["groupBy"]["groupByKeys"]]
    assert keys == ["arm", "num_envs", "horizon", "batch_size"]
    assert (state["useGroupedValuesInCharts"], state["searchFilter"]) == (True, "params.confirms = 'true'")
