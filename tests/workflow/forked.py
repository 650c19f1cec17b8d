"""Publishers in processes of their own, which die where a test wants them to."""

import multiprocessing
import os
import signal
from typing import Any

from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking.follow import follow
from tracked import a_study

FORK = multiprocessing.get_context("fork")
"""Children that need not import MLflow again."""


def kill_after_call(method: str, count: int) -> None:
    """Make this process die in the moment that MLflow's client has done something for the n-th time."""
    import mlflow

    original = getattr(mlflow.MlflowClient, method)
    calls = 0

    def counted(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        result = original(*arguments, **keywords)
        calls += 1
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(mlflow.MlflowClient, method, counted)


def follow_in_child(folder: StudyFolder, killed_after: str | None = None, study: Study | None = None) -> Any:
    """Start the publisher in a process of its own, which gets SIGKILL after the n-th call of a method."""

    def run() -> None:
        if killed_after is not None:
            method, _, count = killed_after.partition(":")
            kill_after_call(method, int(count))
        follow(study or a_study(), folder)

    child = FORK.Process(target=run, daemon=True)
    child.start()
    return child
