"""GPUs that a command did not use, in words. Pure."""

from collections.abc import Sequence

from envknee.words.numbers import counted


def idle_words(idle: Sequence[int], gpus: int, ranks: int) -> str:
    """Return which of a trial's GPUs were idle, and what to do. Its FPS count `ranks` times num_envs environments."""
    used = gpus - len(idle)
    verb = "was" if len(idle) == 1 else "were"
    names = " and ".join(f"GPU {gpu}" for gpu in idle)
    said = f"{names} of {gpus} {verb} idle: the command uses {counted(used, 'GPU')}."
    if ranks > used:
        said += f" FPS are counted for {ranks} ranks: they are {ranks / used:g} times too high if only {used} ran."
    return f"{said} Take --gpus {used} (`gpus: {used}`), or let it use all: torchrun, or {{gpus}} in its arguments"
