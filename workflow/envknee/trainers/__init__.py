"""How it learns: one module or package per library, chosen by its name in the study (`trainer: rsl_rl`).

Each has the same three functions; a file that is added here is a legal name. `common` is what they share. `command` is apart: it
measures a program of somebody else's from outside (`envknee.run.foreign`), and imports neither torch nor Isaac Lab.

resolve(request, device, rank) -> TrialConfig    every field of environment and agent, checked; nothing simulated yet
train(config, meter)                             runs until the meter says that the trial is done
command_line(request, device)                    the same training as Isaac Lab's own command, to measure against
"""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from envknee.record.schema import Request
from envknee.study.errors import UserError

if TYPE_CHECKING:  # it imports torch, which a foreign command does without
    from envknee.measure.meter import Meter


@dataclass(frozen=True)
class TrialConfig:
    """What a trainer runs: Isaac Lab's environment and agent configurations with everything set."""

    task_id: str
    env: Any
    agent: Any


class Trainer(Protocol):
    """What each module of this package provides."""

    def resolve(self, request: Request, device: str, rank: int = 0) -> TrialConfig:
        """Return the complete configuration of one rank of a trial. Raises UserError for whatever is wrong with it."""
        ...

    def train(self, config: TrialConfig, meter: "Meter") -> None:
        """Train, reporting every step and iteration to `meter`, which ends the trial by raising `TrialDone`."""
        ...

    def command_line(self, request: Request, device: str) -> list[str]:
        """Return Isaac Lab's own command for the same training. Raises UserError as `resolve` does."""
        ...


def load(name: str) -> Trainer:
    """Return the trainer called `name` in a study.

    Raises:
        UserError: when its library is not installed.
    """
    try:
        importlib.import_module("envknee.tasks")  # first: it says how Warp compiles what trainers import
        return importlib.import_module(f"envknee.trainers.{name}")  # type: ignore[return-value]  # a module is the protocol
    except ModuleNotFoundError as error:
        if (error.name or "envknee").partition(".")[0] == "envknee":
            raise
        raise UserError(
            f"trainer: {name} needs the package {error.name}, which is not installed here. Run `make setup TRAINERS=all`,"
            " or use trainer: rsl_rl"
        ) from error
