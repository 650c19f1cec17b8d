"""Trials whose process is a fork of the tests' own, where Isaac Lab is imported already: a quarter of the time.

Launcher, simulator, files, log, time limit and exit status are as ever. Only Python's start is not: sweeps, ranks, and whatever
looks at processes or their variables start trials as users do.
"""

import gc
import importlib
import os
import subprocess
import sys
import time
import traceback
from contextlib import suppress
from types import SimpleNamespace
from typing import IO, Any
from unittest import mock

import gymnasium
import torch
from envknee import trainers
from envknee.record.schema import Record, Request
from envknee.run import launch as launcher
from envknee.study.errors import UserError, run_command
from envknee.study.files import read_model
from envknee.study.paths import TrialFolder


def launch(trial: TrialFolder) -> Record:
    """Measure a trial of one process, as the launcher does."""
    if torch.cuda.is_available():  # CUDA does not survive a fork
        return launcher.launch(trial)
    _import_for(read_model(trial.request, Request, ""))
    gc.freeze()
    starts = SimpleNamespace(Popen=Fork, STDOUT=subprocess.STDOUT)
    with mock.patch.object(launcher, "subprocess", starts):
        return launcher.launch(trial)


def _import_for(request: Request) -> None:
    """Import what a trial would; what it refuses it shall refuse itself."""
    for module in ("isaaclab_newton.physics", "isaaclab_newton.renderers", "isaaclab_rl.rsl_rl", "rsl_rl.runners"):
        importlib.import_module(module)
    with suppress(UserError):
        trainers.load(request.trainer).resolve(request, "cpu")
        importlib.import_module(str(gymnasium.spec(request.task_id).entry_point).partition(":")[0])


class Fork:
    """Runs `python -m envknee.run.process TRIAL` as subprocess.Popen would, without starting Python anew."""

    def __init__(self, command: list[str], *, stdout: IO[str], env: dict[str, str], **_: Any) -> None:
        """Start it, with its output in `stdout`."""
        place = command.index("envknee.run.process")
        self.args, self.returncode = command, None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.setsid()
                _become(stdout, env)
                run_trial(command[place:])
            finally:
                os._exit(1)  # whatever happened, no second pytest goes on from here

    def poll(self) -> int | None:
        """Return the exit status once there is one."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            time.sleep(0.02)
        return status


def _become(stdout: IO[str], env: dict[str, str]) -> None:
    """Take another process's output and variables."""
    os.dup2(stdout.fileno(), 1)
    os.dup2(stdout.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.environ.clear()
    os.environ.update(env)
    torch.set_num_threads(1)  # more would need threads that a fork has not


def run_trial(arguments: list[str]) -> None:
    """Run a trial in this process, and end it with its exit status."""
    from envknee.run import process

    sys.argv = arguments
    status: Any = 1
    try:
        run_command(process.main, "envknee.run.process")
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
