"""Data of the report's charts: each number is the verdict's or a trial's, and what a page holds stays small."""

import json
import math
import re
from typing import Any

import pytest
from drawn import judged
from envknee.decide.study import decide
from envknee.show import report
from envknee.show.charts.coordinates import chart_coordinates
from envknee.show.charts.maps import chart_maps
from envknee.show.charts.memory import chart_memory
from envknee.show.charts.model import Curves, Line, Maps, Mark, Panel
from envknee.show.charts.target import chart_target
from envknee.show.charts.throughput import chart_throughput
from envknee.show.evidence import Evidence
from envknee.show.page_data import page_data
from envknee.show.scripts import LIBRARY, policy, report_scripts
from envknee.study.paths import PROJECT
from envknee.verdict.joint.importance import Importance, importance_of
from envknee.verdict.schema.joint import ExpectedSetting, JointShape
from joint_study import handed_study, handed_trials
from records import GPU, a_study, a_trial, fps_trials, known, learning_trials, records_of


@pytest.fixture(scope="module")
def lean() -> Evidence:
    return judged(handed_trials("lean"), handed_study("lean"))


def maps_of(evidence: Evidence) -> Maps:
    return known(chart_maps(evidence.verdict, evidence.records))


def test_fps_have_every_trial_the_mean_with_its_interval_and_the_threshold():
    trials = fps_trials({16: [100.0, 101.0, 102.0], 32: [150.0, 151.0, 152.0], 64: [151.0, 152.0, 153.0]}, device=GPU)
    ev = judged(trials)
    [limit] = ev.verdict.arms[0].throughput
    fps, gains = known(chart_throughput(ev.verdict, ev.records)).panels
    [line] = fps.lines
    assert [(mark.x, mark.y, mark.low, mark.high) for mark in line.marks] == [
        (point.num_envs, point.fps, point.fps_lower, point.fps_upper) for point in limit.points
    ]
    assert [(mark.x, mark.y, mark.number) for mark in line.trials] == [
        (16, 100.0, 0), (16, 101.0, 1), (16, 102.0, 2), (32, 150.0, 3), (32, 151.0, 4), (32, 152.0, 5),
        (64, 151.0, 6), (64, 152.0, 7), (64, 153.0, 8),
    ]  # fmt: skip
    assert line.marks[0].said[:2] == [f"{line.name}: 16 environments", "101 FPS"] and "3 repeats" in line.marks[0].said
    assert [level.value for level in fps.at_x] == [32] == [limit.threshold_num_envs]
    assert [level.value for level in gains.at_y] == [0.1]
    assert [mark.fill for mark in gains.lines[0].marks] == ["half", "full"]  # pays, stopped


def test_a_size_that_did_not_run_is_named():
    trials = [*fps_trials({16: [100.0], 32: [150.0]}, device=GPU), a_trial(64, number=9, status="oom", device=GPU)]
    ev = judged(trials)
    [fps, *_] = known(chart_throughput(ev.verdict, ev.records)).panels
    assert [(level.value, level.label) for level in fps.at_x] == [(64, "64: out of memory")]


def test_a_seed_that_missed_the_target_is_a_bound():
    ev = judged(learning_trials({16: [20.0, 21.0, None], 32: [25.0, 25.2, 25.4]}, device=GPU))
    seconds, _ = known(chart_target(ev.verdict, ev.records)).panels
    [line] = seconds.lines
    assert [(mark.number, mark.is_bound) for mark in line.trials if mark.x < 20] == [(0, False), (1, False), (2, True)]
    assert [mark.is_bound for mark in line.marks] == [True, False]
    assert "2 of 3 seeds reached it" in line.marks[0].said and line.marks[0].said[1].startswith("more than ")


def test_memory_has_every_peak_and_the_device_where_it_is_near():
    ev = judged(fps_trials({16: [100.0], 32: [150.0]}, device=GPU, memory_gb=0.6 * GPU.memory_gb))
    [panel] = known(chart_memory(ev.verdict, ev.records)).panels
    assert [mark.y for line in panel.lines for mark in line.trials] == [0.6 * GPU.memory_gb] * 2
    assert [level.value for level in panel.at_y] == [GPU.memory_gb]
    far = judged(fps_trials({16: [100.0]}, device=GPU, memory_gb=0.1 * GPU.memory_gb))
    assert known(chart_memory(far.verdict, far.records)).panels[0].at_y == []


