"""Legal values that are names of modules: a new file is a new value.

The folder that has the files lists them (`envknee.trainers.names`), and a key of a study takes that list.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic_core import CoreSchema, core_schema


def modules_in(folder: Path) -> tuple[str, ...]:
    """Return the modules and packages of a folder, sorted, without importing any. Names that begin with `_` are left out."""
    files = [*folder.glob("*.py"), *(path.parent for path in folder.glob("*/__init__.py"))]
    return tuple(sorted({path.stem for path in files if not path.stem.startswith("_")}))


class OneOf:
    """A `Literal` of names that are known at run time: `trainer: Annotated[str, OneOf(trainers.names())]`."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = sorted(names)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema(self.names)
