"""Publishers in processes of their own, which die where a test wants them to."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking.follow import follow
from tracked import a_study

FORK = multiprocessing.get_context("fork")
"""Children that need not import MLflow again."""


def in_child(act: Callable[[], object], killed_after: str | None = None) -> Any:
    """Start a process that acts; it gets SIGKILL after the n-th call of a method of MLflow's client, such as `create_run:2`."""

    def run() -> None:
        if killed_after is not None:
            kill_after(killed_after)
        act()

    child = FORK.Process(target=run, daemon=True)
    child.start()
    return child


def kill_after(call: str) -> None:
    """Make this process die in the moment that MLflow's client has done something for the n-th time."""
    import mlflow

    method, _, count = call.partition(":")
    original = getattr(mlflow.MlflowClient, method)
    calls = 0

    def counted(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        result = original(*arguments, **keywords)
        calls += 1
        if calls == int(count):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(mlflow.MlflowClient, method, counted)


def follow_in_child(folder: StudyFolder, killed_after: str | None = None, study: Study | None = None) -> Any:
    """Start the publisher in a process of its own."""
    return in_child(lambda: follow(study or a_study(), folder), killed_after)
