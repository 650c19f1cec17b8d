"""A folder of caches that cannot be written to is a sentence before Snakemake starts."""

import os
from pathlib import Path

from programs import python, refused, succeeded


def test_an_unwritable_home_is_a_sentence_and_another_folder_will_do(tmp_path: Path):
    home = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"} | {"HOME": "/proc/nowhere"}
    start = ("-m", "envknee.run.snakemake_here", "--version")
    said = refused(python(*start, env=home, cwd=tmp_path), "HOME=/proc/nowhere", "export XDG_CACHE_HOME=", status=2)
    assert said.startswith("envknee: the cache folder ~/.cache") and len(said.splitlines()) == 1
    said = succeeded(python(*start, env=home | {"XDG_CACHE_HOME": str(tmp_path / "caches")}, cwd=tmp_path))
    assert said.startswith("9.") and (tmp_path / "caches").is_dir()
