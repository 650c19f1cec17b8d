"""The line on a terminal that shows what the running trial does. Printed only on a terminal.

Input: the trial's newest row. Output: one line on standard error, updated in place.
"""

import os
import sys

from envknee.record.schema import Request, Row
from envknee.run import progress
from envknee.study.paths import TrialFolder


def show(trial: TrialFolder, request: Request, elapsed_s: float) -> None:
    """Show the progress of a trial."""
    if not sys.stderr.isatty():
        return
    line = f"  ▸ {progress.parameters(request)}: {progress.live(request, _newest_row(trial), elapsed_s)}"
    width = os.get_terminal_size(sys.stderr.fileno()).columns
    print(f"\r\033[K{line[: width - 1]}", end="", file=sys.stderr, flush=True)


def clear() -> None:
    """Remove the line."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr, flush=True)


def _newest_row(trial: TrialFolder) -> Row | None:
    """Return the newest whole row of a running trial, or None."""
    if not trial.metrics.exists():
        return None
    *_, newest, _unfinished = ["", *trial.metrics.read_text(encoding="utf-8").split("\n")]
    return Row.model_validate_json(newest) if newest else None
