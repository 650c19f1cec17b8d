"""Secrets in files that only their owner can read: generated once, kept, never printed.

Input: a folder or a file. Output: the secret. A file that others can read is refused, not mended: it was read already, perhaps.
"""

import os
import re
import secrets
import stat
from pathlib import Path

from envknee.errors import UserError


def kept_secret(folder: Path, name: str) -> str:
    """Return the secret in `folder`/`name`, made up at the first call.

    Raises:
        UserError: when others can read it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_private(folder)
    path = folder / name
    if not path.exists():
        # Written whole before it has its name: a server that is killed here leaves no empty password behind.
        unfinished = folder / f".{name}.{os.getpid()}"
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(secrets.token_urlsafe(24) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        try:
            path.hardlink_to(unfinished)  # unless another server was faster
        except FileExistsError:
            pass
        finally:
            unfinished.unlink()
    check_private(path)
    secret = path.read_text(encoding="ascii").strip()
    if len(secret) < 16:
        raise UserError(f"{path} holds no password of at least 16 characters. Delete it: a new one is made up.")
    return secret


def check_private(path: Path) -> None:
    """Make sure that only the owner can read a file or folder.

    Raises:
        UserError: when it does not exist or others can.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist, and a file with secrets was expected there.") from error
    if mode & 0o077:
        wanted = "700" if path.is_dir() else "600"
        raise UserError(
            f"{path} can be read by others (mode {mode:03o}). Change what is in it, if anyone may have read it,"
            f" then run `chmod {wanted} {path}`."
        )


def read_environment(path: Path) -> dict[str, str]:
    """Return the variables of a file of NAME=VALUE lines; empty lines and comments are left out.

    Raises:
        UserError: names the line that is none, without its content.
    """
    check_private(path)
    variables = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        name, equals, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name.strip()):
            raise UserError(
                f"{path}, line {number}, is no NAME=VALUE. (Its text is not repeated here: it may be a secret.)"
            )
        variables[name.strip()] = value.strip()
    return variables
