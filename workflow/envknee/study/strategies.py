"""Strategies: how collecting and learning share time or devices, as far as anything outside the trainers needs it.

    in_turns   a rollout, then learning: every trainer
    async2     TorchRL: one side collects the next rollout while another learns from the last
    ray        TorchRL: collectors in processes of Ray, one per GPU, and one learner

Pure data: what runs them is `envknee.trainers.torchrl`. Everybody else asks for these facts, never for a strategy's name.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

StrategyName = Literal["in_turns", "async2", "ray"]

RAY_ADDRESS = "RAY_ADDRESS"
"""Names Ray's cluster, where there is one; Ray's own variable."""

LOOPBACK_RAY = {
    # Without a cluster Ray's servers listen on 127.0.0.1 alone: on Linux, too, whatever the name says
    # (ray/_private/services.py of 2.60.0, `get_node_ip_address`).
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_COLOR_PREFIX": "0",  # what collectors print goes to the trial's log
}
"""For a Ray that a trial starts for itself. Ray reads them when it is imported."""


@dataclass(frozen=True)
class Strategy:
    """What a launcher, a study and a record need to know of one."""

    trainer: str | None = None
    """The only trainer that has it; None: all have."""
    is_one_rank: bool = False
    """Whether all of its GPUs make up one rank, whose environments lie on the first."""
    starts_its_own: bool = False
    """Whether the launcher starts one process, which starts the others itself."""
    untimed_iterations: int = 0
    """First iterations left out of the FPS figures besides the warm-up: a pipeline's first one learns nothing."""
    gpus_of_auto: int = 1
    """GPUs that `gpus: auto` takes at most."""
    cluster: str | None = None
    """The environment variable that names a cluster which was there before; None where there is no such thing."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of a trial that starts a cluster of its own."""
    needs_host: str | None = None
    """Why it is for `runtime: host` alone."""
    acts_at_once: str | None = None
    """Why `sync_every` is not for it; None where it is."""


STRATEGIES: Mapping[StrategyName, Strategy] = {
    "in_turns": Strategy(acts_at_once="in turns"),
    "async2": Strategy(trainer="torchrl", is_one_rank=True, untimed_iterations=1, gpus_of_auto=2),
    "ray": Strategy(
        trainer="torchrl",
        starts_its_own=True,
        cluster=RAY_ADDRESS,
        variables=LOOPBACK_RAY,
        needs_host="images have no Ray",
        acts_at_once="with ray",
    ),
}


def unfit(
    name: StrategyName, trainer: str, gpus: Literal["auto"] | int, cpu_ranks: int, nodes: int, sync_every: int
) -> str | None:
    """Return why an arm cannot have a strategy, or None; the arguments are the arm's own keys."""
    strategy = STRATEGIES[name]
    if strategy.trainer not in (None, trainer):
        return f"strategy {name} is for trainer: {strategy.trainer}, and the trainer is {trainer}"
    if strategy.starts_its_own and nodes > 1:
        return (
            f"nodes {nodes} is for ranks; with strategy {name} the cluster that {strategy.cluster} names has the machines,"
            " and gpus (or cpu_ranks) counts collectors on all of them"
        )
    if strategy.acts_at_once and sync_every != 1:
        return f"sync_every {sync_every} is for strategy: async2; {strategy.acts_at_once} each update acts at once"
    if strategy.is_one_rank and (gpus not in ("auto", 0, 1, 2) or cpu_ranks > 1 or nodes > 1):
        return (
            f"strategy {name} has one side that simulates and one that learns: gpus: auto, 2, 1 or 0 of one"
            f" machine, and no ranks (got gpus {gpus}, cpu_ranks {cpu_ranks}, nodes {nodes})"
        )
    return None


def world_size(gpus: Literal["auto"] | int, cpu_ranks: int, nodes: int = 1, name: StrategyName = "in_turns") -> int:
    """Return how many ranks (or collectors, which share one learner) train together, each with environments of its own.

    On each node one per GPU, or as many as its CPU is to have.
    """
    if STRATEGIES[name].is_one_rank:
        return 1
    return nodes * (cpu_ranks if gpus == 0 else 1 if gpus == "auto" else gpus)


def own_cluster(name: StrategyName, folder: Path) -> dict[str, str]:
    """Return the environment variables of a trial that starts a cluster of its own, with its files in `folder`; mostly none."""
    if STRATEGIES[name].cluster is None:
        return {}
    return {**STRATEGIES[name].variables, "RAY_TMPDIR": str(folder), "RAY_AUTH_TOKEN": secrets.token_hex(32)}
