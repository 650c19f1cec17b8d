"""`isaaclab train` for what a trial trains: its command, from the preset of the same library, and the fields that have no flag.

Pure, except that presets are files. Imports neither torch nor Isaac Lab.
"""

from envknee.record.schema import Request
from envknee.study.command import Command
from envknee.study.value_types import Overrides

PRESETS = {"rsl_rl": "isaaclab-rsl-rl", "rl_games": "isaaclab-rl-games", "skrl": "isaaclab-skrl"}
"""Trainer -> the preset of the same library in `isaaclab train`. Stable-Baselines3 and TorchRL are not here: envknee's trainers give tasks
that register no agent for them one, and `isaaclab train` refuses these."""

OF_RSL_RL = {
    "learning_rate": "agent.algorithm.learning_rate",
    "epochs": "agent.algorithm.num_learning_epochs",
    "staggered": "agent.init_at_random_ep_len",
}
"""Settings of a request that are fields of RSL-RL's agent."""


def train_command(request: Request) -> Command | None:
    """Return the command, with placeholders for the sizes; None for a trainer that `isaaclab train` does not have."""
    preset = PRESETS.get(request.trainer)
    if preset is None:
        return None
    argv = ["isaaclab", "train", "--rl_library", request.trainer, "--task", request.task_id]
    if request.frontend != "torch":
        argv += ["--frontend", request.frontend]
    return Command.model_validate({"preset": preset, "argv": argv})


def fields_set_by(request: Request) -> dict[str, str]:
    """Return setting of a request -> the agent's field, of those that the request sets."""
    fields = OF_RSL_RL if request.trainer == "rsl_rl" else {}
    return {name: field for name, field in fields.items() if getattr(request, name) is not None}


def train_overrides(request: Request) -> Overrides:
    """Return the fields that a request sets beside its sizes, by dotted name: the study's overrides, and `fields_set_by`."""
    return request.overrides | {field: getattr(request, name) for name, field in fields_set_by(request).items()}
