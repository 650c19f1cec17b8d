"""Legal values that are file names in a folder: a new file is a new value."""

from pathlib import Path
from typing import Any

from pydantic_core import CoreSchema, core_schema

PACKAGE = Path(__file__).parents[1]


def names_in(folder: str) -> tuple[str, ...]:
    """Return the modules and packages of a folder of this package, sorted, without importing any.

    Names that begin with `_` are left out, and so is `common`, which the other modules share. `folder` is below `envknee`, such as
    "ask/samplers/points".
    """
    files = [*(PACKAGE / folder).glob("*.py"), *(path.parent for path in (PACKAGE / folder).glob("*/__init__.py"))]
    return tuple(sorted({path.stem for path in files if path.stem != "common" and not path.stem.startswith("_")}))


class NameIn:
    """A `Literal` of the names in some folders: `trainer: Annotated[str, NameIn("trainers")]`."""

    def __init__(self, *folders: str) -> None:
        self.names = sorted(name for folder in folders for name in names_in(folder))

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        return core_schema.literal_schema(self.names)
