"""Study files, read into `Study`."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from envknee.study import secret_values
from envknee.study.command import ELSEWHERE, HERE
from envknee.study.errors import UserError, nearest
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, shipped
from envknee.study.plain import read_plain

EXAMPLE = "config/config.yaml"
"""The study file that explains each key."""

NEW = "write a first study of your task: `envknee init FOLDER --task TASK`"
"""What makes a new study file."""


def parse_study(data: Any, source: str = "the study", context: str = HERE) -> Study:
    """Return the study described by plain data.

    With `context=ELSEWHERE` it may come from somebody else: a preset by path is refused, so that no file is read. With `HERE`, the user's
    own, secrets in it are refused: results, archives and tracking stores would keep them.

    Raises:
        UserError: names each wrong key with its value, what was expected, and the nearest legal key; or where a secret stands.
    """
    if not isinstance(data, dict):
        raise UserError(f"{source}: expected keys and values (study: ..., throughput: ...), got {type(data).__name__}")
    if context == HERE:
        secret_values.refuse(data, source)
    try:
        return Study.model_validate(data, context=context)
    except ValidationError as error:
        problems = "\n".join(f"  {explain(problem, _legal_keys)}" for problem in error.errors())
        raise UserError(
            f"{source} is not a legal study:\n{problems}\nEvery key is explained in {shipped(EXAMPLE)}."
        ) from error


def read_study(path: Path) -> Study:
    """Read a study file: YAML, or the JSON of a results folder. Raises a UserError as `read_plain` and `parse_study` do."""
    return parse_study(read_plain(path, "a study", EXAMPLE, NEW), str(path), context_of([path]))


def context_of(files: Iterable[str | Path]) -> str:
    """Return how a study from these files is read: as the user's own, or as somebody else's, if one is part of results."""
    return ELSEWHERE if any(map(is_of_results, files)) else HERE


def is_of_results(file: str | Path) -> bool:
    """Tell whether a study file is part of a results folder, which may come from another machine."""
    return Path(file).name == StudyFolder(Path()).study.name


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
