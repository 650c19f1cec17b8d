"""The journal of asking: the same requests with and without it, and nothing that was changed goes unnoticed."""

from pathlib import Path

import pytest
from asked import measured, play
from envknee.ask import ask, journal
from envknee.record.schema import Request
from envknee.study.errors import UserError
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from records import write_study, write_trial

LAST = 11


@pytest.fixture
def study() -> Study:
    sweep = {"num_envs": [16, 32, 64, 128], "horizon": 8, "batch_size": 128, "repeats": 3}
    return parse_study({"study": "s", "ask_version": 2, "throughput": sweep})


@pytest.fixture
def folder(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StudyFolder:
    """Return the folder of a study whose last trial is not asked for, with a journal of the others."""
    monkeypatch.setattr(journal, "SETTLED_S", -1.0)  # its files are from just now
    requests, _ = play(study, measured, until=LAST)
    folder = write_study(tmp_path / "s", study, [measured(request) for request in requests])
    asked(study, folder)
    assert folder.journal.exists()
    return folder


def asked(study: Study, folder: StudyFolder) -> bytes:
    folder.trial(LAST).request.unlink(missing_ok=True)
    ask.write_request(study, folder, LAST)
    return folder.trial(LAST).request.read_bytes()


def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of trials whose records are read from now on."""
    read = list[str]()
    load = journal.load_record
    monkeypatch.setattr(journal, "load_record", lambda trial: read.append(trial.root.name) or load(trial))
    return read


def test_with_a_journal_no_record_is_read_and_the_request_is_the_same(study, folder, monkeypatch):
    without = asked(study, folder)
    before = folder.journal.read_bytes()
    read = reads(monkeypatch)
    assert asked(study, folder) == without and read == []
    assert folder.journal.read_bytes() == before, "nothing new"
    folder.journal.unlink()
    assert asked(study, folder) == without and len(read) == LAST - 1


def test_a_file_that_changed_just_now_is_read_again(study, folder, monkeypatch):
    folder.journal.unlink()
    monkeypatch.setattr(journal, "SETTLED_S", 3600.0)
    asked(study, folder)
    assert not folder.journal.exists()


@pytest.mark.parametrize("name", ["metrics", "outcome", "record"])
def test_a_changed_torn_or_missing_file_is_noticed(study, folder, name):
    path = getattr(folder.trial(3), name)
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(UserError, match=str(path)):
        asked(study, folder)
    path.write_bytes(whole)
    asked(study, folder)
    path.unlink()
    with pytest.raises(UserError, match=str(path)):
        asked(study, folder)


def test_a_number_that_was_changed_in_place_is_noticed(study, folder):
    path = folder.trial(3).request
    path.write_bytes(path.read_bytes().replace(b'"limit_s": 600.0', b'"limit_s": 601.0'))
    with pytest.raises(UserError, match=r"its limit_s is 601\.0, and 600\.0 was expected"):
        asked(study, folder)


def test_a_trial_measured_again_is_read_again_alone(study, folder, monkeypatch):
    request = Request.model_validate_json(folder.trial(3).request.read_bytes())
    write_trial(folder.trial(3), measured(request, fps=5.0))
    read = reads(monkeypatch)
    asked(study, folder)
    assert read == ["0003"]
    asked(study, folder)
    assert read == ["0003"], "the journal has its new line"


@pytest.mark.parametrize(
    "damage", [lambda text: text[:-30], lambda text: text[:400] + b"9" + text[401:], lambda _: b""]
)
def test_a_torn_or_damaged_journal_is_made_anew_where_it_is(study, folder, damage):
    without = asked(study, folder)
    folder.journal.write_bytes(damage(folder.journal.read_bytes()))
    assert asked(study, folder) == without
    assert asked(study, folder) == without


def test_a_journal_of_another_study_counts_for_nothing(study, folder, monkeypatch):
    other = study.model_copy(update={"seed": 2})
    with pytest.raises(UserError, match="is not one of study 's' as configured now"):
        asked(other, folder)
    read = reads(monkeypatch)
    asked(study, folder)
    assert read == [], "and is not lost to it"
