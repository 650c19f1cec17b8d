"""The process of a trial, as a fork of a server."""

import gc
import os
import sys

import psutil
import torch
from envknee.run import process
from envknee.study.errors import run_command


def be(words: list[str], log: str, variables: dict[str, str]) -> None:
    """Be a process of these words and variables, in a session of its own and with all output in `log`; end with its status."""
    threads = psutil.Process(os.getppid()).num_threads()
    assert threads == 1, (
        f"a fork lacks {threads - 1} threads of its server, and may wait for them: find what starts them"
    )
    os.setsid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND)
    for number in (1, 2):
        os.dup2(output, number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", buffering=1, closefd=False) for number in (1, 2))
    os.environ.clear()
    os.environ.update(variables)
    sys.argv = words
    torch.set_num_threads(1)  # OpenMP has read its variables already
    gc.freeze()  # what was imported stays
    run_command(process.main, "envknee.run.process")
