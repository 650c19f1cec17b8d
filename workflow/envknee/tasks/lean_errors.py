"""Errors of leanframes become a study's: they name the option that asked for lean frames, and its alternative."""

from collections.abc import Iterator
from contextlib import contextmanager

from leanframes.errors import LeanError

from envknee.study.errors import UserError


@contextmanager
def asked_by(option: str, instead: str) -> Iterator[None]:
    """Raise an error of leanframes as a user's, which names the `option` of the study and what to use `instead`.

    Raises:
        UserError: in place of a `LeanError`.
    """
    try:
        yield
    except LeanError as error:
        raise UserError(f"{option}: {error}. Or use {instead}") from error
