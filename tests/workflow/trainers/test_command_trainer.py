"""`trainer: command`: a program that knows nothing of envknee, through the real launcher: its rows, and each way to end."""

import os
import re
import time
from pathlib import Path

import pytest
from envknee.machine import processes
from envknee.record.read import read_rows
from envknee.run import foreign
from envknee.run import launch as launcher
from envknee.study.errors import UserError
from envknee.study.paths import TrialFolder
from envknee.trainers.command import program
from envknee.words.progress import result_words
from foreign_commands import ROWS, a_request, an_arm, measured
from records import known


@pytest.mark.parametrize("log", list(ROWS))
def test_every_kind_of_log_gives_rows_timed_by_its_own_clock(log: str, tmp_path: Path):
    # Printed rows have no time of their own: two that a busy machine reads at once could not be told apart.
    slower = 10.0 if log == "print" else 1.0
    arm = an_arm(log)
    arm["command"]["argv"] += ["--slower", f"{slower}"]
    began = time.monotonic()
    record, trial = measured(tmp_path, a_request(arm))
    took_s = time.monotonic() - began
    assert record.outcome.status == "ok"
    rows = read_rows(trial)
    assert [row.warmup for row in rows] == [True, False, False, False, False]
    assert [row.frames for row in rows] == [256, 512, 768, 1024, 1280]
    assert rows[0].fps_total is None and record.fps_total is not None
    # An iteration of 256 transitions sleeps for so long; nothing makes it shorter.
    iteration_s = 0.0328 * slower
    assert 256 / took_s < record.fps_total.median <= 256 / iteration_s * 1.5
    assert [row.reward_mean for row in rows] == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert rows[1].losses == {"value": 0.5}
    assert record.memory_peak_gb is not None and 0.005 < record.memory_peak_gb < 2
    absent = '"env_step_s"', '"episodes"', '"action_std"'
    assert not any(name in trial.metrics.read_text(encoding="utf-8") for name in absent), "what is not told is absent"
    assert (trial.root / "run/log.csv").exists() is (log == "csv"), "the program runs in a folder of its own"
    if log == "print":
        assert record.collect_s is None and record.learn_s is None
    else:
        assert record.collect_s is not None and record.collect_s.median == pytest.approx(0.7 * iteration_s, rel=1e-3)
        assert record.fps_env_step_inference is not None


def test_a_command_is_timed_for_all_its_iterations_whatever_the_precision(tmp_path: Path):
    record, trial = measured(tmp_path, a_request(an_arm(), precision=0.9))
    assert record.outcome.status == "ok" and len(read_rows(trial)) == 5


def test_a_long_start_is_followed_by_longer_timing(tmp_path: Path):
    record, trial = measured(tmp_path, a_request(an_arm(breaks="starts"), timed_share=0.333))
    assert record.outcome.status == "ok"
    timed_s = sum(known(row.iteration_s) for row in read_rows(trial)[1:])
    assert timed_s >= 0.333 * 4.0, "it sleeps for 4 s before its first iteration"
    assert 4 < known(record.fps_total).iterations < 80, "five alone are 0.2 s; the most are 80"
    assert re.search(r"\(start \d\.\d s; timed \d\.\d s\)", result_words(record))


def test_a_program_that_ends_before_it_was_timed_for_as_long_as_it_may_is_a_success(tmp_path: Path):
    arm = an_arm(breaks="starts")
    arm["command"]["argv"] = ["9" if word == "{iterations}" else word for word in arm["command"]["argv"]]
    record, trial = measured(tmp_path, a_request(arm, timed_share=0.333))
    assert record.outcome.status == "ok" and len(read_rows(trial)) == 9


def test_a_row_of_which_the_end_is_written_late_is_whole(tmp_path: Path):
    rows = ROWS["tensorboard"] | {"path": "logs/run/*"}
    _, trial = measured(tmp_path, a_request(an_arm("tensorboard", breaks="torn", rows=rows)))
    assert [row.losses for row in read_rows(trial)] == [{"value": 0.5}] * 5


