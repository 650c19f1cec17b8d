"""A table of registered tasks, as in docs/tasks.md: whether each runs without Isaac Sim, with which presets, and which files it lacks.

`envknee tasks` prints all tasks, in a minute or two, and `envknee tasks Isaac-Ant Isaac-Cartpole-Camera-Direct` these.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from envknee import tasks
from envknee.study.errors import UserError
from envknee.tasks import assets, physics

TRAINERS = ("rsl_rl", "skrl", "rl_games", "sb3")
"""Trainers that start from an agent configuration registered under their own name. `torchrl` can use RSL-RL's."""

CHOICES: dict[str, tuple[str | None, ...]] = {
    "newton": (None, "newton_mjwarp", "newton_renderer", "newton_mjwarp,newton_renderer"),
    physics.OVPHYSX: ("ovphysx", "ovphysx,newton_renderer"),
}
"""Values of `presets` to try for each physics engine, the shortest first; None is the task's default."""

HEAD = "| task | trainers | Newton | PhysX without Isaac Sim | files that it lacks |\n| --- | --- | --- | --- | --- |"


@dataclass(frozen=True)
class TaskRow:
    """A task in the table."""

    name: str
    trainers: tuple[str, ...]
    how: dict[str, str | None]
    """By physics engine, the `presets` to set; None: the task's default. Empty if the task does not run."""
    why_not: str | None
    """Why the task does not run; None if it does."""
    files: tuple[str, ...]
    """Files of NVIDIA's asset server that the task needs, by their paths inside `task.asset_root`."""


def inspect_task(name: str) -> TaskRow:
    """Return a task's line, from its configuration alone: nothing is simulated or downloaded.

    `name` may begin with the module that registers the task: `mylab.tasks:MyLab-Reach`.

    Raises:
        UserError: when the task or its module does not exist.
    """
    from isaaclab.utils.assets import NUCLEUS_ASSET_ROOT_DIR

    kwargs = tasks.registration(name)
    trainers = tuple(trainer for trainer in TRAINERS if f"{trainer}{tasks.AGENT}" in kwargs)
    how: dict[str, str | None] = {}
    files: set[str] = set()
    why_not = ""
    for simulator, choices in CHOICES.items():
        for presets in choices:
            try:
                env_cfg, _ = tasks.resolve(name, None, presets)
                backend = physics.backend(env_cfg)
            except UserError as error:
                why_not = why_not or _reason(error)
                continue
            if backend == simulator:
                how[simulator] = presets
                tasks.use_local_files(env_cfg, "local")
                files |= {file.removeprefix(f"{NUCLEUS_ASSET_ROOT_DIR}/") for file in assets.fetched(env_cfg).values()}
                break
    return TaskRow(name, trainers, how, None if how else why_not, tuple(sorted(files)))


def _reason(error: UserError) -> str:
    """Return why a task does not run, in a few words."""
    said = str(error)
    if "needs a package" in said:
        cause = error.__cause__
        name = cause.name if isinstance(cause, ImportError) else None
        return f"needs the package {name}" if name else "needs packages that envknee does not install"
    return "needs Isaac Sim" if "needs Isaac Sim" in said else "has no such preset"


def row(task: TaskRow) -> str:
    """Return a task's line of the Markdown table. Pure."""
    newton, ovphysx = (_how(task, simulator) for simulator in CHOICES)
    files = "<br>".join(task.files) or ("—" if task.why_not else "none")
    return f"| {task.name} | {', '.join(task.trainers) or '—'} | {newton} | {ovphysx} | {files} |"


def _how(task: TaskRow, simulator: str) -> str:
    if simulator not in task.how:
        return task.why_not or "—"
    presets = task.how[simulator]
    return "yes" if presets is None else f"`presets: {presets}`"


def summary(listed: Sequence[TaskRow]) -> str:
    """Return how many tasks run, in a few sentences. Pure."""
    runs = [task for task in listed if task.how]
    by = {simulator: sum(simulator in task.how for task in listed) for simulator in CHOICES}
    bare = sum(not task.files for task in runs)
    trained = sum(bool(task.trainers) for task in runs)
    return (
        f"Of {len(listed)} tasks {len(runs)} run without Isaac Sim: {by['newton']} with Newton, {by[physics.OVPHYSX]} with PhysX."
        f" {trained} of them configure an agent for one of envknee's trainers. {bare} need no file that envknee lacks."
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Print every registered task as a table in Markdown.")
    parser.add_argument("task", nargs="*", help="only these (default: all)")
    arguments = parser.parse_args()
    known = tasks.registered()
    for name in arguments.task:
        if name not in known:
            raise UserError(f"{name!r} is no registered task. `envknee tasks` lists all of them")
    with contextlib.redirect_stdout(sys.stderr):  # Isaac Lab prints while it reads configurations
        listed = [inspect_task(name) for name in arguments.task or known]
    print(summary(listed), end="\n\n")
    print(HEAD)
    print("\n".join(map(row, listed)), flush=True)
    os._exit(0)  # skips the shutdown of Isaac Lab and PyTorch, which may fail
