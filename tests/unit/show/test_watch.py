"""`envknee watch`: what it shows of folders as sweeps leave them, and that it follows one that fills up."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from envknee.record.schema import Lost
from envknee.run.attempts import Attempts
from envknee.show.report import page_so_far
from envknee.show.watch.beside import SLOW_S, Beside, is_time
from envknee.show.watch.follow import Watch
from envknee.show.watch.reading import HALF_WRITTEN_S, Reader
from envknee.show.watch.state import SILENT_S, Running, Seen, findings_of, state_of, verdict_of
from envknee.show.watch.view import fitting_view, view_of
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.paths import StudyFolder
from joint_study import a_study as a_joint_study
from joint_study import measured_trials
from records import a_study, a_trial, fps_trials, write_study, write_trial
from rich.console import Console
from waiting import wait_for

SIZES = {"throughput": {"num_envs": [16, 32, 64], "horizon": [8], "batch_size": 128, "repeats": 3}}
FPS = {16: [100.0, 101.0, 102.0], 32: [190.0, 191.0, 192.0], 64: [193.0, 194.0, 195.0]}
WATCH = [sys.executable, "-m", "envknee", "watch"]


def begin(folder: StudyFolder, number: int, num_envs: int, repeat: int) -> None:
    """Write a trial that runs: a request and a sign of life, without an outcome."""
    trial = folder.trial(number)
    trial.root.mkdir(parents=True)
    trial.request.write_text(canonical_json(a_trial(num_envs, number=number, repeat=repeat).request), encoding="utf-8")
    trial.attempts.write_text(canonical_json(Attempts(began_unix_s=1_700_000_000.0, lost=Lost())), encoding="utf-8")


def shown(folder: StudyFolder, width: int) -> list[str]:
    """Return the lines of the view."""
    out = StringIO()
    Console(file=out, width=width, markup=False, highlight=False, emoji=False).print(view_of(Watch(folder).look()[0]))
    return [line.rstrip() for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("width", [80, 40])
def test_grid_fills_up(tmp_path: Path, width: int) -> None:
    trials = [a_trial(16), a_trial(32, number=1), a_trial(64, number=2, status="oom")]
    trials += [a_trial(64, number=3, repeat=1, status="skipped"), a_trial(16, number=5, repeat=1, status="nan")]
    folder = write_study(tmp_path / "demo", a_study(**SIZES), trials)
    begin(folder, 4, 32, 1)
    lines = shown(folder, width)
    assert max(map(len, lines)) <= width
    assert [line for line in lines if line[:3] in ("16 ", "32 ", "64 ") and "envs" not in line] == [
        "16  ■ x ·",
        "32  ■ ▶ ·",
        "64  ▲ - ·",
    ]
    text = " ".join(lines)
    assert "demo: 2 of 9 done, 1 running, 1 failed, 1 do not fit, 1 skipped, 3 waiting" in text
    assert "throughput stock · 32 envs · T8 · B128 · repeat 2" in text and "runs since" in text
    assert "left" in text and "no sweep" not in text


def test_a_joint_study_has_a_cell_for_its_search_and_one_for_each_round(tmp_path: Path) -> None:
    axes: dict[str, Any] = {"num_envs": [256, 512, 1024], "horizon": [16], "batch_size": [1024, 2048]}
    study = a_joint_study(trials=6, confirm={"settings": 2, "seeds": 3}, **axes)
    trials = measured_trials(study)
    folder = write_study(tmp_path / "demo", study, trials[:-1])
    (tried,) = {trial.request.num_envs for trial in trials[6:8]} - {trials[-1].request.num_envs}
    rows = {line.split()[0]: line for line in shown(folder, 80) if line.startswith(("  256", "  512", "1,024"))}
    assert {size: line.count("■1") for size, line in rows.items()}[f"{tried:,}"] >= 3, "its rounds are whole"
    assert sum(line.count("·") for line in rows.values()) == 2, (
        "the last round has not ended, and two sizes have none there"
    )
    text = " ".join(shown(folder, 80))
    assert "first the search, then a column for each round" in text
    assert "stock, learning: nothing is claimed yet: 5 of 6 fresh seeds have ended" in text


def test_deciding_doubling_beside_its_cut_off(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), fps_trials(FPS))
    text = " ".join(shown(folder, 80))
    assert "reached at 32 environments: doubling to 64 gains" in text and "cut-off" in text
    assert text.endswith("The sweep is whole: every planned trial has ended.")


def test_without_records_all_wait(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [])
    assert "16  · · ·" in shown(folder, 80)
    assert findings_of(verdict_of(a_study(**SIZES), {})) == []


def test_an_attempt_that_was_lost_long_ago_does_not_run(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [a_trial(32, number=1)])
    begin(folder, 0, 16, 0)
    long_ago = time.time() - 2 * SILENT_S
    os.utime(folder.trial(0).attempts, (long_ago, long_ago))
    assert Reader(folder).look().running == []


def test_a_record_that_stays_unreadable_is_named(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [a_trial(16)])
    record = folder.trial(0).record
    record.write_text(record.read_text(encoding="utf-8")[:100], encoding="utf-8")
    long_ago = time.time() - 2 * HALF_WRITTEN_S
    os.utime(record, (long_ago, long_ago))
    with pytest.raises(UserError, match=r"record\.json"):
        Reader(folder).look()


def test_before_the_first_trial_silence_is_preparation(tmp_path: Path) -> None:
    seen = Reader(write_study(tmp_path / "demo", a_study(**SIZES), [])).look()
    assert state_of(a_study(**SIZES), replace(seen, silent_s=720.0), []).end is None


def test_silence_is_told_and_a_sign_of_life_ends_it(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [])
    begin(folder, 0, 16, 0)
    seen = Reader(folder).look()
    assert seen.silent_s < SILENT_S and state_of(a_study(**SIZES), seen, []).end is None
    later = state_of(a_study(**SIZES), replace(seen, silent_s=720.0), [])
    assert later.end == "Nothing has been written for 12 minutes: no sweep seems to run."


def test_records_are_read_once_and_half_written_ones_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [a_trial(16), a_trial(32, number=1)])
    half = folder.trial(1).record
    whole = half.read_text(encoding="utf-8")
    half.write_text(whole[:100], encoding="utf-8")
    reader = Reader(folder)
    first = reader.look().records
    assert list(first) == [0]
    half.write_text(whole, encoding="utf-8")
    second = reader.look().records
    assert list(second) == [0, 1] and second[0] is first[0]


def test_folder_without_study_or_gone(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no study\.json"):
        Watch(StudyFolder(tmp_path))
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [])
    watch = Watch(folder)
    folder.root.rename(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is gone: it was moved or deleted"):
        watch.look()


def test_pipe_follows_a_folder_that_fills_up(tmp_path: Path) -> None:
    trials = fps_trials(FPS)
    folder = write_study(tmp_path / "demo", a_study(**SIZES), trials[:1])
    with subprocess.Popen(
        [*WATCH, str(folder.root)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        for trial in trials[1:]:
            write_trial(folder.trial(trial.request.number), trial)
        lines = [first, *process.stdout]
    assert process.returncode == 0
    assert len(lines) == 10 and lines[0].startswith("[1/9] throughput stock · 16 envs") and lines[8].startswith("[9/9]")
    assert lines[9] == "The sweep is whole: every planned trial has ended.\n"


def test_a_view_that_is_taller_than_the_terminal_counts_trials_in_place_of_grids(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [a_trial(16), a_trial(32, number=1)])
    begin(folder, 2, 64, 0)
    state, _ = Watch(folder).look()
    for height, has_grid in ((24, True), (10, False)):
        console = Console(file=StringIO(), width=80, height=height, markup=False, highlight=False, emoji=False)
        lines = ["".join(part.text for part in line) for line in console.render_lines(fitting_view(state, console))]
        text = "\n".join(lines)
        assert len(lines) < height and ("16  ■ · ·" in text) == has_grid
        assert ("throughput stock: 2 trials ended" in text) != has_grid
        assert "runs since" in text


# --- Beside a sweep ----------------------------------------------------------------------------------------------------


def seen_at(newest_record_s: float, *running: int) -> Seen:
    """Return what a look found: the trials of these numbers run."""
    requests = [a_trial(16, number=number).request for number in running]
    return Seen({}, [Running(request, None) for request in requests], 0.0, newest_record_s)


def test_it_works_as_a_trial_begins_and_not_while_one_is_timed_or_waits_for_a_quiet_machine() -> None:
    now_s = 1000.0
    assert is_time(seen_at(now_s, 5), {4}, now_s)
    assert is_time(seen_at(now_s, 4, 5), {4}, now_s), "side by side"
    assert not is_time(seen_at(now_s - 60.0, 5), {5}, now_s), "it ran at the last look: it is timed now"
    assert not is_time(seen_at(now_s - 1.0), {4}, now_s), "the next launcher looks whether the machine is quiet"
    assert is_time(seen_at(now_s - SLOW_S), set(), now_s), "nothing runs"


def all_but_the_report(folder: StudyFolder) -> dict[Path, tuple[bytes, int]]:
    """Return the bytes and the time of change of the study's files."""
    files = [path for path in folder.root.rglob("*") if path.is_file() and path != folder.report]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_the_report_is_refreshed_when_the_next_trial_begins_and_nothing_else_is_written(tmp_path: Path) -> None:
    trials = fps_trials(FPS)
    folder = write_study(tmp_path / "demo", a_study(**SIZES), trials[:4])
    beside = Beside(folder)
    assert beside.has_news() and "1 running" not in str(beside.look(is_over=False))
    assert not folder.report.exists(), "the next launcher may look whether the machine is quiet"
    assert not beside.has_news()

    begin(folder, 4, 32, 1)
    before = all_but_the_report(folder)
    wait_for(beside.has_news)  # it rests for 20 times what its last look took
    beside.look(is_over=False)
    assert not beside.has_news(), "it rests"
    report = folder.report.read_text(encoding="utf-8")
    assert "4 of 9 trials done" in report and "While the sweep runs, it writes this page again" in report
    assert 'data-chart="throughput"' in report and "<img alt" not in report and 'class="still"' not in report
    assert all_but_the_report(folder) == before and not folder.verdict.exists()

    written = folder.report.stat().st_mtime_ns
    beside.look(is_over=False)
    assert folder.report.stat().st_mtime_ns == written, "no new record"


