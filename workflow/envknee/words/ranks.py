"""Ranks that train together, in words. Pure."""

from envknee.verdict.series import Ranks


def each(ranks: Ranks) -> str:
    """Return ` per GPU` or ` per rank`, for use after "environments"; "" for a single rank."""
    return f" per {ranks.word}" if ranks.world_size > 1 else ""


def together(ranks: Ranks) -> str:
    """Return ` on 2 GPUs` or ` on 2 ranks`, for use after "FPS"; "" for a single rank."""
    return f" on {ranks_words(ranks)}" if ranks.world_size > 1 else ""


def ranks_words(ranks: Ranks) -> str:
    """Return `2 GPUs`, `2 ranks`, or `one GPU`."""
    return f"one {ranks.word}" if ranks.world_size == 1 else f"{ranks.world_size} {ranks.word}s"
