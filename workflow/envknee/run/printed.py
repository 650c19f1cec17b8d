"""Reads what a foreign command prints, into the trial's log and as whole lines, as fast as the command prints it.

Input: the pipe into which the command prints. Output: blocks of whole lines with the time of their arrival, and the trial's log, which
keeps the beginning and the end of a very long output. A full pipe would slow the command down, and so change what is measured.
"""

import fcntl
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from envknee.trainers.command.bounded import MOST_LINE_BYTES, WholeLines

PIPE_BYTES = 2**20
"""What the command may print before it waits for us: the most that Linux gives an ordinary user (pipe(7))."""

MOST_LOG_BYTES = 50_000_000
LAST_LOG_BYTES = 100_000


class BoundedLog:
    """A file that gets the beginning of an output, and its last lines at the end."""

    def __init__(self, file: BinaryIO) -> None:
        """Begin with an empty output."""
        self._file = file
        self._written = 0
        self._last = b""
        self.left_out = 0
        """Bytes that the file lacks."""
        self.error: OSError | None = None
        """Why nothing more is written, as on a full disk."""

    def add(self, chunk: bytes) -> None:
        """Add what was printed."""
        room = max(0, MOST_LOG_BYTES - self._written)
        if room:
            self._write(chunk[:room])
            self._written += len(chunk[:room])
            if self._written == MOST_LOG_BYTES:
                self._write(
                    f"\n[The command printed more than {MOST_LOG_BYTES:,} bytes: its last lines follow.]\n".encode()
                )
        rest = chunk[room:]
        if rest:
            kept = self._last + rest
            self.left_out += max(0, len(kept) - LAST_LOG_BYTES)
            self._last = kept[-LAST_LOG_BYTES:]

    def close(self) -> None:
        """Write the last lines."""
        if self._last:
            self._write(f"[{self.left_out:,} bytes are left out here.]\n".encode() + self._last + b"\n")

    def _write(self, data: bytes) -> None:
        if self.error is not None:
            return
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as error:  # the command must not wait for us because a disk is full
            self.error = error


class Reader:
    """Reads a pipe in a thread of its own."""

    def __init__(self, pipe: int, log: BoundedLog, take: Callable[[str], None]) -> None:
        """Begin to read. `take` gets blocks of whole lines (see `WholeLines.take`), in that thread."""
        self.lines, self.log = WholeLines(), log
        self._pipe, self._take = pipe, take
        with suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._thread = threading.Thread(target=self._read, name="printed", daemon=True)
        self._thread.start()

    def wait(self, most_s: float) -> None:
        """Wait until everything is read, at most `most_s`: a daemon may keep the pipe open."""
        self._thread.join(most_s)

    def _read(self) -> None:
        while chunk := os.read(self._pipe, MOST_LINE_BYTES):
            self.log.add(chunk)
            block = self.lines.take(chunk)
            if block:
                self._take(block)
        last = self.lines.last()
        if last:
            self._take(last)
        self.log.close()
