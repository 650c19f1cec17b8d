"""Scaling rules: how horizon, batch size, learning rate or epochs change with num_envs.

Input: a rule with its base, and a point as the study lists it (its horizon and batch_size apply at the base's num_envs). Output: the
values that a trial runs with. Pure. With k = num_envs / base num_envs:

    library        batch x k: as many mini-batches as at the base
    fixed_batch    batch stays: k times as many mini-batches
    fixed_updates  batch stays, epochs / k: as many optimizer steps in an iteration as at the base
    sqrt_lr        batch x k, learning rate x sqrt(k)
    linear_lr      batch x k, learning rate x k
    fixed_frames   horizon / k, batch stays: as many frames in an iteration as at the base
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from envknee.study.value_types import Positive, PositiveNumber, Strict

RuleName = Literal["library", "fixed_batch", "fixed_updates", "sqrt_lr", "linear_lr", "fixed_frames"]

BATCH_GROWS: frozenset[RuleName] = frozenset({"library", "sqrt_lr", "linear_lr"})
RATE_GROWS: frozenset[RuleName] = frozenset({"sqrt_lr", "linear_lr"})


class Scaling(Strict):
    """A rule and its base point. The study's sections list the base's horizons and batch sizes."""

    rule: RuleName
    """library: fixed number of mini-batches; fixed_batch: fixed batch size; fixed_updates: fixed number of optimizer steps per iteration,
    by fewer epochs; sqrt_lr, linear_lr: batch and learning rate grow; fixed_frames: fixed horizon x num_envs."""
    num_envs: Positive
    """num_envs of the base, at which the rule changes nothing."""
    learning_rate: PositiveNumber | None = None
    """Learning rate of the base; without it, the task's. sqrt_lr and linear_lr need it."""
    epochs: Positive | None = None
    """Epochs of the base; without it, the task's own. fixed_updates needs it."""

    def _problems(self) -> Iterator[str]:
        needed = {"learning_rate": self.rule in RATE_GROWS, "epochs": self.rule == "fixed_updates"}
        for field, is_needed in needed.items():
            if is_needed and getattr(self, field) is None:
                yield f"rule {self.rule} starts from a stated {field}: add scaling.{field}"


@dataclass(frozen=True)
class Scaled:
    """The settings of a trial."""

    horizon: int
    batch_size: int | None
    """None: the library's own number of mini-batches."""
    learning_rate: float | None
    """None: the task's own."""
    epochs: int | None


def divides(batch_size: int, rollout: int, world_size: int) -> bool:
    """Tell whether batches divide into equal parts for all ranks, and a rank's rollout into whole parts."""
    return batch_size % world_size == 0 and rollout % (batch_size // world_size) == 0


def scaled(scaling: Scaling, num_envs: int, horizon: int, batch_size: int, world_size: int = 1) -> Scaled:
    """Return the values that a trial runs with under a scaling rule.

    `num_envs` is of each rank. `horizon` (environment steps) and `batch_size` (transitions of all ranks together) are those at the base.

    Raises:
        ValueError: when a value would not be whole, or the batch does not divide the rollout; names what would be legal.
    """
    values = _scaled(scaling, num_envs, horizon, batch_size, world_size)
    if isinstance(values, Scaled):
        return values
    raise ValueError(
        f"rule {scaling.rule} from {scaling.num_envs} environments, horizon {horizon} and batch_size {batch_size}: with num_envs"
        f" {num_envs} {values}. {_what_is_legal(scaling, num_envs, horizon, batch_size, world_size)}"
    )


def _scaled(scaling: Scaling, num_envs: int, horizon: int, batch_size: int, world_size: int) -> Scaled | str:
    """Return the values, or why they are not legal."""
    k = Fraction(num_envs, scaling.num_envs)
    exact = {
        "horizon": horizon / k if scaling.rule == "fixed_frames" else Fraction(horizon),
        "batch_size": batch_size * k if scaling.rule in BATCH_GROWS else Fraction(batch_size),
        "epochs": Fraction(scaling.epochs or 0) / (k if scaling.rule == "fixed_updates" else 1),
    }
    for name, value in exact.items():
        if value.denominator != 1:
            return f"{name} would be {float(value):g}, and a whole number of at least 1 was expected"
    horizon, batch_size, epochs = map(int, exact.values())
    if not divides(batch_size, num_envs * horizon, world_size):
        ranks = f" x {world_size} ranks, in equal parts" if world_size > 1 else ""
        return f"batch_size {batch_size} does not divide num_envs {num_envs} x horizon {horizon}{ranks}"
    learning_rate = scaling.learning_rate
    if learning_rate is not None and scaling.rule in RATE_GROWS:
        growth = num_envs / scaling.num_envs
        learning_rate *= math.sqrt(growth) if scaling.rule == "sqrt_lr" else growth
    return Scaled(horizon, batch_size, learning_rate, epochs or None)


def _what_is_legal(scaling: Scaling, num_envs: int, horizon: int, batch_size: int, world_size: int) -> str:
    """Return a sentence with the nearest legal num_envs or, if the base itself is not legal, the nearest legal batch_size there."""

    def is_legal(envs: int, batch: int) -> bool:
        return isinstance(_scaled(scaling, envs, horizon, batch, world_size), Scaled)

    if not is_legal(scaling.num_envs, batch_size):
        most = scaling.num_envs * horizon * world_size
        batch = next((size for size in _around(batch_size, most) if is_legal(scaling.num_envs, size)), None)
        return f"The base itself is not legal: the nearest legal batch_size there is {batch}"
    envs = next((size for size in _around(num_envs, 4 * num_envs) if is_legal(size, batch_size)), scaling.num_envs)
    return f"The nearest legal num_envs is {envs}"


def _around(size: int, most: int) -> Iterator[int]:
    """Yield the whole numbers from 1 to `most`, the nearest to `size` first."""
    for distance in range(max(size, most)):
        yield from (number for number in dict.fromkeys((size - distance, size + distance)) if 1 <= number <= most)