def test_the_last_report_is_left_to_the_sweep(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), fps_trials(FPS))
    ago = time.time() - 2 * SLOW_S
    for trial in folder.trials.iterdir():
        os.utime(trial, (ago, ago))
    state = Beside(folder).look(is_over=False)
    assert state.is_whole and "cut-off" in state.findings[0]
    assert not folder.report.exists()


def test_a_page_that_took_longer_than_the_last_trial_does_not_replace_the_last_report(
    tmp_path: Path, monkeypatch
) -> None:
    trials = fps_trials(FPS)
    folder = write_study(tmp_path / "demo", a_study(**SIZES), trials[:-1])
    begin(folder, len(trials) - 1, 64, 2)

    def slow_page(*arguments: Any) -> str:
        write_trial(folder.trial(len(trials) - 1), trials[-1])
        return page_so_far(*arguments)

    monkeypatch.setattr("envknee.show.watch.beside.page_so_far", slow_page)
    Beside(folder).look(is_over=False)
    assert len(list(folder.trial_files("record.json"))) == len(trials) and not folder.report.exists()


def test_a_sweep_that_was_stopped_shows_nothing_that_runs(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [a_trial(16)])
    begin(folder, 1, 32, 0)
    beside = Beside(folder)
    assert len(beside.look(is_over=False).running) == 1
    state = beside.look(is_over=True)
    assert state.running == [] and state.counts["waiting"] == 8


def test_more_repeats_are_another_plan(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [a_trial(16)])
    beside = Beside(folder)
    assert not beside.has_another_plan
    later = time.time() + 1.0
    os.utime(folder.study, (later, later))
    assert beside.has_another_plan
