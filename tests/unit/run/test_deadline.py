"""No trial begins that is expected to end after the time of `envknee knee --time`; how long one takes follows from earlier trials alone."""

import argparse
from pathlib import Path

import pytest
from envknee.record.schema import Request
from envknee.run import deadline, knee
from envknee.study.files import canonical_json, write_atomically
from envknee.study.paths import StudyFolder
from records import Trial, a_study, a_trial, write_study


def took(num_envs: int, total_s: float, setup_s: float, number: int = 0) -> Trial:
    return a_trial(num_envs, number=number).ended(total_s=total_s, setup_s=setup_s)


def expected_s(num_envs: int, *earlier: Trial) -> float | None:
    return deadline.expected_s(a_trial(num_envs).request, [trial.record for trial in earlier])


def test_nothing_is_expected_of_the_first_trial():
    assert expected_s(64) is None


def test_another_repeat_takes_as_long_as_the_newest():
    assert expected_s(64, took(64, 300.0, 290.0), took(64, 30.0, 20.0, number=1)) == 30.0


def test_a_larger_size_starts_as_quickly_and_measures_longer():
    assert expected_s(256, took(32, 22.0, 20.0), took(64, 24.0, 20.0, number=1)) == 20.0 + 4 * 4.0


def test_a_smaller_size_takes_no_longer_than_the_next_larger():
    assert expected_s(32, took(64, 24.0, 20.0)) == 24.0


def test_trials_of_another_kind_or_arm_say_nothing():
    other = took(64, 24.0, 20.0).asked(arm="lean")
    learned = a_trial(64, kind="learning", seconds=3.0).ended(total_s=100.0)
    assert expected_s(64, other, learned) is None


def a_folder(tmp_path: Path) -> tuple[StudyFolder, Request]:
    folder = write_study(tmp_path / "demo", a_study(), [took(64, 30.0, 20.0)])
    request = a_trial(64, number=1, repeat=1).request
    folder.trial(1).root.mkdir()
    write_atomically(folder.trial(1).request, canonical_json(request))
    return folder, request


@pytest.mark.parametrize(("left_s", "begins"), [(60.0, True), (40.0, False), (0.0, False)])
def test_a_trial_begins_only_if_it_should_end_in_time(
    left_s: float, begins: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, _ = a_folder(tmp_path)
    monkeypatch.setenv(deadline.VARIABLE, deadline.ends_in(left_s)[deadline.VARIABLE])
    why = deadline.why_not_begun(folder, folder.trial(1))
    watch = deadline.Watch(folder)
    assert (why is None, watch.why is None) == (begins, begins)
    if why is not None:
        assert why == watch.why and "the next trial (64 environments) takes about 30 s" in why
        watch.start()
        assert watch.why is None, "what an earlier sweep noted is forgotten"


def test_without_a_time_every_trial_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, _ = a_folder(tmp_path)
    monkeypatch.delenv(deadline.VARIABLE, raising=False)
    assert deadline.why_not_begun(folder, folder.trial(1)) is None and not folder.time_over.exists()


def test_a_trial_that_was_measured_needs_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, _ = a_folder(tmp_path)
    monkeypatch.setenv(deadline.VARIABLE, "0")
    assert deadline.why_not_begun(folder, folder.trial(0)) is None


def test_a_time_is_read_as_people_write_it():
    read = {text: knee.duration(text).seconds for text in ("90s", "15m", "1.5h")}
    assert read == {"90s": 90.0, "15m": 900.0, "1.5h": 5400.0}


@pytest.mark.parametrize("text", ["15", "0m", "-3m", "15 min", "m", "1h30m", "nan", "1e3s", ""])
def test_a_time_without_its_unit_is_refused_with_examples(text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="such as 90s, 15m or 1.5h"):
        knee.duration(text)


def test_a_damaged_record_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder, _ = a_folder(tmp_path)
    folder.trial(2).root.mkdir()
    folder.trial(2).record.write_text("{", encoding="utf-8")
    monkeypatch.setenv(deadline.VARIABLE, "0")
    assert deadline.why_not_begun(folder, folder.trial(1)) is not None
