import os
import signal
import subprocess
import sys

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


def test_a_broken_pipe_of_anything_else_is_told(capsys):
    def main():
        raise BrokenPipeError(32, "Broken pipe", "/dev/modem")

    with pytest.raises(SystemExit):
        run_command(main, "envknee x")
    assert "/dev/modem: Broken pipe" in capsys.readouterr().err


def test_an_error_that_quotes_a_file_cannot_steer_the_terminal(capsys):
    def main():
        raise UserError("it holds \x1b]0;owned\x07\u202e\x9b2J\nand ends")

    with pytest.raises(SystemExit):
        run_command(main, "envknee x")
    assert capsys.readouterr().err == "envknee: it holds ]0;owned2J\nand ends\n"
