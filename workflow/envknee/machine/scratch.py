"""The folder for a trial's temporary files, on the node's own disk."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

from envknee.study.errors import UserError

VARIABLE = "ENVKNEE_SCRATCH"
"""Environment variable with the site's `scratch:`."""

ROOM_BYTES = 100_000_000
"""Trials write little there: lock files, meeting points of ranks, compilers' temporary files."""


def use_named_folder() -> None:
    """Use the folder in ENVKNEE_SCRATCH for temporary files of this process and its children. It is made if missing.

    Raises:
        UserError: when a variable in it is not set, or the folder is full or cannot be written to.
    """
    named = os.environ.get(VARIABLE)
    if not named:
        return
    expanded = os.path.expandvars(named)
    if "$" in expanded:
        raise UserError(
            f"scratch {named!r}: a variable in it is not set on this node ({expanded}). Name a folder, or a variable that"
            " SLURM sets in jobs here"
        )
    folder = Path(expanded).expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        if (free := shutil.disk_usage(folder).free) < ROOM_BYTES:
            raise OSError(
                errno.ENOSPC, f"{free / 1e6:.0f} MB are free, and at least {ROOM_BYTES / 1e6:.0f} were expected"
            )
    except OSError as error:
        raise UserError(
            f"scratch {folder} on this node: {error.strerror}. Make room there, or name another folder to write to in `scratch:` of"
            " the site"
        ) from error
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = str(folder)
