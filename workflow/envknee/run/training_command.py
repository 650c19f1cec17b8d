"""The command with which a user trains at a setting that a study recommends. Pure, except that presets are files.

Input: the records of an arm, and a setting. Output: a `TrainingCommand`. For a foreign command it is the study's own, without the options
that end it after the trial's iterations. For a trainer of envknee it is Isaac Lab's `isaaclab train`, with the flags of the preset that
measures it, the study's overrides, and a list of what it cannot set.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from envknee.record.schema import Record, Request
from envknee.study.arm import Memory, Setup
from envknee.study.command import OF_A_BATCH, OF_A_RULE, PLACEHOLDER, Command, placeholders
from envknee.study.overrides import hydra
from envknee.trainers.command import program
from envknee.trainers.common import isaac_lab
from envknee.verdict.learning_cost import gpus_of
from envknee.verdict.schema.card import TrainingCommand
from envknee.verdict.schema.joint import Setting

LENGTHS = frozenset({"iterations", "evaluations", "frames"})
"""Placeholders that say how long a program trains: a user's own training has the program's default."""

OF_SETTING = frozenset({"num_envs", "num_envs_total", "horizon", "rollout"}) | OF_A_BATCH | OF_A_RULE
"""Placeholders that say num_envs, horizon and batch size, and what a scaling rule makes of them."""

FLAG = re.compile(r"--?[A-Za-z][^={}]*")
"""A flag whose value is the next word."""

SETTINGS = ("observations", "deterministic", "strategy", "staggered", "learning_rate", "epochs")
"""Settings of a request that `isaaclab train` has no flag for."""


def training_command(records: Sequence[Record], setting: Setting) -> TrainingCommand | None:
    """Return the command that trains at a setting, which is among `records` unless no trial ran it; None without records."""
    if not records:
        return None
    gpus = max(map(gpus_of, records))
    asked = [record.request for record in records if Setting.at(record.request.num_envs, record.request) == setting]
    request = (
        asked[0]
        if asked
        else records[0].request.model_copy(update=setting.model_dump(include=set(Setting.model_fields)))
    )
    if request.command is not None:
        return TrainingCommand(
            argv=_arguments(request, request.command, gpus, has_no_length),
            of_setting=_arguments(request, request.command, gpus, says_setting),
            env=program.variables(request, Path(), gpus),
        )
    return _of_isaac_lab(request, gpus)


def _of_isaac_lab(request: Request, gpus: int) -> TrainingCommand:
    command = isaac_lab.train_command(request)
    if command is None:
        return TrainingCommand(argv=[], lacks=[f"trainer: {request.trainer}"])
    overrides = {name: f"{name}={hydra(value)}" for name, value in isaac_lab.train_overrides(request).items()}
    by_rule = [overrides[field] for name, field in isaac_lab.fields_set_by(request).items() if name in OF_A_RULE]
    return TrainingCommand(
        argv=[*_arguments(request, command, gpus, has_no_length), *overrides.values()],
        of_setting=[*_arguments(request, command, gpus, says_setting), *by_rule],
        lacks=_lacks(request),
    )


def _arguments(request: Request, command: Command, gpus: int, picked: Callable[[set[str]], bool]) -> list[str]:
    """Return those of a command's arguments for a request that are `picked` by their placeholders."""
    of_batch = [] if request.batch_size is None else command.batch_arguments
    words = picked_options([*command.argv, *command.arguments, *of_batch], picked)
    asked = request.model_copy(update={"command": command, "iterations": None})
    known = program.values(asked, Path(), gpus)
    return [program.filled(word, known) for word in words]


def has_no_length(names: set[str]) -> bool:
    """Tell whether an option says nothing of how long a program trains."""
    return not names & LENGTHS


def says_setting(names: set[str]) -> bool:
    """Tell whether an option says a part of the setting."""
    return bool(names & OF_SETTING)


def picked_options(words: Sequence[str], picked: Callable[[set[str]], bool]) -> list[str]:
    """Return the options that are `picked` by the placeholders in them.

    An option is a word; a word that is nothing but a placeholder has the flag before it, if there is one.
    """
    options = list[list[str]]()
    for word in words:
        if PLACEHOLDER.fullmatch(word) and options and FLAG.fullmatch(options[-1][-1]):
            options[-1].append(word)
        else:
            options.append([word])
    return [word for option in options if picked(placeholders(option)) for word in option]


def _lacks(request: Request) -> list[str]:
    """Return the settings of a request that `isaaclab train` cannot set, as a study file has them."""
    defaults = Setup()
    set_by_agent = isaac_lab.fields_set_by(request)
    values = {name: getattr(request, name) for name in SETTINGS if name not in set_by_agent}
    lacks = [f"{name}: {hydra(value)}" for name, value in values.items() if value != getattr(defaults, name, None)]
    memory, usual = request.memory.model_dump(mode="json"), Memory().model_dump(mode="json")
    lacks += [f"memory.{name}: {hydra(value)}" for name, value in memory.items() if value != usual.get(name)]
    if request.world_size > 1:
        lacks.append(f"cpu_ranks: {request.cpu_ranks}" if request.gpus == 0 else f"gpus: {request.gpus}")
    if request.nodes > 1:
        lacks.append(f"nodes: {request.nodes}")
    if request.task_id.startswith("Envknee-") or ":" in request.task_id:
        lacks.append(f"task.id: {request.task_id}")
    return lacks
