"""One command with all others: which there are, and where each runs."""

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
from programs import python, told


def test_every_command_is_listed_with_a_line_and_has_its_module():
    lines = [line.split(maxsplit=1) for line in commands.usage().splitlines() if line.startswith("  ")]
    assert {name for name, _ in lines} == {*commands.COMMANDS, *commands.BENCHMARKS} and all(does for _, does in lines)
    for name in commands.listed():
        spec = importlib.util.find_spec(commands.find(name).module)
        assert spec is not None and "def main(" in Path(str(spec.origin)).read_text(encoding="utf-8")


def test_a_benchmark_runs_anywhere_and_beside_another_folder_of_that_name(tmp_path: Path):
    (tmp_path / "benchmarks").mkdir()
    done = python("-m", "envknee", "neighbours", "--help", cwd=tmp_path)
    assert done.returncode == 0 and "--rounds" in done.stdout, done.stderr


def test_without_the_checkout_a_benchmark_is_not_listed_and_says_where_it_runs(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(commands, "CHECKOUT", tmp_path)
    assert not [name for name in commands.BENCHMARKS if f"  {name} " in commands.usage()]
    told(lambda: commands.find("prove"), "`envknee prove` runs only in a checkout")
    told(lambda: commands.find("proove"), "no command 'proove'. ")


def test_a_command_without_its_package_is_listed_apart_with_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", {"isaaclab": None}.get)
    ready, _, waiting = commands.usage().partition("With Isaac Lab, which is not installed here")
    assert "  tasks " not in ready and "  tasks " in waiting and "  bundle " in waiting and "  knee " not in waiting
    told(lambda: commands.find("tasks"), "needs Isaac Lab", "`make setup`", "-r containers/requirements.lock")


@pytest.mark.parametrize("name", ["compare", "limits", "limits.verdict", "config", "record"])
def test_a_module_is_no_command_of_its_own(name: str):
    done = python("-m", f"envknee.{name}", "--help")
    assert done.returncode == 1 and f"envknee.{name}" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["replay", "limits", "verdict", "record"])
def test_a_usage_line_can_be_typed(name: str, monkeypatch):
    monkeypatch.setenv("PATH", "")  # also where what the command calls is not installed
    assert python("-m", "envknee", name, "--help").stdout.startswith(f"usage: envknee {name} [-h]")


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
    ("error", "message"),
    [
        (BrokenPipeError(32, "Broken pipe", "/dev/modem"), "/dev/modem: Broken pipe"),  # nobody's output
        (UserError("it holds \x1b]0;owned\x07\u202e\x9b2J\nand ends"), "it holds ]0;owned2J\nand ends"),
    ],
)
def test_an_error_is_told_and_what_it_quotes_cannot_steer_the_terminal(capsys, error, message):
    with pytest.raises(SystemExit):
        run_command(mock.Mock(side_effect=error), "envknee x")
    assert capsys.readouterr().err.startswith(f"envknee: {message}")
