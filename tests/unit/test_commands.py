"""One command with all others, and the names that earlier versions had for them."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
from envknee import commands
from envknee.study.errors import UserError, run_command
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


@pytest.mark.parametrize("module", ["envknee.replay", "envknee.limits", "envknee.limits.verdict", "envknee.record"])
def test_a_usage_line_can_be_typed(module, monkeypatch):
    monkeypatch.setenv("PATH", "")  # also where what the command calls is not installed
    assert python("-m", module, "--help").stdout.startswith(f"usage: python -m {module} [-h]")


@pytest.mark.parametrize(
    ("module", "not_needed"),
    [
        ("envknee.ask.ask", {"optuna", "torch", "scipy", "numpy", "isaaclab"}),
        ("envknee.show.figures.registry", {"matplotlib"}),
        ("envknee.tracking.__main__", {"mlflow"}),
    ],
)
def test_what_would_take_seconds_is_imported_only_where_it_is_needed(module: str, not_needed: set[str]):
    assert python("-c", f"import sys, {module}; print({not_needed} & sys.modules.keys())").stdout == "set()\n"


@pytest.mark.parametrize("words", [["presets"], ["presets", "mjlab"], ["--help"], ["gpus"], ["check", "--schema"]])
def test_a_command_whose_output_nobody_reads_ends_quietly(words):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "envknee", *words]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BrokenPipeError(32, "Broken pipe", "/dev/modem"), "/dev/modem: Broken pipe"),  # nobody's output
        (UserError("it holds \x1b]0;owned\x07\u202e\x9b2J\nand ends"), "it holds ]0;owned2J\nand ends"),
    ],
)
def test_an_error_is_told_and_what_it_quotes_cannot_steer_the_terminal(capsys, error, said):
    with pytest.raises(SystemExit):
        run_command(mock.Mock(side_effect=error), "envknee x")
    assert capsys.readouterr().err.startswith(f"envknee: {said}")
