"""The user's folder of caches, in which Snakemake and Warp keep files between two runs."""

import os
from pathlib import Path

from envknee.study.errors import UserError

VARIABLE = "XDG_CACHE_HOME"
"""Moves the folder: Snakemake's and Warp's (appdirs), and Mesa's."""


def folder() -> Path:
    """Return the folder of caches: of XDG_CACHE_HOME, else of HOME."""
    return Path(os.environ.get(VARIABLE) or "~/.cache").expanduser()


def check_writable() -> None:
    """Make the folder where it is missing.

    Raises:
        UserError: when it cannot be written to: Snakemake would end with a traceback.
    """
    try:
        own = folder() / "snakemake"
        own.mkdir(parents=True, exist_ok=True)
        if not os.access(own, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    except (OSError, RuntimeError) as error:  # RuntimeError: no HOME, and no entry in the list of users
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UserError(
            f"the cache folder {os.environ.get(VARIABLE) or '~/.cache'} (HOME={os.environ.get('HOME', '')}) cannot be written to:"
            f" {why}. Snakemake and Warp keep files there. Name a folder of yours, on this machine and in jobs:"
            f" export {VARIABLE}=/path/to/folder"
        ) from error
