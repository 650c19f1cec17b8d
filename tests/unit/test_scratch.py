"""The folder for temporary files: a node's own disk, made sure of."""

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from envknee.machine import scratch
from envknee.study.errors import UserError


@pytest.fixture(autouse=True)
def temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test replace the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "/tmp")  # noqa: S108  # what use_told replaces


def test_what_is_told_is_made_where_it_runs_and_becomes_the_temporary_folder(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path))
    for told, folder in (("", "/tmp"), ("$SLURM_TMPDIR/envknee", f"{tmp_path}/envknee")):  # noqa: S108
        monkeypatch.setenv(scratch.TOLD, told)
        scratch.use_told()
        assert tempfile.gettempdir() == os.environ["TMPDIR"] == folder
    assert (tmp_path / "envknee").is_dir()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("$SLURM_TMPDIR/x", r"scratch '\$SLURM_TMPDIR/x': a variable in it is not set"),
        ("file", r"scratch .*/file on this node: File exists.*`scratch:` of the site"),
        (".", r"scratch .* on this node: 1 MB are free, and at least 100 were expected"),
    ],
)
def test_what_is_wrong_names_the_folder_and_what_to_do(tmp_path: Path, monkeypatch, told: str, words: str):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    monkeypatch.setenv(scratch.TOLD, told)
    Path("file").touch()
    with pytest.raises(UserError, match=words):
        scratch.use_told()
