"""docs/blocks.md and docs/measuring.md: trials in blocks beside fresh processes, and beside trials on other GPUs."""

from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from benchmarks.blocks import Agreement, agreement
from benchmarks.neighbours import Measured, ratios
from benchmarks.pages.cells import table
from benchmarks.pages.published import json_of

GPU_BOUND = 2048
"""From this num_envs on the GPU limits FPS in `blocks-lean-warp-h100`."""


class Pair(NamedTuple):
    """A size in a block, and in a fresh process of the same round."""

    num_envs: int
    block: dict[str, Any]
    fresh: dict[str, Any]


def pairs_of(file: str) -> list[Pair]:
    """Return what a file of `envknee blocks` holds, by ascending size. The first such file was written round by round."""
    measured = json_of(file)
    if "sides" in measured:
        block, fresh = measured["sides"]["block"], measured["sides"]["fresh"]
        found = [Pair(int(size), *both) for size in block for both in zip(block[size], fresh[size], strict=True)]
    else:
        found = [
            Pair(int(size), trial, own["fresh"][size])
            for own in measured["rounds"]
            for size, trial in own["block"].items()
        ]
    return sorted(found, key=lambda pair: pair.num_envs)


def fps_agreement(pairs: Sequence[Pair]) -> Agreement:
    """Return FPS in a block over those of a fresh process."""
    return agreement([pair.block["fps"] for pair in pairs], [pair.fresh["fps"] for pair in pairs])


def start_in_block_s(pairs: Sequence[Pair]) -> float:
    """Return the median start in a block, without the trials that began their block."""
    return median(pair.block["start_s"] for pair in pairs if pair.block["position"])


def by_size() -> str:
    """Return FPS, memory and start in a block beside a fresh process's, by size."""
    every = pairs_of("blocks-h200")
    rows = []
    for size in sorted({pair.num_envs for pair in every}):
        pairs = [pair for pair in every if pair.num_envs == size]
        fps = fps_agreement(pairs)
        memory = median(pair.block["memory_gb"] / pair.fresh["memory_gb"] for pair in pairs)
        fresh_s = median(pair.fresh["start_s"] for pair in pairs)
        rows.append(
            (
                f"{size:,}",
                f"{len(pairs)}",
                f"{fps.ratio:.3f}",
                f"{fps.lower:.3f} to {fps.upper:.3f}",
                f"{memory:.3f}",
                f"{start_in_block_s(pairs):.1f} s",
                f"{fresh_s:.1f} s",
            )
        )
    heads = (
        "num_envs", "pairs", "FPS, block ÷ fresh", "90% interval", "peak memory, block ÷ fresh (median)",
        "start in a block", "start, fresh",
    )  # fmt: skip
    return table(heads, rows)


def all_sizes() -> str:
    """Return FPS and start of all pairs of each file, and of the sizes at which the GPU limits FPS."""
    lean = pairs_of("blocks-lean-warp-h100")
    small = [pair for pair in lean if pair.num_envs == 1024]
    bound = [pair for pair in lean if pair.num_envs >= GPU_BOUND]
    rows = [
        _together("H200s, stock frames, 512 to 16,384", pairs_of("blocks-h200"), "blocks-h200"),
        _together(
            "H200s, stock frames, 256 to 8,192, a later version", pairs_of("blocks-h200-later"), "blocks-h200-later"
        ),
        _together("H100s, lean frames on Warp's frontend, 1,024", small, "blocks-lean-warp-h100"),
        _together("the same, 2,048 to 16,384", bound, "blocks-lean-warp-h100"),
    ]
    heads = ("environments", "pairs", "FPS, block ÷ fresh", "within ± 2%", "start in a block", "start, fresh", "record")
    return table(heads, rows)


def _together(what: str, pairs: Sequence[Pair], file: str) -> tuple[str, ...]:
    fps = fps_agreement(pairs)
    return (
        what,
        f"{len(pairs)}",
        f"{fps.ratio:.3f} (90% interval {fps.lower:.3f} to {fps.upper:.3f})",
        "shown" if fps.is_shown else "not shown",
        f"{start_in_block_s(pairs):.1f} s",
        f"{median(pair.fresh['start_s'] for pair in pairs):.1f} s",
        f"[`{file}.json`](../results-published/{file}.json)",
    )


def neighbours() -> str:
    """Return the FPS of two trials side by side over those of one alone, by size."""
    measured = [Measured(**own) for own in json_of("neighbours-h100")["measured"]]
    rows = []
    for size in sorted({own.num_envs for own in measured}, reverse=True):
        pairs = ratios(measured, size, 2)
        beside, alone = zip(*pairs, strict=True)
        fps = agreement(beside, alone)
        rows.append(
            (
                f"{size:,}",
                f"{len(pairs)}",
                f"{fps.ratio:.3f} (90% interval {fps.lower:.3f} to {fps.upper:.3f})",
                f"{min(alone):,.0f} to {max(alone):,.0f}",
            )
        )
    return table(("environments", "rounds", "FPS of each, beside ÷ alone", "FPS alone, by round"), rows)


def shared_gpu() -> str:
    """Return what four learning trials at once on one GPU take, beside trials alone there."""
    trials = json_of("shared-gpu-h200")["trials"]
    rows = []
    for size in sorted({trial["num_envs"] for trial in trials}):
        alone, beside = (
            [trial["fps"] for trial in trials if trial["num_envs"] == size and trial["at_once"] == count]
            for count in (1, 4)
        )
        ratio = median(beside) / median(alone)
        rows.append(
            (
                f"{size:,}",
                f"{median(alone):,.0f} ({min(alone):,.0f} to {max(alone):,.0f})",
                f"{median(beside):,.0f} ({min(beside):,.0f} to {max(beside):,.0f})",
                f"{4 * ratio:.2f} times",
            )
        )
    head = ("environments", "FPS alone, median (range)", "FPS of each of four", "of all four ÷ alone")
    return table(head, rows)


BLOCKS = {
    "blocks-by-size": by_size,
    "blocks-all-sizes": all_sizes,
    "neighbours": neighbours,
    "shared-gpu": shared_gpu,
}