def test_enough_rows_are_a_success_though_the_program_hangs_at_its_end(tmp_path: Path):
    started = time.monotonic()
    record, _ = measured(tmp_path, a_request(an_arm(breaks="hangs-at-its-end")))
    assert record.outcome.status == "ok" and time.monotonic() - started < 600, "it sleeps for 600 s"


@pytest.mark.parametrize(
    ("breaks", "status", "words"),
    [
        ("oom", "oom", "CUDA out of memory. Tried to allocate 20.00 GiB"),
        ("nan", "nan", "losses/value became nan"),
        ("diverge", "diverged", "losses/value grew to 1e+12"),
        ("hang", "timeout", "it hangs: no row for"),
        ("overflow", "invalid", "collisionStackSize"),
    ],
)
def test_each_end_has_the_status_that_other_trials_have(breaks: str, status: str, words: str, tmp_path: Path):
    arm = an_arm(breaks=breaks, hang_s=3.0, invalid={"collisionStackSize": "PhysX dropped contacts"})
    record, _ = measured(tmp_path, a_request(arm))
    reason = known(record.outcome.reason)
    assert record.outcome.status == status and words in reason
    if status == "oom":
        assert known(record.outcome.failure).requested_gb == pytest.approx(21.47, abs=0.01)
    if status == "invalid":
        assert "PhysX dropped contacts" in reason


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        ("crash", "KeyError: 'no such robot'\nThe command ended with exit status 1 after 2 of 5 rows."),
        ("quiet-crash", "ValueError: the stage is gone\nThe command ended with exit status 0 after 2 of 5 rows."),
        ("garbage", "left no row"),
        (
            "asks",
            "EOFError: EOF when reading a line\nThe command ended with exit status 1 after 2 of 5 rows. It asked for input",
        ),
    ],
)
def test_what_is_no_result_says_why_and_leaves_no_record(breaks: str, words: str, tmp_path: Path):
    with pytest.raises(UserError, match=re.escape(words)):
        measured(tmp_path, a_request(an_arm(breaks=breaks)))
    assert not (tmp_path / "trials/0000/record.json").exists()


def test_a_program_that_crashes_twice_is_a_record_with_the_line_that_says_why(tmp_path: Path):
    with pytest.raises(UserError, match="ended without a result"):
        measured(tmp_path, a_request(an_arm(breaks="crash")))
    record = launcher.launch(TrialFolder(tmp_path / "trials" / "0000"))
    assert (record.outcome.status, record.outcome.reason) == ("crashed", "KeyError: 'no such robot'")


def test_a_program_that_a_fault_of_its_own_kills_twice_has_crashed(tmp_path: Path):
    with pytest.raises(UserError, match="ended by SIGSEGV after 2 of 5 rows"):
        measured(tmp_path, a_request(an_arm(breaks="illegal-access")))
    assert launcher.launch(TrialFolder(tmp_path / "trials" / "0000")).outcome.status == "crashed"


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        ("full-disk", "the disk was full. The command ended with exit status 1 after 2 of 5 rows. That is no crash"),
        (
            "killed-below",
            "SIGKILL ended it. The command ended with exit status 137 after 2 of 5 rows. That is no crash",
        ),
    ],
)
def test_an_end_from_outside_is_no_crash_however_often_it_comes(breaks: str, words: str, tmp_path: Path):
    trial = TrialFolder(tmp_path / "trials" / "0000")
    with pytest.raises(UserError, match=words):
        measured(tmp_path, a_request(an_arm(breaks=breaks)))
    for _ in range(2):
        with pytest.raises(UserError, match=words):
            launcher.launch(trial)
    assert not trial.outcome.exists() and not trial.record.exists()


