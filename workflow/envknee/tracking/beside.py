"""The live publisher beside a sweep: started with it, ended with it, and never waited for while trials run.

Input: the study and its folder. Output: a process (`envknee.tracking --follow`), with its words in logs/live.log.
"""

import os
import subprocess
import sys
from collections.abc import Callable

from envknee.config import Study
from envknee.files import StudyFolder

LAST_ROWS_S = 15.0
"""How long the end of a sweep may wait for the last rows. A publisher that takes longer ends by itself."""


class LiveProcess:
    """A live publisher, where a study or its user names a store; else nothing. It cannot outlive the process that starts it."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, study: Study, folder: StudyFolder) -> None:
        """Start it; one of an earlier sweep that still delivers is waited for by the new one, and not here."""
        if not (study.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")):
            return
        options = ["--config", str(folder.study), "--follow", "--parent", str(os.getpid())]
        log = folder.root / "logs" / "live.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as stream:
            # In a session of its own: Ctrl-C at a terminal ends the trials, and their last rows are delivered after that.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "envknee.tracking", str(folder.root), *options],
                stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def stop(self, warn: Callable[[str], None]) -> None:
        """Let it deliver the last rows and end; `warn` prints a line where the store is away."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=LAST_ROWS_S)
        except subprocess.TimeoutExpired:
            warn("envknee: the tracking store does not answer; trials that did not end may lack their last rows there")
