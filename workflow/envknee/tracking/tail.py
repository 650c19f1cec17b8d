"""Reads the rows of a running trial: whole lines of metrics.jsonl, attempt by attempt.

Input: metrics.jsonl, which may grow, be renamed (an interrupted attempt) or start anew. Output: rows.
"""

from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from envknee.record.schema import Row
from envknee.study.errors import UserError
from envknee.tracking.describe import attempt_of


class Tail:
    """All rows of the current attempt. Its file may not exist yet. Reading again parses only new lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempt: str | None = None
        self.rows: list[Row] = []
        self.run_id: str | None = None
        """The attempt's live run; None if the store was not asked for it yet."""
        self.delivered = 0
        """Number of rows that the store has, once it was asked."""
        self.error: UserError | None = None
        """Why rows cannot be read, for example those of a newer version."""

    def read(self) -> None:
        """Read the new lines, up to a whole line that is no row."""
        text = b""
        with suppress(FileNotFoundError):
            text = self.path.read_bytes()
        if (attempt := attempt_of(text)) != self.attempt:
            self.attempt, self.rows, self.run_id, self.delivered = attempt, [], None, 0
        *whole, _ = text.split(b"\n")  # the last line may be half written
        for line in whole[len(self.rows) :]:
            try:
                self.rows.append(Row.model_validate_json(line))
            except ValidationError as error:
                self.error = UserError(
                    f"{self.path}, line {len(self.rows) + 1}, is no row that this version of envknee knows"
                    f" ({error.errors()[0]['msg']}): its trial has no live curves."
                )
                break
