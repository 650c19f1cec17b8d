"""The atlas: its list, the searches that it runs, and the table and figure of what is kept (tests/fixtures/atlas: a real search)."""

import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from drawn import texts
from envknee.run import knee
from envknee.study.errors import UserError
from envknee.study.files import write_atomically
from envknee.study.paths import StudyFolder
from matplotlib.axes import Axes
from places import ROOT
from programs import run_main, told

from benchmarks.atlas import figure, kept, lanes, sittings, words
from benchmarks.atlas.listed import LIST, read_atlas
from benchmarks.atlas.sittings import Search, Sitting
from benchmarks.pages import atlas as page

ATLAS = read_atlas()
KEPT = ROOT / "tests/fixtures/atlas"


def changed_list(tmp_path: Path, where: tuple[str, ...], value: object) -> Path:
    """Return a copy of the list with one value changed."""
    data = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    place = data
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    path = tmp_path / "tasks.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


def test_the_list_has_tasks_of_several_programs_with_and_without_pixels_and_contacts():
    assert len(ATLAS.tasks) >= 10 and len({task.program for task in ATLAS.tasks.values()}) >= 5
    assert {task.observations for task in ATLAS.tasks.values()} == {"state", "pixels"}
    assert {task.contacts for task in ATLAS.tasks.values()} == {True, False}
    assert {task.program for task in ATLAS.tasks.values()} == set(ATLAS.programs), "no program without a task"


@pytest.mark.parametrize(
    ("where", "value", "named"),
    [
        (("tasks", "mjlab-cartpole", "program"), "mjlap", ("'mjlap'", "did you mean 'mjlab'")),
        (("tasks", "mjlab-cartpole", "form"), 4, ("tasks.mjlab-cartpole.form: unknown key", "from")),
        (("tasks", "Mjlab"), {"program": "mjlab", "about": "x", "command": ["x"], "observations": "state", "contacts": True},
         ("'Mjlab' names a study",)),
        (("programs", "mjlab", "preset"), "mjlap", ("did you mean 'mjlab'",)),
        (("tasks", "mjlab-cartpole-learning", "num_envs"), None, ("target_reward needs num_envs",)),
        (("tasks", "mjlab-cartpole-learning", "budget_s"), None, ("target_reward and budget_s belong together",)),
    ],
    ids=["program", "key", "name", "preset", "no sizes", "no budget"],
)  # fmt: skip
def test_a_wrong_list_says_what_is_wrong(where: tuple[str, ...], value: object, named: tuple[str, ...], tmp_path: Path):
    path = changed_list(tmp_path, where, value)
    told(lambda: read_atlas(path), str(path), *named)


def test_a_name_that_is_not_in_the_list_is_refused_with_the_nearest():
    assert ATLAS.named([]) == list(ATLAS.tasks)
    told(lambda: ATLAS.named(["mjlab-cartpol"]), "did you mean 'mjlab-cartpole'")


