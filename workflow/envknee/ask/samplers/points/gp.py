"""Optuna's Gaussian process, after a Sobol start."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from envknee.ask.samplers.points._optuna import Proposer

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def _make(seed: int, startup: int) -> "BaseSampler":
    from optuna.samplers import GPSampler

    return GPSampler(seed=seed, n_startup_trials=startup)


def _one_thread() -> AbstractContextManager[object]:
    """Limit NumPy, SciPy and torch to one thread: many small steps then take at most a fifth of the time."""
    import torch  # noqa: F401  # only a loaded library can be limited
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1)


PROPOSER = Proposer("gp", _make, attempts=12, around=_one_thread)  # 0.15 s each
new_point = PROPOSER.new_point
