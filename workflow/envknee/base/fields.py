"""Types and fields that the models of every stage share."""

from typing import Any, Literal

from pydantic import Field

Kind = Literal["throughput", "learning"]
KINDS: tuple[Kind, ...] = ("throughput", "learning")


def newer(default: Any, **field: Any) -> Any:
    """Return the `Field` of a key that is newer than the first results.

    It is left out of files where it has its default, so that those of earlier versions stay the same, byte for byte.
    """
    return Field(default=default, exclude_if=lambda value: value == default, **field)
