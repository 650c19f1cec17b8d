"""What an arm can do when memory is short: one module for each key of its `memory:`.

A file here is a legal key. Its `REMEDY` states the key's values, and its effect on a trial's environment variables, on each
trainer's configuration, on a new learner, and at the end of each iteration. Remedies import neither torch nor a trainer: they
receive the objects that they change.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from envknee.study.choices import modules_in
from envknee.study.value_types import OverrideValue


@dataclass(frozen=True)
class Remedy:
    """One key of `memory:`. What is left out has no effect."""

    type: Any
    """Type of the key's values."""
    field: Any
    """Default and description (pydantic's `Field`). A new key needs `envknee.base.fields.newer`."""
    environment: Callable[[Any], Mapping[str, str]] = lambda _: {}
    """Returns environment variables of a trial's processes, from the key's value."""
    agent: Mapping[str, Mapping[str, OverrideValue]] | None = None
    """Fields of the agent's configuration to set, by trainer. Any other trainer refuses the key."""
    refusals: Mapping[str, str] | None = None
    """Reasons of trainers that refuse the key; the default reason is that envknee does not know how."""
    refusals_on_cpu: Mapping[str, str] | None = None
    """Reasons of trainers that refuse the key on a CPU."""
    prepare: Callable[[Any, Any], None] = lambda *_: None
    """Called with the new learner and the meter."""
    after_learning: Callable[[Any, Any], Any] = lambda *_: None
    """Called with the key's value and the meter after each iteration. If it frees memory, it returns the memory in use before."""


@cache
def remedies() -> Mapping[str, Remedy]:
    """Return every remedy by its key."""
    names = modules_in(Path(__file__).parent)
    return {name: importlib.import_module(f"envknee.study.remedies.{name}").REMEDY for name in names}


def asked(memory: BaseModel) -> Iterator[tuple[str, Any, Remedy]]:
    """Yield (key, value, remedy) for each key that is not at its default."""
    for name, remedy in remedies().items():
        value = getattr(memory, name)
        if value != remedy.field.default:
            yield name, value, remedy


def environment(memory: BaseModel) -> dict[str, str]:
    """Return the environment variables that a trial's processes need."""
    return {name: text for _, value, remedy in asked(memory) for name, text in remedy.environment(value).items()}


def agent_fields(memory: BaseModel, trainer: str) -> dict[str, OverrideValue]:
    """Return the fields that a trainer's configuration needs, by dotted name."""
    by_key = [(remedy.agent or {}).get(trainer, {}) for _, _, remedy in asked(memory)]
    return {name: value for fields in by_key for name, value in fields.items()}


def refusals(memory: BaseModel, trainer: str, on_cpu: bool) -> Iterator[tuple[str, Any, Any, str]]:
    """Yield (key, value, default, reason) for each key that the arm's trainer cannot follow."""
    for name, value, remedy in asked(memory):
        reason = (remedy.refusals_on_cpu or {}).get(trainer) if on_cpu else None
        if remedy.agent is not None and trainer not in remedy.agent:
            reason = (remedy.refusals or {}).get(trainer, "nobody has told it how")
        if reason:
            yield name, value, remedy.field.default, reason


def prepare(memory: BaseModel, learner: Any, meter: Any) -> None:
    """Call each remedy's `prepare`."""
    for _, _, remedy in asked(memory):
        remedy.prepare(learner, meter)


def after_learning(memory: BaseModel, meter: Any) -> Any:
    """Call each remedy's `after_learning`. If one freed memory, return the memory in use before."""
    given_back = [remedy.after_learning(value, meter) for _, value, remedy in asked(memory)]
    return next(filter(None, given_back), None)
