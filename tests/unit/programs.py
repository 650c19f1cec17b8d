"""Programs that a test puts on PATH."""

from pathlib import Path


def a_program(folder: Path, name: str, body: str) -> None:
    """Write a shell script with the text `body`."""
    (folder / name).write_text(f"#!/bin/sh\n{body}\n")
    (folder / name).chmod(0o755)
