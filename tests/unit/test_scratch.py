"""The folder for temporary files: a node's own disk, made sure of."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from envknee.machine import scratch
from envknee.study.errors import UserError


def test_variables_are_read_where_it_runs_and_the_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path))
    assert scratch.scratch_folder("$SLURM_TMPDIR/envknee") == tmp_path / "envknee"
    assert (tmp_path / "envknee").is_dir()


def test_what_is_wrong_names_the_folder_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    with pytest.raises(UserError, match=r"scratch '\$SLURM_TMPDIR/x': a variable in it is not set"):
        scratch.scratch_folder("$SLURM_TMPDIR/x")
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"scratch .*/file cannot be written to on this node: .*`scratch:` of the site"):
        scratch.scratch_folder(str(tmp_path / "file"))
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    with pytest.raises(UserError, match=r"scratch .* has 1 MB free on this node, and at least 100 were expected"):
        scratch.scratch_folder(str(tmp_path))


def test_what_is_told_becomes_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "/tmp")  # noqa: S108  # what use_told replaces
    monkeypatch.delenv(scratch.TOLD, raising=False)
    scratch.use_told()
    assert tempfile.gettempdir() != str(tmp_path)
    monkeypatch.setenv(scratch.TOLD, str(tmp_path))
    scratch.use_told()
    assert tempfile.gettempdir() == str(tmp_path)
