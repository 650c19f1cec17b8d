"""Checks that a trial which trained to its end simulated what was asked: a simulation that drops contacts is fast, but wrong. Pure."""

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
    r"arena memory is full|insufficient arena memory": (
        "MuJoCo dropped contacts or constraints, raise the memory that its model names (<size>)"
    ),
    r"(?:contact|patch|pair|force)\b.* buffer overflow|force buffer overflow": (
        "PhysX dropped contacts, raise the GPU buffer that the line names"
    ),
    r"collisionStackSize|Px\w*MemoryConfig::\w+": "PhysX missed interactions, raise the capacity that the line names",
}
"""Messages of engines whose buffer is full, with their meaning: mujoco_warp 3.12.0 and Newton 1.6.1 (`wp.printf` in their sources),
MuJoCo 3.12.0 (its warnings), PhysX 5 (Isaac Lab's issues 176, 931 and 1199)."""

GROWS_BY = 0.05
"""Least growth of memory over the timed iterations, relative to the first sample, that counts as a leak."""

LEAST_SAMPLES, LEAST_RISES = 5, 3
"""Least numbers of memory samples, and of rises between them, for a leak. Two rows may share a sample."""

MOST_FALLS = 0.1
"""Largest share of falls between samples of a leak, as noise."""

EACH_HALF = 0.2
"""Least share of the growth in either half of the iterations: one allocation, or a cache that fills up, grows in one half only."""

FAILURE = Failure(iteration=None, tensor="simulation")
"""Failure of a trial that trained to its end on a wrong simulation."""

LEAST_FRAMES = 16
"""Least number of pairs of successive images, over all environments, to judge whether images change."""


def matches(lines: Iterable[str], patterns: Mapping[re.Pattern[str], str]) -> dict[str, str]:
    """Return the meaning of each pattern that matches a line, with the first such line."""
    first_lines: dict[str, str] = {}
    for line in lines:
        for pattern, meaning in patterns.items():
            if meaning not in first_lines and pattern.search(line):
                first_lines[meaning] = line.strip()
    return first_lines


def patterns(texts: Mapping[str, str]) -> dict[re.Pattern[str], str]:
    """Return case-insensitive patterns with their meaning: those of all engines, and `texts`."""
    return {re.compile(text, re.IGNORECASE): meaning for text, meaning in (OVERFLOWS | dict(texts)).items()}


def sentences(first_lines: Mapping[str, str]) -> list[str]:
    """Return a sentence for each result of `matches`."""
    return [f"{meaning} (its log says: {line})" for meaning, line in first_lines.items()]


def growing(memory_gb: Sequence[float]) -> str | None:
    """Return a sentence if memory, sampled at each timed row, leaks; None if it does not, or with too few samples."""
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
    """Return a sentence if no mean episode length exceeds one step; None if one does, or if all lengths are unknown."""
    known = [length for length in lengths if length is not None]
    if not known or max(known) > 1.0:
        return None
    return f"episodes last {max(known):g} steps at most: every environment ends at once"


def frozen(rollout: Mapping[str, Any]) -> str | None:
    """Return a sentence if a camera's frames never change; None if a pixel of each changes, or with too few frames.

    Args:
        rollout: by group, the observations of one rollout [horizon, num_envs, ...] as tensors; cameras' have five dimensions
    """
    for group, frames in rollout.items():
        if frames.ndim != 5 or (frames.shape[0] - 1) * frames.shape[1] < LEAST_FRAMES:
            continue
        # Step by step up to the first change: a rollout on a GPU is too large for one comparison.
        if all(bool((frames[step] == frames[step + 1]).all()) for step in range(frames.shape[0] - 1)):
            return (
                f"no pixel of {group} changed in a rollout of {frames.shape[0]} steps: the camera renders nothing new"
            )
    return None


def apart(digests: Sequence[str]) -> str | None:
    """Return a sentence if ranks ended with different networks; `digests` has a digest of each rank's weights, by rank."""
    others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if not others:
        return None
    return f"rank {', '.join(map(str, others))} of {len(digests)} learned other weights than rank 0: their gradients were not shared"
