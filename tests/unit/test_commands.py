"""One command with all others, and the names that earlier versions had for them."""

import importlib.util
from pathlib import Path

import pytest
from envknee import commands
from programs import python

OLD_NAMES = (
    "archive", "ask", "bundle", "compare", "config", "docker", "economy_replay", "gpus", "image", "keep", "launch",
    "limits", "limits.prove", "limits.verdict", "optuna_export", "overhead", "prepare", "record", "repeats", "replay",
    "report", "summary", "tracking.server", "trial",
)  # fmt: skip


@pytest.mark.parametrize("name", OLD_NAMES)
def test_an_old_name_runs_the_same_command(name: str):
    spec = importlib.util.find_spec(f"envknee.{name}")
    if spec is not None and spec.origin is not None and spec.origin.endswith("__init__.py"):
        spec = importlib.util.find_spec(f"envknee.{name}.__main__")  # what `python -m` runs of a folder
    assert spec is not None and spec.origin is not None
    names = [command.module for command in commands.COMMANDS.values()]
    assert spec.origin in names or "def main(" in Path(spec.origin).read_text(encoding="utf-8")


def test_every_command_is_listed_with_a_line_and_has_its_module():
    listed = [line.split(maxsplit=1) for line in commands.usage().splitlines() if line.startswith("  ")]
    assert [name for name, _ in listed] == [*commands.COMMANDS] and all(does for _, does in listed)
    for command in commands.COMMANDS.values():
        command.let_python_find_it()
        spec = importlib.util.find_spec(command.module)
        assert spec is not None and "def main(" in Path(str(spec.origin)).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [["envknee", "neighbours"], ["envknee.neighbours"]])
def test_a_benchmark_runs_anywhere_and_beside_another_folder_of_that_name(name: list[str], tmp_path: Path):
    (tmp_path / "benchmarks").mkdir()
    done = python("-m", *name, "--help", cwd=tmp_path)
    assert done.returncode == 0 and "--rounds" in done.stdout, done.stderr
