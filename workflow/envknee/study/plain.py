"""Plain data of YAML and JSON files: bounded in size, depth and aliases, and only from regular files."""

import json
from pathlib import Path
from typing import Any

import yaml

from envknee.study.errors import UserError
from envknee.study.files import open_regular
from envknee.study.paths import shipped

MOST_BYTES = 1_000_000
"""Largest file; studies in config/studies have 2,000 bytes."""

MOST_NODES = 10_000
"""Most keys and values of a file, with aliases written out."""


class OneOfEach(yaml.SafeLoader):
    """YAML that refuses a repeated key (PyYAML silently takes the last one) and aliases that expand without end."""

    def get_single_node(self) -> Any:
        """Read the document, and count its keys and values."""
        document = super().get_single_node()
        if document is not None and _expanded(document, {}) > MOST_NODES:
            raise yaml.MarkedYAMLError(
                problem=f"with its aliases written out it has more than {MOST_NODES:,} keys and values"
            )
        return document

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Read one mapping, before aliases are merged into it."""
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key.value} stands there twice", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return node


def _expanded(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of nodes with aliases written out, at most MOST_NODES + 1."""
    if id(node) not in known:
        known[id(node)] = MOST_NODES + 1  # for a node that contains itself
        children = [child for item in node.value for child in (item if isinstance(item, tuple) else [item])]
        inner = sum(_expanded(child, known) for child in children if isinstance(child, yaml.Node))
        known[id(node)] = min(1 + inner, MOST_NODES + 1)
    return known[id(node)]


def read_plain(path: Path, what: str, example: str, new: str | None = None) -> Any:
    """Return the data of a YAML or JSON file.

    Raises:
        UserError: when it is missing, no regular file, too large, or not YAML (with line and column). It says that `what` was expected,
            and names the `example`, a file that shows how one looks, and what makes a `new` one: without it, a copy of the example.
    """
    example = shipped(example)
    new = new or f"copy {example} and edit it"
    form = "JSON" if path.suffix == ".json" else "YAML"
    try:
        with open_regular(path) as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise UserError(f"{path} has {path.stat().st_size:,} bytes, and {what} at most {MOST_BYTES:,}.")
        text = content.decode("utf-8")
        return json.loads(text) if form == "JSON" else yaml.load(text, OneOfEach)  # noqa: S506  # a SafeLoader
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist, and {what} was expected there. Name another file, or {new}") from error
    except RecursionError as error:
        raise UserError(f"{path} is nested too deeply for {what}. {example} shows how one looks.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{path} is not {form}: {error}\nMend it there: {example} shows how {what} looks.") from error