def test_a_map_has_every_legal_setting_with_the_models_interval_and_what_was_measured_there(lean: Evidence):
    [answer] = lean.verdict.arms[0].joint
    [surface] = maps_of(lean).surfaces
    cells = {(cell.num_envs, cell.horizon, cell.batch_size): cell for cell in surface.cells}
    assert len(cells) == len(known(answer.shape).expected) == answer.legal_settings
    assert all(known(cell.low) < cell.value < known(cell.high) for cell in cells.values())
    assert all(cell.times_either_way == pytest.approx(math.sqrt(cell.high / cell.low)) for cell in cells.values())
    likely = {(own.num_envs, own.horizon, own.batch_size) for own in answer.likely}
    assert {key for key, cell in cells.items() if cell.may_be_best} == likely
    fresh = {(own.num_envs, own.horizon, own.batch_size) for own in answer.confirmed if own.may_be_best}
    assert {key for key, cell in cells.items() if cell.not_slower} == fresh
    assert sum(cell.tried for cell in cells.values()) == len(lean.records)
    spent = sum(record.outcome.status == "timeout" for record in lean.records)
    assert sum(cell.missed for cell in cells.values()) == spent > 0
    # Where nothing was tried, the model says less than where it was.
    tried, untried = (
        [known(cell.times_either_way) for cell in cells.values() if (cell.tried > 2) == often]
        for often in (True, False)
    )
    assert sum(untried) / len(untried) > sum(tried) / len(tried)


def test_coordinates_have_every_trial_of_the_search_and_how_much_each_axis_matters(lean: Evidence):
    [search] = known(chart_coordinates(lean.verdict, lean.records)).searches
    assert search.axes == ["num_envs", "horizon", "batch size", "seconds"]
    searched = [record for record in lean.records if not record.request.confirms]
    assert [trial.number for trial in search.trials] == [record.request.number for record in searched]
    first = searched[0].request
    assert search.trials[0].values[:3] == (first.num_envs, first.horizon, first.batch_size)
    assert sum(trial.is_bound for trial in search.trials) == sum(r.outcome.status == "timeout" for r in searched)
    times = [bar.times for bar in search.bars]
    assert {bar.name for bar in search.bars} == {"num_envs", "horizon", "batch size"}
    assert times == sorted(times, reverse=True) and min(times) > 1.0


def test_importance_is_the_worst_value_over_the_best_with_the_other_axes_at_their_best():
    costs = {(1, 8, 4): 2.0, (1, 8, 8): 9.0, (2, 8, 4): 6.0, (2, 8, 8): 3.0}
    expected = [
        ExpectedSetting(num_envs=n, horizon=horizon, batch_size=batch, cost=cost)
        for (n, horizon, batch), cost in costs.items()
    ]
    shape = JointShape(profiles=[], expected=expected, frames=[], regret=[])
    # The least costs are 2 and 3 by num_envs, 2 and 3 by batch; one horizon is no axis.
    assert importance_of(shape) == [Importance("num_envs", 1, 2, 1.5), Importance("batch size", 4, 8, 1.5)]


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(known(found)[1])


def test_a_page_of_many_trials_holds_all_of_them_and_few_static_rows():
    trials = fps_trials({16: [100.0 + n for n in range(400)], 32: [150.0 + n for n in range(300)]}, device=GPU)
    records = records_of(trials)
    page = report.page(decide(records, a_study()), [(record, {}) for record in records], {})
    data = data_of(page)
    assert [row["cells"][0] for row in data["trials"]["rows"]] == [str(number) for number in range(700)]
    static = page.replace(json.dumps(data), "")
    assert static.count("<tr class=") == report.STATIC_TRIALS == 500
    assert "this table ends after 500 of 700 trials" in page


def test_links_of_every_trial_follow_from_one_address():
    records = records_of(fps_trials({16: [1.0, 2.0]}, first=41, device=GPU))
    trials = [(record, {"log": f"trials/{record.request.number:04d}/trial.log"}) for record in records]
    table = data_of(report.page(decide(records, a_study()), trials, {}))["trials"]
    assert table["addresses"] == {"log": ["trials/", "/trial.log"]}
    assert table["link_sets"] == [["log"]] and [row["links"] for row in table["rows"]] == [0, 0]


def test_a_number_that_json_lacks_is_no_value():
    mark = Mark(x=16.0, y=100.123456789, low=None, high=math.inf, said=["a"])
    line = Line(name="a", arm="a", colour="#000", symbol="circle", marks=[mark])
    chart = Curves(panels=[Panel(x_label="x", y_label="y", y_scale="log", lines=[line])])
    [panel] = json.loads(page_data([], {"throughput": chart}))["charts"]["throughput"]["panels"]
    assert panel["lines"][0]["marks"][0] | {"y": 100.123, "high": None} == panel["lines"][0]["marks"][0]


def test_the_library_is_in_pages_with_a_chart_alone_and_comes_with_its_licence():
    with_charts, without = report_scripts(True), report_scripts(False)
    assert len(with_charts) == len(without) + 2
    assert sum(len(script.text) for script in without) < 20_000
    assert policy([]).count("script") == 0
    folder = (PROJECT / "workflow/report" / LIBRARY).parent
    version = known(re.search(r"# Apache ECharts (\S+)", (folder / "README.md").read_text(encoding="utf-8")))[1]
    assert f't.version="{version}"' in (folder / "echarts.min.js").read_text(encoding="utf-8")
    assert "Apache License" in (folder / "LICENSE").read_text(encoding="utf-8") and (folder / "NOTICE").exists()
