"""Programs that a test puts on PATH, those that it runs, and what they say of a mistake."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest
from envknee.study.errors import UserError

Result = TypeVar("Result")


def a_program(folder: Path, name: str, body: str) -> None:
    """Write a shell script with the text `body`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)


def run_main(main: Callable[[], Result], *words: object) -> Result:
    """Call a command's `main` as if these words were typed behind its name."""
    with mock.patch.object(sys, "argv", ["envknee", *map(str, words)]):
        return main()


def told(call: Callable[[], object], *words: str) -> str:
    """Return what the `UserError` says that `call` has to raise; all these words must be in it."""
    with pytest.raises(UserError) as error:
        call()
    said = str(error.value)
    assert [word for word in words if word not in said] == [], said
    return said


def ran(command: Sequence[object], **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program, whatever its exit status; by default stdout and stderr are apart."""
    apart: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([*map(str, command)], text=True, check=False, **apart | options)


def python(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run Python with these words, whatever its exit status."""
    return ran([sys.executable, *words], **options)


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a program printed; a test fails with it where the program did."""
    assert done.returncode == 0, f"{done.stdout}{done.stderr or ''}"
    return done.stdout


def refused(done: subprocess.CompletedProcess[str], *words: str, status: int | None = None) -> str:
    """Return what a program printed that had to fail, with these words and no traceback; by default with any status but 0."""
    printed = f"{done.stdout}{done.stderr or ''}"
    assert done.returncode == status if status else done.returncode != 0, printed
    assert "Traceback" not in printed, printed
    for word in words:
        assert word in printed, printed
    return printed
