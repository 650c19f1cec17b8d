"""Versions over time: where a measure changes, how often that is wrong, what is refused, and a gate for the last versions."""

import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from envknee.after.archive import write as write_archive
from envknee.after.compare.sides import Side
from envknee.after.history import command
from envknee.after.history.change_points import change_points, least_p, p_of_any_change
from envknee.after.history.study import history_of
from envknee.after.history.versions import without_common_folder
from envknee.study.errors import EXIT_UNDECIDED, EXIT_WORSE, UserError
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.history import History
from programs import run_main, told
from published import ROOT
from records import GPU, Trial, a_study, a_trial, learning_trials, records_of, write_study

SIZES = (16, 32)


def trials(
    rng: random.Random, speed: float = 1.0, memory_gb: float = 1.0, repeats: int = 5, **fields: Any
) -> list[Trial]:
    """Return a version's trials. A repeat has a noise of its own: its trials share a process."""
    made = []
    for repeat in range(repeats):
        noise = rng.gauss(0.0, 0.01)
        for num_envs in SIZES:
            fps = 100.0 * num_envs**0.5 * speed * math.exp(noise + rng.gauss(0.0, 0.005))
            memory = memory_gb * math.exp(rng.gauss(0.0, 0.002))
            trial = a_trial(num_envs, number=len(made), repeat=repeat, fps=fps, memory_gb=memory, **fields)
            made.append(trial)
    return made


def sides(seed: int, *versions: dict[str, Any]) -> list[Side]:
    rng = random.Random(seed)  # noqa: S311  # a test's noise
    return [
        Side(f"v{place}", a_study(), records_of(trials(rng, **fields)), "stock")
        for place, fields in enumerate(versions)
    ]


def of_versions(*versions: dict[str, Any], last: int | None = None, seed: int = 1) -> History:
    return history_of(sides(seed, *versions), 0.95, 0.05, last)


def changes(history: History) -> list[tuple[str, str, str]]:
    return [
        (step.measure, step.after, step.change)
        for machine in history.machines
        for own in machine.measures
        for step in own.changes
    ]


# --- Change points -----------------------------------------------------------------------------------------------------


def test_the_p_value_is_the_share_of_arrangements_that_are_as_extreme():
    """Two versions of three repeats: of 20 arrangements this one and its mirror image have the largest difference."""
    assert p_of_any_change([[0.0, 0.1, 0.2], [1.0, 1.1, 1.2]]) == pytest.approx(2 / 20)
    assert p_of_any_change([[0.0, 1.0, 1.1], [1.2, 0.1, 0.2]]) > 0.5
    assert p_of_any_change([[0.3] * 3, [0.3] * 3]) == 1.0


def test_the_least_p_value_is_that_of_a_series_without_noise():
    for counts in ((3, 3), (5, 5), (2, 3), (3, 3, 3), (1, 4, 2)):
        steps = [
            [[float(place >= begin)] * count for place, count in enumerate(counts)] for begin in range(1, len(counts))
        ]
        noisy = [[[value + 1e-3 * n for n, value in enumerate(own)] for own in series] for series in steps]
        assert least_p(counts) == pytest.approx(min(map(p_of_any_change, noisy)), abs=2e-3), counts


def test_several_changes_are_found_at_their_places_and_no_other():
    rng = np.random.default_rng(1)
    heights = [0.0, 0.0, 0.3, 0.3, 0.3, -0.2, -0.2]
    series = [list(height + rng.normal(0.0, 0.02, 5)) for height in heights]
    steps = change_points(series, 0.05)
    assert [step.place for step in steps] == [2, 5] and all(step.p_value < 0.01 for step in steps)


@pytest.mark.parametrize(("versions", "repeats"), [(2, 5), (6, 3)])
def test_a_history_without_a_change_rarely_shows_one(versions: int, repeats: int):
    """Both measures together err in 5% of histories at most: in 60, more than 8 would be one case in 500."""
    wrong = sum(bool(changes(of_versions(*[{"repeats": repeats}] * versions, seed=seed))) for seed in range(60))
    assert wrong <= 8


def test_a_change_is_named_with_its_size_and_what_differs():
    history = of_versions({}, {}, {"memory_gb": 1.42, "trainer": "skrl"}, {"memory_gb": 1.42, "trainer": "skrl"})
    assert changes(history) == [("memory_peak_gb", "v2", "worse")]
    (step,) = history.machines[0].measures[1].changes
    assert step.ratio == pytest.approx(1.42, abs=0.01) and step.lower is not None and step.lower < step.ratio
    assert [(own.name, own.a, own.b) for own in step.differs] == [("trainer", ["rsl_rl"], ["skrl"])]
    assert history.gate is None


# --- The gate ----------------------------------------------------------------------------------------------------------

