"""Study files, read into `Study`."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from envknee.study.errors import UserError, nearest
from envknee.study.model import Study
from envknee.study.paths import shipped

EXAMPLE = "config/config.yaml"
"""The study file that explains each key."""


def parse_study(data: Any, source: str = "the study", context: str | None = None) -> Study:
    """Return the study described by plain data. With `context=ELSEWHERE` (a study of another machine) no file is read.

    Raises:
        UserError: names each wrong key with its value, what was expected, and the nearest legal key.
    """
    if not isinstance(data, dict):
        raise UserError(f"{source}: expected keys and values (study: ..., throughput: ...), got {type(data).__name__}")
    try:
        return Study.model_validate(data, context=context)
    except ValidationError as error:
        problems = "\n".join(f"  {explain(problem, _legal_keys)}" for problem in error.errors())
        raise UserError(
            f"{source} is not a legal study:\n{problems}\nEvery key is explained in {shipped(EXAMPLE)}."
        ) from error


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


def read_study(path: Path) -> Study:
    """Read a study file: YAML, or the JSON of a results folder. Raises a UserError as `read_plain` and `parse_study` do."""
    return parse_study(read_plain(path, "a study", EXAMPLE), str(path))


def read_plain(path: Path, what: str, example: str) -> Any:
    """Return the data of a YAML or JSON file.

    Raises:
        UserError: when it is missing, too large, or not YAML (with line and column). It says that `what` was expected, and names the
            `example`, a file of the project that shows how one looks.
    """
    example = shipped(example)
    form = "JSON" if path.suffix == ".json" else "YAML"
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UserError(f"{path} has {path.stat().st_size:,} bytes, and {what} at most {MOST_BYTES:,}.")
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if form == "JSON" else yaml.load(text, OneOfEach)  # noqa: S506  # a SafeLoader
    except FileNotFoundError as error:
        raise UserError(
            f"{path} does not exist, and {what} was expected there. Name another file, or copy {example} and edit it"
        ) from error
    except RecursionError as error:
        raise UserError(f"{path} is nested too deeply for {what}. {example} shows how one looks.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UserError(f"{path} is not {form}: {error}\nMend it there: {example} shows how {what} looks.") from error


def explain(problem: Any, legal_keys: Callable[[list[str]], list[str]]) -> str:
    """Return an item of `ValidationError.errors()` as a line: the key, what is wrong, what is legal.

    `legal_keys` returns the keys that are legal below a key.
    """
    location = [str(part) for part in problem["loc"]]
    key = ".".join(location)
    if problem["type"] == "extra_forbidden":
        legal = legal_keys(location[:-1])
        return f"{key}: unknown key{nearest(location[-1], legal)}. Legal here: {', '.join(sorted(legal))}"
    if problem["type"] == "missing":
        return f"{key}: this key is needed, and is not there"
    message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "expected")
    if problem["type"] == "model_type":
        message = f"expected keys with values: {', '.join(legal_keys(location))}"
    elif problem["type"] == "too_short":
        message = "expected at least one"
    # The error of a whole section names the values itself.
    is_section = location in (["throughput"], ["learning"]) or (
        location[:1] == ["arms"] and (len(location) == 2 or location[2:] == ["scaling"])
    )
    of_a_section = problem["type"] == "value_error" and isinstance(problem["input"], dict) and is_section
    value = f" (got {problem['input']!r})" if location and not of_a_section else ""
    return f"{key or 'study'}: {message}{value}"


def _legal_keys(location: list[str]) -> list[str]:
    """Return the keys that are legal at a place in the study."""
    model: type[BaseModel] = Study
    for place, key in enumerate(location):
        if location[0] != "arms" or place != 1:  # an arm's name is no field
            model = _model_in(model.model_fields[key].annotation) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model in a field's type, such as `Arm` in `dict[str, Arm]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
