"""Publishers in processes of their own, which die where a test wants them to."""

import multiprocessing
import os
import signal
from typing import Any

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
