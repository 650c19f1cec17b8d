"""Strategies: how collecting and learning share time or devices. `Arm.strategy` says what each does. Pure data.

`envknee.trainers.torchrl` runs them; other modules use these facts and never compare a strategy's name.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

StrategyName = Literal["in_turns", "async2", "ray"]

RAY_ADDRESS = "RAY_ADDRESS"
"""Ray's own variable, which names an existing cluster."""

LOOPBACK_RAY = {
    # Without a cluster Ray's servers listen on 127.0.0.1 alone: on Linux, too, whatever the name says
    # (ray/_private/services.py of 2.60.0, `get_node_ip_address`).
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_COLOR_PREFIX": "0",  # collectors print into the trial's log
}
"""Environment of a trial that starts its own Ray. Ray reads these variables when it is imported."""


@dataclass(frozen=True)
class Strategy:
    """Properties of a strategy for launcher, study and record."""

    trainer: str | None = None
    """The only trainer with this strategy; None: all have it."""
    is_one_rank: bool = False
    """Whether all its GPUs are one rank, with the environments on the first."""
    untimed_iterations: int = 0
    """Iterations left out of FPS besides the warm-up: a pipeline's first iteration does not learn."""
    gpus_of_auto: int = 1
    """Most GPUs that `gpus: auto` takes."""
    cluster: str | None = None
    """Environment variable that names an existing cluster, which images lack; without it a trial starts its own. Either way the launcher
    starts one process, which then starts the others. None: the strategy uses no cluster."""


STRATEGIES: Mapping[StrategyName, Strategy] = {
    "in_turns": Strategy(),
    "async2": Strategy(trainer="torchrl", is_one_rank=True, untimed_iterations=1, gpus_of_auto=2),
    "ray": Strategy(trainer="torchrl", cluster=RAY_ADDRESS),
}


def joins_cluster(name: StrategyName, variables: Mapping[str, str]) -> bool:
    """Tell whether a trial's processes run in an existing cluster, which the environment `variables` name."""
    cluster = STRATEGIES[name].cluster
    return cluster is not None and bool(variables.get(cluster))


def own_cluster(name: StrategyName, folder: Path) -> dict[str, str]:
    """Return the environment variables of a trial that starts its own cluster, with files in `folder`; mostly none."""
    if STRATEGIES[name].cluster is None:
        return {}
    return {**LOOPBACK_RAY, "RAY_TMPDIR": str(folder), "RAY_AUTH_TOKEN": secrets.token_hex(32)}
