"""Reads what is added to a log, while another process writes it."""

from pathlib import Path


class Tail:
    """Follows a text file from a place on."""

    def __init__(self, path: Path, place: int) -> None:
        """Begin `place` bytes behind the start."""
        self.path = path
        self._place = place

    def lines(self) -> list[str]:
        """Return the whole lines that were added since the last call."""
        with self.path.open("rb") as log:
            log.seek(self._place)
            whole, line_break, _ = log.read().rpartition(b"\n")
        self._place += len(whole) + len(line_break)
        return whole.decode("utf-8", errors="replace").splitlines()
