"""The command line of a search: as a user types it, and as the atlas runs it here. Pure."""

import shlex
from collections.abc import Iterable, Sequence

from envknee.study.errors import UserError, nearest

from benchmarks.atlas.listed import Program, Task


def options_of(program: Program, task: Task) -> list[str]:
    """Return the options of `envknee knee` that the list states."""
    stated = {
        "--preset": program.preset,
        "--num-envs": task.num_envs,
        "--from": task.first_size if task.num_envs is None else None,
        "--horizon": task.horizon,
        "--batch-size": task.batch_size,
        "--repeats": task.repeats,
        "--target-reward": None if task.target_reward is None else f"{task.target_reward:g}",
        "--budget-s": task.budget_s,
    }
    return [word for name, value in stated.items() if value is not None for word in (name, str(value))]


def command(program: Program, task: Task, start: Sequence[str]) -> list[str]:
    """Return the command that trains, with `start` in place of the program's own."""
    return [*start, *task.command]


def typed(program: Program, task: Task) -> str:
    """Return the line that repeats a search on any machine with the program."""
    words = ["envknee", "knee", *options_of(program, task), "--", *command(program, task, program.start)]
    return shlex.join(words)


def knee(name: str, program: Program, task: Task, start: Sequence[str], time_s: float, on_gpu: bool) -> list[str]:
    """Return the arguments after `envknee` for a search of one trial at a time that ends by `time_s` seconds from now."""
    where = [] if on_gpu else ["--gpus", "0"]
    here = ["--name", name, "--workers", "1", "--time", f"{time_s:.0f}s", *where]
    return ["knee", *options_of(program, task), *here, "--", *command(program, task, start)]


def starts_of(given: Iterable[str], programs: Iterable[str]) -> dict[str, list[str]]:
    """Return from texts `NAME=WORDS` the words that start each program on this machine.

    Raises:
        UserError: for a text without words, or a program that the list does not have.
    """
    known, found = list(programs), {}
    for text in given:
        name, _, words = text.partition("=")
        if name not in known:
            raise UserError(
                f"--start {text}: the list has no program {name!r}{nearest(name, known)}. Expected one of: {', '.join(known)}"
            )
        found[name] = shlex.split(words)
        if not found[name]:
            raise UserError(f"--start {text}: expected NAME=WORDS, such as {name}=/home/me/venv/bin/python")
    return found