SLOW: dict[str, Any] = {"speed": 0.7}


@pytest.mark.parametrize(
    ("versions", "last", "answer"),
    [
        ([{}, {}, {}], 1, "pass"),
        ([{}, {}, SLOW], 1, "fail"),
        ([{}, {}, SLOW, SLOW], 2, "fail"),
        ([{}, {}, SLOW, SLOW], 1, "pass"),  # an earlier loss: the baseline begins after it
        ([SLOW, SLOW, {}], 1, "pass"),
        ([{}, {"repeats": 1}], 1, "inconclusive"),
        ([{}, {"memory_gb": 1.42}], 1, "fail"),
        ([{}, {}, {"speed": 0.97}], 1, "pass"),  # within the margin
    ],
)
def test_the_gate_judges_the_last_versions(versions: list[dict[str, Any]], last: int, answer: str):
    gate = of_versions(*versions, last=last).gate
    assert gate is not None and gate.answer == answer


def test_fewer_successes_of_the_last_version_are_a_loss():
    first, second = sides(1, {}, {})
    broken = [*trials(random.Random(2))[:-1], a_trial(32, number=9, repeat=4, status="oom")]  # noqa: S311
    third = Side("v2", a_study(), records_of(broken), "stock")
    gate = history_of([first, second, third], 0.95, 0.05, 1).gate
    assert gate is not None and gate.answer == "fail"
    (lost,) = gate.machines[0].lost
    assert (lost.place.num_envs, lost.before, lost.last) == (32, (10, 10), (4, 5))


def test_seconds_to_the_target_count_where_every_seed_arrives():
    def version(name: str, seconds: Sequence[float | None]) -> Side:
        return Side(name, a_study(), records_of(learning_trials({16: seconds})), "stock")

    quick, slow = [30.0, 31.0, 32.0, 33.0, 34.0], [45.0, 46.0, 47.0, 48.0, 49.0]
    history = history_of([version("a", quick), version("b", slow)], 0.95, 0.05, None)
    assert ("seconds_to_target", "b", "worse") in changes(history)
    missed = history_of([version("a", quick), version("b", [*slow[:4], None])], 0.95, 0.05, 1)
    assert [own.measure for own in missed.machines[0].measures] == ["memory_peak_gb"]
    assert missed.gate is not None and missed.gate.answer == "fail"


# --- What is refused ---------------------------------------------------------------------------------------------------


def on_machine(side: Side, **changes: Any) -> Side:
    """Return a version whose trials ran on another machine."""

    def moved(record: Any) -> Any:
        environment = record.outcome.environment.model_copy(update=changes)
        return record.model_copy(update={"outcome": record.outcome.model_copy(update={"environment": environment})})

    return Side(side.name, side.study, [moved(record) for record in side.records], side.arm)


def of_task(side: Side, task: str) -> Side:
    records = [
        record.model_copy(update={"request": record.request.model_copy(update={"task_id": task})})
        for record in side.records
    ]
    return Side(side.name, side.study, records, side.arm)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda side: of_task(side, "Isaac-Ant"), ["v2 measured Isaac-Ant", "follows one task"]),
        (lambda side: on_machine(side, host="other"), ["v2 shares no machine", "host other", "on one machine"]),
        (
            lambda side: Side(side.name, side.study, records_of([a_trial(64)]), side.arm),
            ["no point is common", "v2: throughput, 64 environments", "the same num_envs"],
        ),
    ],
)
def test_versions_that_cannot_be_compared_are_refused_with_the_reason(change: Callable[[Side], Side], words: list[str]):
    versions = sides(1, {}, {}, {})
    told(lambda: history_of([*versions[:2], change(versions[2])], 0.95, 0.05, None), *words)


def test_each_machine_that_measured_several_versions_has_a_series_of_its_own():
    versions = sides(1, {}, {}, SLOW, SLOW)
    elsewhere = [on_machine(side, host="other") for side in versions[1:3]]
    both = [
        Side(
            side.name, side.study, [*side.records, *(elsewhere[place - 1].records if place in (1, 2) else [])], side.arm
        )
        for place, side in enumerate(versions)
    ]
    history = history_of(both, 0.95, 0.05, None)
    assert [machine.versions for machine in history.machines] == [["v0", "v1", "v2", "v3"], ["v1", "v2"]]
    assert all(machine.measures[0].level == pytest.approx(0.05 / 4) for machine in history.machines)
    assert [own for own in changes(history) if own[0] == "fps_total"] == [("fps_total", "v2", "worse")] * 2


def test_a_gate_needs_versions_before_those_that_it_judges():
    told(lambda: of_versions({}, {}, last=2), "--gate 2", "fewer than the 2 versions")


