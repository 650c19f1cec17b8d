"""Files of results are regular files: a device or a pipe behind a link is refused at once. A later version's file is refused, too."""

import json
import os
from pathlib import Path

import pytest
from envknee.record.read import load_record, load_records
from envknee.study.files import sha256_of
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from programs import told
from records import GPU, a_study, a_trial, write_study

FILES = ("record.json", "request.json", "outcome.json", "metrics.jsonl")


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return write_study(tmp_path / "results/demo", a_study(), [a_trial(16, number=0, fps=1600.0, device=GPU)])


@pytest.mark.parametrize("name", [*FILES, "study.json"])
@pytest.mark.parametrize("kind", ["/dev/zero", "/dev/random", "a pipe"])
def test_a_file_that_leads_to_no_regular_file_is_refused_at_once(
    name: str, kind: str, folder: StudyFolder, tmp_path: Path
):
    path = folder.study if name == "study.json" else folder.trial(0).root / name
    path.unlink()
    if kind == "a pipe":
        os.mkfifo(tmp_path / "pipe")
    path.symlink_to(tmp_path / "pipe" if kind == "a pipe" else kind)
    told(lambda: load_records(folder), f"{path} leads to ", "which is no regular file")


def test_a_link_to_a_regular_file_is_read(folder: StudyFolder, tmp_path: Path):
    path = folder.trial(0).metrics
    path.rename(tmp_path / "elsewhere.jsonl")
    path.symlink_to(tmp_path / "elsewhere.jsonl")
    assert len(load_records(folder)) == 1


def test_a_folder_is_no_file(tmp_path: Path):
    with pytest.raises(IsADirectoryError):
        sha256_of(tmp_path)


@pytest.mark.parametrize("name", ["record.json", "request.json", "outcome.json"])
@pytest.mark.parametrize("version", [999, 2, 0, -1])
def test_a_file_of_a_later_version_is_refused(name: str, version: int, folder: StudyFolder):
    path = folder.trial(0).root / name
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": version}))
    told(lambda: load_record(folder.trial(0)), "reads schema_version 1 to 1. Install a newer one")


def test_a_study_file_without_an_end_is_refused(tmp_path: Path):
    (tmp_path / "mine.yaml").symlink_to("/dev/zero")
    told(lambda: read_study(tmp_path / "mine.yaml"), "leads to /dev/zero, which is no regular file")
