"""Runs a program on a terminal of its own, as a person does."""

import os
import pty
import re
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

ROWS, COLUMNS = 24, 80

CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
"""A sequence that moves the cursor, clears, or changes colours."""


class OnTerminal(NamedTuple):
    """What a program did on a terminal."""

    status: int
    printed: str
    """All that it printed, with every picture of a live view, without control sequences."""


def on_terminal(
    command: Sequence[object],
    folder: Path,
    environment: Mapping[str, str],
    react: Callable[[str, int], object] = lambda *_: None,
) -> OnTerminal:
    """Run a program to its end. `react` gets what it has printed so far, and the number of its process group."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (ROWS, COLUMNS))
    process = subprocess.Popen(
        [*map(str, command)], cwd=folder, stdin=its, stdout=its, stderr=its, start_new_session=True,
        env={name: value for name, value in environment.items() if name not in ("CI", "NO_COLOR")} | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(its)
    printed = b""
    with (
        closing(os.fdopen(ours, "rb", buffering=0)) as terminal,
        suppress(OSError),
    ):  # EIO when nobody has the other side
        while part := terminal.read(65536):
            printed += part
            react(_plain(printed), process.pid)
    return OnTerminal(process.wait(), _plain(printed))


def _plain(printed: bytes) -> str:
    return CONTROL.sub("", printed.decode("utf-8", errors="replace")).replace("\r\n", "\n")
