import os
import signal
import subprocess
import sys
from unittest import mock

import pytest
from envknee.study.errors import UserError, run_command
from programs import python


@pytest.mark.parametrize("module", ["envknee.replay", "envknee.limits", "envknee.limits.verdict", "envknee.record"])
def test_a_usage_line_can_be_typed(module, monkeypatch):
    monkeypatch.setenv("PATH", "")  # also where what the command calls is not installed
    assert python("-m", module, "--help").stdout.startswith(f"usage: python -m {module} [-h]")


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
