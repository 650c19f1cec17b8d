"""Trainers: one module or package per RL library, chosen by its name in the study (`trainer: rsl_rl`).

In: a request. Out: rows and stop signals through the meter. A file added here becomes a legal name. Each trainer has the two functions
of `Trainer`; `common` holds shared code. `command` is an exception: it measures a foreign program from outside (`envknee.run.foreign`),
and imports neither torch nor Isaac Lab.
"""

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from envknee.study.choices import modules_in
from envknee.study.errors import UserError

# The meter imports torch, which a foreign command does not need, and a request needs the names below first.
if TYPE_CHECKING:
    from envknee.measure.meter import Meter
    from envknee.record.schema import Request


@dataclass(frozen=True)
class TrialConfig:
    """Isaac Lab's complete environment and agent configurations of a trial."""

    task_id: str
    env: Any
    agent: Any


class Trainer(Protocol):
    """The functions of each trainer module."""

    def resolve(self, request: "Request", device: str, rank: int = 0) -> TrialConfig:
        """Return the complete configuration of one rank; simulate nothing. Each rank has its own seed, as with `isaaclab train`.

        Raises:
            UserError: when the library lacks a requested option, the task, the asset or an override is wrong, or the batch does not
                divide the rollout.
        """
        ...

    def train(self, config: TrialConfig, meter: "Meter") -> None:
        """Train and report every step and iteration to `meter`, until it raises `TrialDone`."""
        ...


def names() -> tuple[str, ...]:
    """Return the trainers, without importing any: a study's legal values of `trainer:`."""
    return tuple(name for name in modules_in(Path(__file__).parent) if name != "common")


def load(name: str) -> Trainer:
    """Return the trainer called `name` in a study.

    Raises:
        UserError: when its library is not installed.
    """
    try:
        importlib.import_module("envknee.tasks")  # first: it sets how Warp compiles the kernels that trainers import
        return importlib.import_module(f"envknee.trainers.{name}")  # type: ignore[return-value]  # a module is the protocol
    except ModuleNotFoundError as error:
        if (error.name or "envknee").partition(".")[0] in ("envknee", "leanframes"):
            raise
        raise UserError(
            f"trainer: {name} needs the package {error.name}, which is not installed here. Run `make setup TRAINERS=all`,"
            " or use trainer: rsl_rl"
        ) from error
