"""What an arm can do when memory is short: one module for each key of its `memory:`, with all that envknee knows of that key.

A file here is a legal key. Its `REMEDY` says what the key takes, and what it does to a trial's environment variables, to the
configuration of each trainer, to a learner that was made, and at the end of each iteration. Knows neither torch nor a trainer: what
it changes, it is given.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from envknee.study.choices import names_in
from envknee.study.rules import OverrideValue


@dataclass(frozen=True)
class Remedy:
    """One key of `memory:`; what it leaves out, it does not touch."""

    type: Any
    """Of its values."""
    field: Any
    """Default and description (pydantic's `Field`). A key that is new says `exclude_if` the default: requests of earlier versions stay
    the same, byte for byte."""
    environment: Callable[[Any], Mapping[str, str]] | None = None
    """Environment variables of a trial's processes, from its value."""
    agent: Mapping[str, Mapping[str, OverrideValue]] | None = None
    """By trainer, fields of the agent's configuration to set. Any other trainer refuses the key."""
    refusals: Mapping[str, str] | None = None
    """Why a trainer refuses it, where more can be said than that nobody has tried."""
    refusals_on_cpu: Mapping[str, str] | None = None
    """The same for a trainer that can do it on a GPU alone."""
    prepare: Callable[[Any, Any, Callable[[BaseException], bool]], None] | None = None
    """Called with a learner once it is made, the meter, and what tells lack of memory from other errors."""
    after_learning: Callable[[Any, Any], Any] | None = None
    """Called with its value and the meter at the end of each iteration; returns what memory was in use before, where it gave some back."""


@cache
def remedies() -> Mapping[str, Remedy]:
    """Return every remedy by its key."""
    names = names_in("study/remedies")
    return {name: importlib.import_module(f"envknee.study.remedies.{name}").REMEDY for name in names}


def fields() -> dict[str, Any]:
    """Return the fields of the model behind `memory:`, as pydantic's `create_model` takes them."""
    return {name: (remedy.type, remedy.field) for name, remedy in remedies().items()}


def asked(memory: BaseModel) -> Iterator[tuple[str, Any, Remedy]]:
    """Give (key, value, remedy) of all that an arm asks for."""
    for name, remedy in remedies().items():
        value = getattr(memory, name)
        if value != remedy.field.default:
            yield name, value, remedy


def environment(memory: BaseModel) -> dict[str, str]:
    """Return the environment variables that a trial's processes need."""
    pairs = [remedy.environment(value) for _, value, remedy in asked(memory) if remedy.environment]
    return {name: value for variables in pairs for name, value in variables.items()}


def agent_fields(memory: BaseModel, trainer: str) -> dict[str, OverrideValue]:
    """Return what a trainer's configuration must say, by dotted name."""
    by_key = [(remedy.agent or {}).get(trainer, {}) for _, _, remedy in asked(memory)]
    return {name: value for fields in by_key for name, value in fields.items()}


def refusals(memory: BaseModel, trainer: str, on_cpu: bool) -> Iterator[tuple[str, Any, Any, str]]:
    """Give (key, value, default, reason) of what an arm asks for and its trainer cannot do."""
    for name, value, remedy in asked(memory):
        reason = (remedy.refusals_on_cpu or {}).get(trainer) if on_cpu else None
        if remedy.agent is not None and trainer not in remedy.agent:
            reason = (remedy.refusals or {}).get(trainer, "nobody has told it how")
        if reason:
            yield name, value, remedy.field.default, reason


def prepare(memory: BaseModel, learner: Any, meter: Any, is_out_of_memory: Callable[[BaseException], bool]) -> None:
    """Prepare a learner that was made: see `Remedy.prepare`."""
    for _, _, remedy in asked(memory):
        if remedy.prepare:
            remedy.prepare(learner, meter, is_out_of_memory)


def after_learning(memory: BaseModel, meter: Any) -> Any:
    """Do what is due at the end of an iteration; return what memory was in use before, where some was given back."""
    given_back = [remedy.after_learning(value, meter) for _, value, remedy in asked(memory) if remedy.after_learning]
    return next(filter(None, given_back), None)
