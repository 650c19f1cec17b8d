"""Presets of foreign commands: one YAML file each, which a user can copy and change.

Input: a name, or a path that ends in .yaml. Output: values for an arm's `command:`. A preset is read when a study is parsed;
requests and results hold its values.
"""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from envknee.study import secret_values
from envknee.study.errors import UserError, nearest
from envknee.study.plain import read_plain
from envknee.trainers.command.presets import FOLDER, names


class Preset(NamedTuple):
    """The content of a preset's file."""

    about: str
    """One line: the program and its version."""
    install: str
    """How to install the program, for people."""
    tested: str
    """How the flags were tested."""
    example: list[str]
    """The arguments that a user types after `--`."""
    horizon: int
    """The program's own default, or near it."""
    command: dict[str, Any]
    """Keys of a `command:` section."""


def is_file(name: str) -> bool:
    """Tell whether a preset's name is the path of a copy."""
    return name.endswith((".yaml", ".yml"))


def path_of(name: str) -> Path:
    """Return the file of a preset."""
    return Path(name) if is_file(name) else FOLDER / f"{name}.yaml"


@cache
def read(name: str) -> Preset:
    """Return a preset by its name, or by the path of a copy.

    Raises:
        ValueError: names the nearest preset, or what is wrong with the file. Pydantic reports it with the study's other errors.
    """
    path = path_of(name)
    if not is_file(name) and name not in names():
        raise ValueError(
            f"{name!r} is no preset{nearest(name, names())}. Presets: {', '.join(names())}; or a path that ends in .yaml"
        )
    try:
        data = read_plain(path, "a preset", "`envknee presets mjlab > mine.yaml`")
        secret_values.refuse(data, str(path))
        fields = {field: data.pop(field) for field in Preset._fields if field != "command"}
        return Preset(**fields, command=data)
    except UserError as error:
        raise ValueError(f"the preset {error}") from error
    except (OSError, AttributeError, KeyError, TypeError) as error:
        expected = f"{', '.join(Preset._fields[:-1])} and keys of `command:`"
        raise ValueError(f"the preset {path} cannot be read: {error!r}. Expected {expected}") from error
