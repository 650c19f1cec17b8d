"""`envknee watch`: what it shows of folders as sweeps leave them, and that it follows one that fills up."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from envknee.record.schema import Lost
from envknee.run.attempts import Attempts
from envknee.show.watch.command import Watch
from envknee.show.watch.reading import HALF_WRITTEN_S, Reader
from envknee.show.watch.state import SILENT_S, findings_of, state_of
from envknee.show.watch.view import view_of
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.paths import StudyFolder
from records import a_study, a_trial, fps_trials, write_study, write_trial
from rich.console import Console

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


def test_deciding_doubling_beside_its_cut_off(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), fps_trials(FPS))
    text = " ".join(shown(folder, 80))
    assert "reached at 32 environments: doubling to 64 gains" in text and "cut-off" in text
    assert text.endswith("The sweep is whole: every planned trial has ended.")


def test_without_records_all_wait(tmp_path: Path) -> None:
    folder = write_study(tmp_path / "demo", a_study(**SIZES), [])
    assert "16  · · ·" in shown(folder, 80)
    assert findings_of(a_study(**SIZES), {}) == []


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
