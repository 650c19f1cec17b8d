"""The JSON that commands print with --json, and its schemas: what docs/json.md and `schemas/` of the site are made of."""

import importlib
from typing import Any

from pydantic import TypeAdapter

from envknee.commands import COMMANDS
from envknee.study.schema import DescribedSchema


def answering() -> list[str]:
    """Return the commands that print JSON."""
    return [name for name, command in COMMANDS.items() if command.prints is not None]


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON schema of what a command prints with --json."""
    prints = COMMANDS[name].prints
    assert prints is not None, f"{name} prints no JSON"
    module, _, kind = prints.partition(":")
    printed = TypeAdapter(getattr(importlib.import_module(module), kind))
    schema = printed.json_schema(schema_generator=DescribedSchema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
