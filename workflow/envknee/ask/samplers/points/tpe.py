"""Optuna's tree-structured Parzen estimator, after a Sobol start."""

from typing import TYPE_CHECKING

from envknee.ask.samplers.points._optuna import Proposer

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def _make(seed: int, startup: int) -> "BaseSampler":
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, n_startup_trials=startup, multivariate=True, constant_liar=True)


PROPOSER = Proposer("tpe", _make, attempts=50)  # 3 ms each
new_point = PROPOSER.new_point