def test_own_processes_keep_compiled_modules_and_the_command_does_as_its_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("PATH", processes.USERS_NO_BYTECODE, program.USERS_PATH, "PYTHONSAFEPATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # so that they are put back
    monkeypatch.delenv(processes.USERS_NO_BYTECODE)
    monkeypatch.setenv(processes.NO_BYTECODE, "1")
    processes.own_python_first()
    assert processes.NO_BYTECODE not in os.environ
    of_command = foreign._variables(a_request(an_arm()), tmp_path, 0)
    assert of_command[processes.NO_BYTECODE] == "1" and processes.USERS_NO_BYTECODE not in of_command


def test_an_error_to_mend_is_no_crash_however_often_it_is_tried(tmp_path: Path):
    with pytest.raises(UserError, match="left no row"):
        measured(tmp_path, a_request(an_arm(breaks="garbage")))
    for _ in range(2):
        with pytest.raises(UserError, match="left no row"):
            launcher.launch(TrialFolder(tmp_path / "trials" / "0000"))


def test_the_first_row_may_take_as_long_as_compiling_takes(tmp_path: Path):
    record, _ = measured(tmp_path / "whole", a_request(an_arm(breaks="compiles", first_row_s=3.0)))
    assert record.outcome.status == "ok"
    (said,) = [warning for warning in record.outcome.warnings if "compiled" in warning]
    assert 2.0 < known(record.outcome.compile_s) < 30.0, "it compiles for 4 s"
    assert ", of which compiling " in result_words(record)
    assert re.fullmatch(
        r"the first row came after \d+ s, because the command compiled: later trials may be quicker", said
    )
    for breaks, words in (
        ("compiles", "no row came within 3.6 s (4 x command.first_row_s, because it compiles)"),
        ("starts", "no row came within 0.9 s (command.first_row_s)"),
    ):
        arm = an_arm(breaks=breaks, first_row_s=0.9)
        if breaks == "compiles":
            # A busy machine may need longer than 0.9 s for Python's start: a shell says it at once.
            arm["command"]["argv"][:0] = [
                "sh",
                "-c",
                "echo 'Module physics load took 812.52 ms  (compiled)'; exec \"$@\"",
                "sh",
            ]
        with pytest.raises(UserError, match=re.escape(words)):
            measured(tmp_path / breaks, a_request(arm))


def test_fps_that_a_program_tells_wrongly_are_not_believed(tmp_path: Path):
    record, _ = measured(tmp_path, a_request(an_arm(breaks="lie")))
    assert record.fps_total is not None and record.fps_total.median < 12_000
    assert any("the command says 78,049 FPS" in warning for warning in record.outcome.warnings), record.outcome.warnings


def test_a_program_that_changes_its_number_of_environments_is_found_out(tmp_path: Path):
    record, _ = measured(tmp_path, a_request(an_arm(breaks="half-above-32")))
    assert record.outcome.status == "ok"
    said = (
        "its log counts 128 transitions a row, and 64 environments with horizon 4 make 256: as if 32 environments ran"
    )
    assert any(said in warning for warning in record.outcome.warnings), record.outcome.warnings


def test_memory_that_grows_all_the_time_makes_a_point_invalid(tmp_path: Path):
    request = a_request(an_arm(breaks="leak"), iterations=8)
    record, _ = measured(tmp_path, request)
    assert record.outcome.status == "invalid" and "memory grew through 8 iterations" in (record.outcome.reason or "")


def test_tags_that_do_not_exist_are_told_with_the_nearest(tmp_path: Path):
    rows = ROWS["tensorboard"] | {"names": {"fps": "Perf/total_fp"}, "losses": {}}
    with pytest.raises(UserError, match=r"none of 'Perf/total_fp' \(did you mean 'Perf/total_fps'\?\)"):
        measured(tmp_path, a_request(an_arm("tensorboard", rows=rows)))


def test_a_learning_trial_ends_at_its_target(tmp_path: Path):
    record, _ = measured(tmp_path, a_request(an_arm(), "learning"))
    assert record.outcome.status == "target_reached"
    assert record.frames_to_target == 6 * 32 and record.final_reward == 3.0
    assert record.seconds_to_target is not None and record.seconds_to_target > 6 * 0.02