# --- The command -------------------------------------------------------------------------------------------------------


def written(root: Path, *versions: dict[str, Any]) -> list[Path]:
    rng = random.Random(1)  # noqa: S311
    return [
        write_study(root / f"v{place}", a_study(), trials(rng, **fields)).root for place, fields in enumerate(versions)
    ]


def test_the_command_prints_draws_and_ends_with_the_gates_status(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "80")
    folders = written(tmp_path, {}, {}, {"memory_gb": 1.42})
    assert run_main(command.main, *folders) == 0
    assert "> 1.42" in capsys.readouterr().out
    words = (*folders, "--gate", "--figure", tmp_path / "h.svg", "--output", tmp_path / "h.json")
    assert run_main(command.main, *words) == EXIT_WORSE
    said = capsys.readouterr().out
    assert "worse  v1 → v2: peak memory +4" in said and "REGRESSION v1 → v2: peak memory +4" in said
    assert "at most 5% of such histories show any change" in said
    assert "Peak memory +4" in (tmp_path / "h.svg").read_text(encoding="utf-8").replace("\n", " ")
    assert json.loads((tmp_path / "h.json").read_text(encoding="utf-8"))["gate"]["answer"] == "fail"
    assert run_main(command.main, *folders[:2], "--gate") == 0
    assert "passed: v1 after v0: a loss of 5% or more is excluded in FPS, total, peak memory" in capsys.readouterr().out


def test_the_page_has_the_answer_the_figure_and_each_version(tmp_path: Path):
    folders = written(tmp_path, {}, {}, {"speed": 0.7})
    file = tmp_path / "found.html"
    run_main(command.main, *folders, "--html", file)
    text = file.read_text(encoding="utf-8")
    assert "<script" not in text and "http" not in text.replace("http-equiv", "").replace("http://www.w3.org", "")
    assert text.count("data:image/svg+xml;base64,") == 1
    assert all(f'<th scope="row">{folder.name}</th>' in text for folder in folders)
    with pytest.raises(UserError, match="missing does not exist. Make it"):
        run_main(command.main, *folders, "--html", tmp_path / "missing/found.html")


def test_an_archive_is_a_version_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folders = written(tmp_path, {}, SLOW)
    archive = write_archive(StudyFolder(folders[1]), tmp_path / "v1.zip")
    assert run_main(command.main, folders[0], archive, "--gate") == EXIT_WORSE
    assert "v0 → v1.zip: total throughput -" in capsys.readouterr().out


def test_few_repeats_are_said_to_show_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folders = written(tmp_path, {"repeats": 3}, {"repeats": 3, "speed": 0.5})
    assert run_main(command.main, *folders, "--gate") == EXIT_UNDECIDED
    said = capsys.readouterr().out
    assert "so few repeats cannot show a change (p is 0.100 at least, and 0.025 is needed)" in said


@pytest.mark.parametrize(
    ("last", "status"), [({}, 0), (SLOW, 1), ({"repeats": 3, "speed": 0.9}, 125)], ids=["good", "bad", "skip"]
)
def test_git_bisect_gets_its_statuses(tmp_path: Path, last: dict[str, Any], status: int):
    folders = written(tmp_path, {"repeats": last.get("repeats", 5)}, last)
    assert run_main(command.main, *folders, "--bisect") == status


def test_a_mistake_ends_a_bisection(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (folder,) = written(tmp_path, {})
    assert run_main(command.main, folder, tmp_path / "none", "--bisect") == 255
    assert "none" in capsys.readouterr().err


def test_bad_words_are_told(tmp_path: Path):
    (folder,) = written(tmp_path, {})
    told(lambda: run_main(command.main, folder), "takes at least two versions, and 1 was given")
    told(lambda: run_main(command.main, folder, folder), "named twice")
    told(lambda: run_main(command.main, folder, folder, "--figure", "x.pdf"), "ends in .svg or .png")
    packed = ROOT / "results-published/cartpole-stock-lean-warp"
    told(lambda: run_main(command.main, folder, packed), "has 3 arms, and a version is one of them", f"{packed}:lean")


def test_names_lose_the_folder_that_they_share():
    assert without_common_folder(["results/v1", "results/v2"]) == ["v1", "v2"]
    assert without_common_folder(["r/x:stock", "r/x:lean"]) == ["stock", "lean"]
    assert without_common_folder(["a", "b/c"]) == ["a", "b/c"]


def test_a_gpu_is_the_same_under_another_name_of_its_host():
    versions = [
        on_machine(side, host=name) for side, name in zip(sides(1, {"device": GPU}, {"device": GPU}), "ab", strict=True)
    ]
    assert [machine.versions for machine in history_of(versions, 0.95, 0.05, None).machines] == [["v0", "v1"]]