@pytest.mark.parametrize("name", ATLAS.tasks)
def test_knee_takes_the_options_of_every_task(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It writes a study of them, with a program of this machine in place of the task's."""
    monkeypatch.chdir(tmp_path)
    task = ATLAS.tasks[name]
    _, *arguments = words.knee(name, ATLAS.program_of(name), task, [sys.executable], 300.0, on_gpu=False)
    assert (
        run_main(knee.main, *arguments[: arguments.index("--")], "--dry-run", *arguments[arguments.index("--") :]) == 0
    )
    study = yaml.safe_load((tmp_path / "results" / name / "knee.yaml").read_text(encoding="utf-8"))
    command = study["arms"]["command"]["command"]
    assert command["argv"][1:] == task.command and command["preset"] == ATLAS.program_of(name).preset
    assert ("learning" in study) == (task.target_reward is not None)
    assert task.repeats is None or study["throughput"]["repeats"] == task.repeats
    if task.num_envs is None:
        assert study["throughput"]["num_envs"]["from"] == task.first_size


def test_what_a_user_types_repeats_the_search():
    name = "mjlab-cartpole"
    typed = words.typed(ATLAS.program_of(name), ATLAS.tasks[name])
    assert typed == "envknee knee --preset mjlab --from 16384 -- train Mjlab-Cartpole-Balance"


def test_programs_start_with_other_words_on_another_machine():
    assert words.starts_of(["mjlab=/a/train -q", "cleanrl=python"], ATLAS.programs) == {
        "mjlab": ["/a/train", "-q"], "cleanrl": ["python"],
    }  # fmt: skip
    told(lambda: words.starts_of(["mjlap=x"], ATLAS.programs), "did you mean 'mjlab'")
    told(lambda: words.starts_of(["mjlab="], ATLAS.programs), "expected NAME=WORDS")


def a_search(task: str, *ended: sittings.Ended) -> Search:
    return Search(task=task, typed="x", sittings=[Sitting(seconds=10.0, gpu=None, ended=how) for how in ended])


def test_a_task_with_an_answer_is_skipped_and_any_other_goes_on(tmp_path: Path):
    names = ["mjlab-cartpole", "genesis-go2", "genesis-drone", "mjlab-lift-cube"]
    how: dict[str, list[sittings.Ended]] = {
        "mjlab-cartpole": ["time over", "answered"], "genesis-go2": ["time over"], "genesis-drone": ["failed"],
    }  # fmt: skip
    for name, ended in how.items():
        sittings.write_search(tmp_path / name, a_search(name, *ended))
    assert lanes.pending(ATLAS, names, tmp_path) == names[1:]
    assert lanes.search_of(ATLAS, "mjlab-cartpole", tmp_path).seconds == 20.0


def test_tasks_of_a_program_that_is_left_out_are_not_run_and_the_page_says_why(tmp_path: Path):
    names = ["mani-skill-pick-cube", "genesis-drone"]
    assert lanes.pending(ATLAS, names, tmp_path) == names[1:]
    rows = page.not_run().splitlines()
    assert any(row.startswith("| `mani-skill-pick-cube` | ") and "libPhysXGpu_64.so" in row for row in rows)


@pytest.mark.parametrize(
    ("ends", "expected"),
    [(math.inf, 300.0), (500.0, 300.0), (200.0, 100.0), (160.0, 60.0), (159.0, None), (90.0, None)],
)
def test_the_last_search_gets_the_time_that_is_left(ends: float, expected: float | None, tmp_path: Path):
    options = lanes.Options(work=tmp_path, kept=tmp_path, starts={}, time_s=300.0, ends=ends)
    assert lanes.time_for(options, now=100.0) == expected


def test_how_a_search_ended_follows_from_its_folder_and_status(tmp_path: Path):
    study = StudyFolder(tmp_path)
    assert lanes.how_it_ended(study, 0) == "answered" and lanes.how_it_ended(study, 1) == "failed"
    write_atomically(study.time_over, '{"num_envs": 8, "expected_s": 30.0, "left_s": 2.0}')
    assert lanes.how_it_ended(study, 0) == "time over"


def test_the_reason_of_a_failure_is_envknees_own_last_line():
    printed = "envknee: first\nenvknee: \x1b[31mit broke\x1b[0m\nWorkflowError:\nAt least one job did not complete.\n\n"
    assert lanes.reason_in(printed) == "[31mit broke[0m"
    assert lanes.reason_in("bash: no such file\n") == "bash: no such file"
    assert lanes.reason_in("") == "it printed nothing"


def test_the_reason_stands_in_the_page_unless_there_are_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    failed = a_search("genesis-go2").with_sitting(Sitting(seconds=1.0, gpu="0", ended="failed"), "no a | b")
    kept.keep(StudyFolder(tmp_path / "nothing"), failed, tmp_path)
    assert kept.measured(tmp_path) == []
    monkeypatch.setattr(kept.without_verdict, "__defaults__", (tmp_path,))
    assert page.not_run().splitlines()[-1] == "| `genesis-go2` | no a \\| b |"


@pytest.fixture(scope="module")
def measured() -> kept.Measured:
    """A search of CleanRL's cheetah with few environments, on one core of a busy CPU."""
    (found,) = kept.measured(KEPT)
    return found


def test_a_row_has_what_was_measured_where_the_knee_is(measured: kept.Measured):
    cells = dict(zip(page.HEADS, page.row(measured, ATLAS), strict=True))
    headline = measured.arm.headline
    assert headline is not None and measured.arm.recommended is not None
    there = [own for own in measured.records if own.request.num_envs == headline.num_envs]
    slowest, fastest = (of(own.fps_total.median for own in there if own.fps_total) for of in (min, max))
    assert slowest - 1 <= float(cells["FPS there"].replace(",", "")) <= fastest + 1
    assert float(cells["GB there"]) == pytest.approx(max(own.memory_peak_gb or 0.0 for own in there), abs=0.006)
    assert cells["knee"] == page.knee(measured)
    assert cells["program"] == "CleanRL of April 2026" and cells["trials"] == f"{len(measured.records)}"
    assert cells["seconds"] == f"{sum(own.seconds for own in measured.search.sittings):,.0f}"
    assert cells["GPU-hours"] == "–", "a CPU has none"
    assert "–" not in {cells["gain beyond"], cells["gain to there"]} or measured.arm.recommended.state != "reached"


def test_versions_and_commit_are_those_of_the_trials(measured: kept.Measured):
    assert "gymnasium 0.29.1" in page.versions(measured).split(", ")
    assert re.fullmatch(r"[0-9a-f]{10}(, [0-9a-f]{10})*", page.commits(measured))


def points_of(axes: Axes) -> set[tuple[float, float]]:
    """Return what the lines of a panel go through."""
    return {(float(x), float(y)) for line in axes.lines for x, y in np.asarray(line.get_xydata())}


def test_the_figure_has_two_panels_for_each_task_with_every_repeat(measured: kept.Measured):
    other = measured._replace(search=measured.search.model_copy(update={"task": "another"}))
    drawn = figure.draw([measured, other])
    shown = [axes for axes in drawn.axes if axes.get_visible()]
    titles = [axes.get_title() for axes in shown]
    assert titles == [measured.search.task, "another", "", ""]
    limit = measured.arm.recommended
    assert limit is not None
    repeats = {(float(point.num_envs), fps) for point in limit.points for fps in point.fps_repeats}
    assert repeats <= points_of(shown[0]) and repeats <= points_of(shown[1])
    assert {(float(gain.num_envs), gain.gain) for gain in limit.gains} <= points_of(shown[2])
    assert "cut-off 10%" in texts(drawn)


def test_a_figure_without_a_doubling_is_refused():
    with pytest.raises(UserError, match=r"no task of the atlas has a doubling yet\. Run `python -m benchmarks\.atlas`"):
        figure.draw([])
