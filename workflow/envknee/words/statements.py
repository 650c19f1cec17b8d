"""Which function says a part of a verdict in a sentence, and which says its notes. Pure."""

from collections.abc import Callable
from typing import Any

from envknee.verdict.schema.levers import Remedies, Remedy
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.study import Spending
from envknee.words.memory import memory_notes, memory_statement
from envknee.words.remedies import remedies_notes, remedies_statement, remedy_statement
from envknee.words.spending import spending_statement

STATEMENTS: dict[type, Callable[[Any], str]] = {
    MemoryLimit: memory_statement,
    Remedies: remedies_statement,
    Remedy: remedy_statement,
    Spending: spending_statement,
}
"""Model -> its sentence."""

NOTES: dict[type, Callable[[Any], list[str]]] = {
    MemoryLimit: memory_notes,
    Remedies: remedies_notes,
}
"""Model -> its notes, a sentence each."""


def statement_of(part: Any) -> str:
    """Return a part of a verdict in a sentence."""
    say = STATEMENTS.get(type(part))
    return part.statement if say is None else say(part)


def notes_of(part: Any) -> list[str]:
    """Return the notes on a part of a verdict, a sentence each."""
    say = NOTES.get(type(part))
    return part.notes if say is None else say(part)
