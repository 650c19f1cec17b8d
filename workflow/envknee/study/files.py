"""Files are written whole or not at all. The same content gives the same bytes."""

import errno
import hashlib
import io
import json
import os
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from envknee.study.errors import UserError

Model = TypeVar("Model", bound=BaseModel)


def canonical_json(value: Any) -> str:
    """Return `value` (a pydantic model or plain data) as JSON text with sorted keys.

    Raises:
        ValueError: when a number is NaN or infinite; a missing measurement must be None.
    """
    plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
    return json.dumps(plain, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def sha256_of(content: Path | str) -> str:
    """Return the sha256 of a file's bytes, or of a text, in hexadecimal."""
    if isinstance(content, str):
        return hashlib.sha256(content.encode()).hexdigest()
    with open_regular(content) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


READABLE, SECRET = 0o666, 0o600
"""Modes of new files: for everyone whom the umask admits, and for the owner alone."""


def write_atomically(path: Path, content: str | bytes, mode: int = READABLE) -> None:
    """Write `content` to `path`. A reader, a crash or a power cut meets the old file or the new one, never a part.

    The umask applies to `mode`.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        sync(path.parent)  # or a power cut may take the new name back
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that sync no folder
            raise
    finally:
        os.close(descriptor)


LARGEST_BYTES = 1_000_000_000
"""Largest file that is read whole."""


def open_regular(path: Path) -> io.BufferedReader:
    """Open a file for reading. A link may lead to it, but not to a device or a pipe, which may have no end.

    Raises:
        UserError: when it is no regular file.
        OSError: as `open`.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # the opening of a pipe would wait
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise UserError(f"{path} leads to {path.resolve()}, which is no regular file, and one was expected. Remove it")
    return os.fdopen(descriptor, "rb")


def read_text(path: Path) -> str:
    """Return the text of a regular file.

    Raises:
        UserError: when it is no regular file, or has more than `LARGEST_BYTES`.
        OSError: as `open`.
        UnicodeDecodeError: when it is not UTF-8.
    """
    with open_regular(path) as stream:
        size_bytes = os.fstat(stream.fileno()).st_size
        if size_bytes > LARGEST_BYTES:
            raise UserError(f"{path} has {size_bytes:,} bytes, and at most {LARGEST_BYTES:,} are read. Remove it")
        return stream.read().decode("utf-8")


def read_model(path: Path, model: type[Model], remedy: str) -> Model:
    """Read the JSON file `path` into the frozen `model`.

    Raises:
        UserError: when the file is missing, truncated or does not fit. It ends with `remedy`: what to do.
    """
    try:
        return model.model_validate_json(read_text(path))
    except FileNotFoundError as error:
        raise UserError(f"{path} does not exist, and a {model.__name__} was expected there. {remedy}") from error
    except (ValidationError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not a whole, valid {model.__name__}: {error}\n{remedy}") from error


def read_lines(path: Path, model: type[Model], remedy: str) -> list[Model]:
    """Read a file with the JSON of a frozen `model` in each line.

    Raises:
        UserError: when a line is truncated or does not fit. It ends with `remedy`: what to do.
    """
    models = []
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        try:
            models.append(model.model_validate_json(line))
        except ValidationError as error:
            raise UserError(
                f"{path}, line {number}, is not a whole, valid {model.__name__}: {error}\n{remedy}"
            ) from error
    return models


def check_writable(places: Iterable[Path]) -> None:
    """Raise a UserError for the first of these folders in which this user cannot make files."""
    for place in places:
        if not os.access(place, os.W_OK | os.X_OK):
            raise UserError(
                f"{place} cannot be written to: it is on a read-only file system, or belongs to another user ({_owner(place)})."
                " Make it writable, or run the study in another folder. What is measured there is untouched."
            )


def make_folder(path: Path) -> None:
    """Make a folder, with those above it. Raises a UserError where this user may not."""
    if not path.exists():
        check_writable([next(above for above in path.absolute().parents if above.exists())])
        path.mkdir(parents=True, exist_ok=True)


def _owner(path: Path) -> str:
    """Return the name of a path's owner; its number if nobody has that here."""
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)


def check_page_place(path: Path) -> None:
    """Check, before anything is computed, that a page can be written.

    Raises:
        UserError: when `path` is a folder, or lies in a folder that does not exist.
    """
    if path.is_dir():
        raise UserError(f"--html {path} is a folder. Name a file in it: --html {path / 'found.html'}")
    check_folder_is_there("--html", path)


def check_folder_is_there(option: str, path: Path) -> None:
    """Check that the folder of a file exists that an option names.

    Raises:
        UserError: when it does not.
    """
    if not path.parent.is_dir():
        raise UserError(
            f"{option} {path}: the folder {path.parent} does not exist. Make it (mkdir -p), or name another file"
        )
