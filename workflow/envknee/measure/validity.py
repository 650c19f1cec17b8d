"""Whether a trial that trained to its end simulated what was asked: a simulation that drops contacts is fast, and wrong. Pure.

Input: what was printed, rows, frames of the last rollout. Output: sentences, one for each thing that is wrong.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from envknee.record.schema import Failure

OVERFLOWS = {
    r"overflow.*please increase (?:Option\.)?(?:na?conmax|njmax|naccdmax|contact_sensor_maxmatch)|n(?:con|j)max overflow": (
        "MuJoCo-Warp dropped contacts or constraints, raise what the line names"
    ),
    r"Kamino .*contact capacity exceeded": "Newton's Kamino solver dropped contacts, raise the capacity that the line names",
    r"(?:contact|patch|pair).* buffer overflow": "PhysX dropped contacts, raise the GPU buffer that the line names",
    r"collisionStackSize|Px\w*MemoryConfig::\w+": "PhysX missed interactions, raise the capacity that the line names",
}
"""What engines print when a buffer is full, and what follows: mujoco_warp 3.12.0 and Newton 1.6.1 (`wp.printf` in their sources), PhysX 5
(Isaac Lab's issues 176, 931 and 1199)."""

GROWS_BY = 0.05
"""Memory that ends this much above where the timed iterations began, and grew all the time, does not stop there."""

LEAST_SAMPLES, LEAST_RISES = 5, 3
"""Of memory, to say that it grows. A look may fall between two rows, so that some samples are alike."""

MOST_FALLS = 0.1
"""Share of samples below the one before: noise."""

EACH_HALF = 0.2
"""Least share of the growth in either half of the iterations: what is allocated once, or fills up, grows in one of them."""

FAILURE = Failure(iteration=None, tensor="simulation", env_indices=[], dump=None)
"""Where a trial broke that trained to its end on a simulation that was wrong."""

LEAST_FRAMES = 16
"""Pairs of successive images, all environments together, to say that none changes."""


def told(lines: Iterable[str], patterns: Mapping[re.Pattern[str], str]) -> dict[str, str]:
    """Return what lines say is wrong, and the first line that says so."""
    wrong: dict[str, str] = {}
    for line in lines:
        for pattern, why in patterns.items():
            if why not in wrong and pattern.search(line):
                wrong[why] = line.strip()
    return wrong


def patterns(texts: Mapping[str, str]) -> dict[re.Pattern[str], str]:
    """Return patterns ready to be searched for, whatever the case of letters: those of every engine, and `texts`."""
    return {re.compile(text, re.IGNORECASE): why for text, why in (OVERFLOWS | dict(texts)).items()}


def sentences(wrong: Mapping[str, str]) -> list[str]:
    """Return what `told` found, a sentence each."""
    return [f"{why} (its log says: {line})" for why, line in wrong.items()]


def growing(memory_gb: Sequence[float]) -> str | None:
    """Return why memory that was sampled at each timed row grows without end; None where it does not, or too few tell."""
    if len(memory_gb) < LEAST_SAMPLES or memory_gb[0] <= 0.0:
        return None
    first, middle, last = memory_gb[0], memory_gb[len(memory_gb) // 2], memory_gb[-1]
    steps_gb = [later - earlier for earlier, later in pairwise(memory_gb)]
    rises, falls = sum(step > 0.0 for step in steps_gb), sum(step < 0.0 for step in steps_gb)
    if last < (1.0 + GROWS_BY) * first or rises < LEAST_RISES or falls > MOST_FALLS * len(steps_gb):
        return None
    if min(middle - first, last - middle) < EACH_HALF * (last - first):
        return None
    return f"memory grew through {len(memory_gb)} iterations, from {first:.2f} to {last:.2f} GB: it leaks"


def at_once(lengths: Sequence[float | None]) -> str | None:
    """Return why episodes that last a step or less are no simulation; None where they last longer, or are not told."""
    known = [length for length in lengths if length is not None]
    if not known or max(known) > 1.0:
        return None
    return f"episodes last {max(known):g} steps at most: every environment ends at once"


def frozen(rollout: Mapping[str, Any]) -> str | None:
    """Return why frames that never change are no rendering; None where a pixel changes, or too few frames tell.

    Args:
        rollout: by group, the observations of one rollout [horizon, num_envs, ...] as tensors; those of cameras have five dimensions
    """
    for group, frames in rollout.items():
        if frames.ndim != 5 or (frames.shape[0] - 1) * frames.shape[1] < LEAST_FRAMES:
            continue
        # Step by step, and no further than the first change: a rollout of a GPU is too large to be compared at once.
        if all(bool((frames[step] == frames[step + 1]).all()) for step in range(frames.shape[0] - 1)):
            return (
                f"no pixel of {group} changed in a rollout of {frames.shape[0]} steps: the camera renders nothing new"
            )
    return None


def apart(digests: Sequence[str]) -> str | None:
    """Return why ranks whose networks differ did not train together; `digests` has each rank's, by rank."""
    others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if not others:
        return None
    return f"rank {', '.join(map(str, others))} of {len(digests)} learned other weights than rank 0: their gradients were not shared"
