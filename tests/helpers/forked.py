"""Processes of their own for what publishes, which die where a test wants them to."""

import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

FORK = multiprocessing.get_context("fork")
"""Children that need not import MLflow again."""


def in_child(run: Callable[..., object], *arguments: object, killed_after: str | None = None) -> Any:
    """Call this in a process of its own, which gets SIGKILL after the n-th call of a method, as in `create_run:2`."""

    def begin() -> None:
        if killed_after is not None:
            _die_after(*killed_after.split(":"))
        run(*arguments)

    child = FORK.Process(target=begin, daemon=True)
    child.start()
    return child


def _die_after(method: str, count: str) -> None:
    """Make this process die in the moment that MLflow's client has done something for the n-th time."""
    import mlflow

    original, calls = getattr(mlflow.MlflowClient, method), itertools.count(1)

    def counted(*arguments: Any, **keywords: Any) -> Any:
        result = original(*arguments, **keywords)
        if next(calls) == int(count):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(mlflow.MlflowClient, method, counted)
