"""What a study may choose among, read from a folder's file names: whoever adds a file adds a choice."""

from pathlib import Path
from typing import Any

from pydantic_core import CoreSchema, core_schema

PACKAGE = Path(__file__).parents[1]


def names_in(folder: str) -> tuple[str, ...]:
    """Return the modules and packages of a folder of this package, sorted, without importing any.

    Names that begin with `_` are no choices, and neither is `common`, which holds what the others share.

    Args:
        folder: below `envknee`, such as "ask/samplers"

    Raises:
        ValueError: when there is no such folder, or it holds no module.
    """
    files = [*(PACKAGE / folder).glob("*.py"), *(path.parent for path in (PACKAGE / folder).glob("*/__init__.py"))]
    names = sorted({path.stem for path in files if path.stem != "common" and not path.stem.startswith("_")})
    if not names:
        raise ValueError(f"{PACKAGE / folder} holds no module to choose")
    return tuple(names)


class NameIn:
    """The type of a field that takes one of these names: `trainer: Annotated[str, NameIn("trainers")]`.

    Pydantic and the JSON schema treat it as a `Literal` of them.
    """

    def __init__(self, *folders: str) -> None:
        """Take the names of one folder, or of several."""
        self.names = sorted(name for folder in folders for name in names_in(folder))

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> CoreSchema:
        """Return the schema of a literal."""
        return core_schema.literal_schema(self.names)
