"""Reads the rows of a running trial: whole lines of metrics.jsonl, attempt by attempt.

Input: metrics.jsonl, which may grow, be renamed (an interrupted attempt) or start anew. Output: rows.
"""

import os
from pathlib import Path

from pydantic import ValidationError

from envknee.record.schema import Row
from envknee.study.errors import UserError
from envknee.tracking.describe import attempt_of


class Tail:
    """All rows of the current attempt. Its file may not exist yet. Reading again reads only new lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempt: str | None = None
        self.rows: list[Row] = []
        self._position = 0
        self._file: tuple[int, int] | None = None

    def read(self) -> None:
        """Read the new lines.

        Raises:
            UserError: when a whole line is no row, for example one of a newer version.
        """
        try:
            stream = self.path.open("rb")
        except FileNotFoundError:
            return
        with stream:
            status = os.fstat(stream.fileno())
            identity, size = (status.st_dev, status.st_ino), status.st_size
            if identity != self._file or size < self._position:
                self._file, self._position, self.attempt, self.rows = identity, 0, None, []
            stream.seek(self._position)
            whole = stream.read(size - self._position)
        whole = whole[: whole.rfind(b"\n") + 1]  # the last line may be half written
        if self.attempt is None:
            self.attempt = attempt_of(whole)
        for line in whole.splitlines():
            try:
                self.rows.append(Row.model_validate_json(line))
            except ValidationError as error:
                raise UserError(
                    f"{self.path}, line {len(self.rows) + 1}, is no row that this version of envknee knows"
                    f" ({error.errors()[0]['msg']}): its trial has no live curves."
                ) from error
        self._position += len(whole)
