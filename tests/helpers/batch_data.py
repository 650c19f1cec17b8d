"""Learning trials whose frames to the target follow the law of the critical batch size."""

from collections.abc import Mapping, Sequence
from typing import Any

from records import Trial, a_trial

SIZES = [128, 256, 512, 1024, 2048]
E_MIN, B_NOISE = 20_000.0, 600.0


def needed(batch_size: int, factor: float = 1.0) -> int:
    return round(E_MIN * (1.0 + batch_size / B_NOISE) * factor)


def trials_of(
    frames: Mapping[int, Sequence[int | None]], *, num_envs: int = 256, first: int = 0, spent: int = 1000, **fields: Any
) -> list[Trial]:
    """Return learning trials: batch size -> environment steps to target of each seed, None for a budget spent after `spent` frames."""
    points = [(size, seed, value) for size, values in frames.items() for seed, value in enumerate(values)]
    return [
        a_trial(
            num_envs, number=first + i, kind="learning", repeat=seed, horizon=16, batch_size=size,
            seconds=None if value is None else 20.0, frames=value or spent, **fields,
        )
        for i, (size, seed, value) in enumerate(points)
    ]  # fmt: skip


def three(sizes: Sequence[int] = SIZES) -> dict[int, list[int | None]]:
    return {size: [needed(size, factor) for factor in (0.97, 1.0, 1.03)] for size in sizes}
