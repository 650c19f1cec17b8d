"""The one-rank arm with which an arm of several ranks is compared. Pure."""

from collections.abc import Mapping

from envknee.study.model import Arm
from envknee.verdict.series import Ranks


def partner_of(arm: str, arms: Mapping[str, Arm]) -> str | None:
    """Return the arm that differs from `arm` only in its ranks and has one, or None.

    GPUs are not compared with the CPU. `gpus: auto` may be either, and only its records tell; an arm with `gpus: 1` has priority.
    """

    def without_ranks(name: str) -> Arm:
        return arms[name].model_copy(update={"gpus": "auto", "cpu_ranks": 1, "nodes": 1})

    one_rank = (0, "auto") if arms[arm].gpus == 0 else (1, "auto")
    partners = [
        other
        for other in arms
        if arms[other].world_size == 1 and arms[other].gpus in one_rank and without_ranks(other) == without_ranks(arm)
    ]
    return min(partners, key=lambda other: (arms[other].gpus == "auto", other), default=None)


def what_to_add(arm: str, arms: Mapping[str, Arm]) -> str | None:
    """Return the change to the study that adds an arm's partner, or None if it needs none."""
    if arms[arm].world_size == 1 or partner_of(arm, arms) is not None:
        return None
    alone = ("cpu_ranks: 1" if arms[arm].gpus == 0 else "gpus: 1") + ("" if arms[arm].nodes == 1 else ", nodes: 1")
    more = f"run a study (of another name) with one arm more, like {arm} but with `{alone}`"
    return f"for the scaling efficiency of {Ranks.of(arms[arm])} {more}"
