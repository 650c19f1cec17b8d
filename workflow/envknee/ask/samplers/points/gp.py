"""Optuna's Gaussian process, after a Sobol start."""

from contextlib import AbstractContextManager

from envknee.ask.samplers.points._optuna import Proposer


def _one_thread() -> AbstractContextManager[object]:
    """Limit NumPy, SciPy and torch to one thread: many small steps then take at most a fifth of the time."""
    import torch  # noqa: F401  # only a loaded library can be limited
    from threadpoolctl import threadpool_limits

    return threadpool_limits(limits=1)


PROPOSER = Proposer("gp", "GPSampler", attempts=12, around=_one_thread)  # 0.15 s each
new_point = PROPOSER.new_point
