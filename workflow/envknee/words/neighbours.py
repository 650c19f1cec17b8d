"""What trials side by side cost each other, in words. Pure."""

from envknee.verdict.schema.neighbours import NeighboursEffect
from envknee.words.numbers import counted


def neighbours_words(effect: NeighboursEffect) -> str:
    """Return the FPS of a size alone, and what they are beside other trials."""
    where = f" on the same {'GPU' if effect.same_gpus == 1 else 'GPUs'}" if effect.same_gpus else ""
    said = (
        f"Alone, {effect.num_envs:,} environments have {effect.fps_alone:,.0f} FPS ({counted(effect.alone, 'trial')}{where});"
        f" beside {counted(effect.most, 'other trial')} {effect.ratio:.2f} times as many"
        f" ({effect.ratio_lower:.2f} to {effect.ratio_upper:.2f})."
    )
    if effect.state == "slower":
        return (
            f"{said} Trials side by side slow each other here: --workers 1 measures without that, under another --name."
        )
    return said


def alone_words(num_envs: int, trials: int) -> str:
    """Return what is measured next, and why."""
    return f"{num_envs:,} environments once more alone, {counted(trials, 'time')}: what do trials side by side cost?"


def not_measured(why: str) -> str:
    """Return that the cost is not known."""
    return f"What trials side by side cost each other was not measured: {why}."
