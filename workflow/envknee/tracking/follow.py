"""The live publisher: a process beside the sweep, which delays no trial.

Input: the study and its folder. Output: live runs, and a line in logs/live.log when the store stops or starts to answer.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

from envknee.machine.lock import locked
from envknee.machine.processes import dying_with_parent
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking.store import locate_store

POLL_S = 2.0
"""A row is delivered within this and the time of a few requests; the documentation promises 10 s."""

NICENESS = 10
"""Trials have priority."""

REQUEST_DEFAULTS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"}
"""MLflow's client must not retry, which could make a run twice: the next look asks the server first."""

LAST_ROWS_S = 15.0
"""How long the end of a sweep waits for the last rows. A slower publisher goes on by itself."""


def start(study: Study, folder: StudyFolder) -> "subprocess.Popen[bytes] | None":
    """Start a live publisher, if the study or its user names a store. It ends with this process.

    It waits for the publisher of an earlier sweep, but this function does not.
    """
    if not (study.tracking.uri or os.environ.get("MLFLOW_TRACKING_URI")):
        return None
    program = [*dying_with_parent("TERM"), sys.executable, "-m", "envknee.tracking", str(folder.root)]
    log = folder.root / "logs" / "live.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("ab") as stream:
        # In its own session, because Ctrl-C at a terminal ends the trials, whose last rows are delivered after that.
        return subprocess.Popen(
            [*program, "--config", str(folder.study), "--follow"],
            stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def stop(publisher: "subprocess.Popen[bytes]", warn: Callable[[str], None]) -> None:
    """Let a publisher deliver the last rows and end. If the store does not answer, print a line with `warn`."""
    publisher.terminate()
    try:
        publisher.wait(timeout=LAST_ROWS_S)
    except subprocess.TimeoutExpired:
        warn("envknee: the tracking store does not answer; trials that did not end may lack their last rows there")


def follow(study: Study, folder: StudyFolder) -> None:
    """Publish curves until SIGTERM or SIGINT.

    A second publisher of the same study waits for the end of the first one.

    Raises:
        UserError: when the study's URI names no store.
    """
    from envknee.tracking.live import LivePublisher  # takes a second to import

    store = locate_store(study, folder)
    for name, value in REQUEST_DEFAULTS.items():
        os.environ.setdefault(name, value)
    os.nice(NICENESS)
    with locked(folder.root / ".mlflow-live"):
        stopped = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stopped.set())
        _say(f"live curves of {folder.root} go to {store.shown}")
        publisher = LivePublisher(store, study, folder, _say)
        fails = _try(publisher.look, False)
        while not stopped.wait(POLL_S):
            fails = _try(publisher.look, fails)
        fails = _try(publisher.look, fails)  # the last rows
        _try(publisher.stop, fails)


def _try(act: Callable[[], None], failed_before: bool) -> bool:
    """Call `act`, and return whether the store failed. Print a line when it first fails, and when it works again."""
    try:
        act()
    except (UserError, OSError) as error:
        if not failed_before:
            _say(f"curves wait, trials go on. {error}")
        return True
    if failed_before:
        _say("the store is back, and has all rows")
    return False


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
