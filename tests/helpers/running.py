"""Processes of this machine that run now: those of trials, and their ranks."""

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import psutil
from envknee.machine.processes import KEEPER


def processes_that(are_meant: Callable[[psutil.Process], object]) -> list[psutil.Process]:
    """Return the processes of this machine of which something is so, but for those that have ended meanwhile."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if are_meant(process):
                processes.append(process)
    return processes


def trial_processes(folder: Path) -> list[int]:
    """Return the processes that measure a trial below `folder`."""

    def measures(process: psutil.Process) -> bool:
        words = process.cmdline()
        # A keeper has the same words behind its own. That of a copy of the project lies elsewhere.
        is_keeper = any(Path(word).name == Path(KEEPER).name for word in words)
        return "envknee.run.process" in words and not is_keeper and Path(process.cwd()).is_relative_to(folder)

    return [process.pid for process in processes_that(measures)]


def kill_trials(folder: Path) -> None:
    """Kill the processes that measure a trial below `folder`. One may end by itself meanwhile."""
    for process in trial_processes(folder):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def workers_in(folder: Path) -> list[psutil.Process]:
    """Return the workers, which measure asked trials one after the other, of sweeps below `folder`."""

    def works(process: psutil.Process) -> bool:
        return "work" in process.cmdline()[3:4] and Path(process.cwd()).is_relative_to(folder)

    return processes_that(works)


def listening(processes: Iterable[psutil.Process]) -> set[str]:
    connections = (connection for process in processes for connection in process.net_connections("inet"))
    return {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}


def ranks_among(pids: Iterable[int]) -> dict[int, psutil.Process]:
    """Return the processes that train as ranks: rank -> process."""
    ranks = {}
    for pid in pids:
        with suppress(psutil.Error):  # ended; orphans of other tests are this process's children, too
            process = psutil.Process(pid)
            if "envknee.run.process" in process.cmdline() and "RANK" in (variables := process.environ()):
                ranks[int(variables["RANK"])] = process
    return ranks
