"""Curves of running trials: each trial has a live MLflow run, which becomes the finished one.

The server is the source of truth. After each start and each failure, the publisher asks it for its runs and their numbers of rows, and
goes on from there. So publisher and server may be killed at any time.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from envknee.machine.lock import locked
from envknee.record.read import load_record
from envknee.record.schema import Row
from envknee.record.trial_files import TrialFiles
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.tracking.arms import color_of
from envknee.tracking.client import explaining, writer_of
from envknee.tracking.describe import attempt_of, curves, describe_running, describe_trial
from envknee.tracking.run import Run
from envknee.tracking.store import Store
from envknee.tracking.writing import ITERATION, TAG_CONTENT, TAG_KEY, Writer


class Tail:
    """The current attempt at a trial, by its metrics.jsonl, which may grow, be renamed (an interrupted attempt) or start anew."""

    attempt: str | None = None
    lines: Sequence[bytes] = ()
    """Its whole lines."""
    rows: Sequence[Row] = ()
    """The lines that were parsed."""
    run_id: str | None = None
    """Its live run; None if the store was not asked for it yet."""
    delivered: int = 0
    """Number of rows that the store has, once it was asked."""

    def read(self, path: Path) -> None:
        """Read the lines that are there now."""
        text = b""
        with suppress(FileNotFoundError):
            text = path.read_bytes()
        if (attempt := attempt_of(text)) != self.attempt:
            self.attempt, self.rows, self.run_id, self.delivered = attempt, (), None, 0
        *self.lines, _ = text.split(b"\n")  # the last line may be half written


class LivePublisher:
    """Updates live runs at each `look`."""

    def __init__(self, store: Store, study: Study, folder: StudyFolder, say: Callable[[str], None]) -> None:
        self.store = store
        self.study = study
        self.folder = folder
        self.say = say
        self._writer: Writer | None = None
        self._tails: dict[str, Tail] = {}
        self._done: set[str] = set()
        self._arms: dict[str, str] = {}

    def look(self) -> None:
        """Deliver the rows since the last look.

        Raises:
            UserError: when the store cannot be used now. The next look asks it which rows it has.
        """
        news = self._news()
        if not news and self._writer is not None:
            return
        try:
            with locked(self.folder.root / ".mlflow") as identity, explaining(self.store, self.folder):
                writer = self._writer = self._writer or self._connected(identity)
                for trial, tail in news:
                    self._update(writer, trial, tail)
        except UserError:
            self._writer = None
            raise

    def stop(self) -> None:
        """Mark the runs of unfinished trials as KILLED; a trial that runs again gets a new run.

        Raises:
            UserError: when the store cannot be used now.
        """
        if self._writer is not None:
            with explaining(self.store, self.folder):
                for run in self._writer.found():
                    if run.info.status == "RUNNING" and run.data.tags[TAG_KEY].startswith("trials/"):
                        self._writer.client.set_terminated(run.info.run_id, "KILLED")

    def _news(self) -> list[tuple[TrialFolder, Tail]]:
        """Return the trials with new rows or a record, oldest first."""
        news = []
        for path in self.folder.trial_files("request.json"):
            trial = TrialFolder(path.parent)
            if trial.root.name not in self._done:
                tail = self._tails.setdefault(trial.root.name, Tail())
                tail.read(trial.metrics)
                if trial.record.exists() or len(tail.lines) > tail.delivered:
                    news.append((trial, tail))
        return news

    def _connected(self, identity: IO[str]) -> Writer:
        """Return a new writer, and ask the store which arms and finished trials it has. Live runs are asked for one by one."""
        writer = writer_of(self.store, self.study, identity)
        for tail in self._tails.values():
            tail.run_id = None
        self._arms.clear()
        for run in writer.found():
            kind, _, name = run.data.tags[TAG_KEY].partition("/")
            if kind == "arms":
                self._arms[name] = run.info.run_id
            elif TAG_CONTENT in run.data.tags and self.folder.trial(int(name)).record.exists():
                self._done.add(name)
        return writer

    def _update(self, writer: Writer, trial: TrialFolder, tail: Tail) -> None:
        """Deliver what is new of a trial. One that cannot be read or taken is left to the publication at the end, which reports why."""
        from mlflow.exceptions import MlflowException

        try:
            if not trial.record.exists():
                self._send_rows(writer, trial, tail)
                return
            record = load_record(trial)
            if record.outcome.status != "skipped":  # so that the publication at the end has nothing to do
                run = describe_trial(record, self.folder, color_of(self.study, record.request.arm))
                writer.ensure(run, self._arm(writer, record.request.arm, run.started_ms), writer.found(run.key))
        except (MlflowException, UserError, ValidationError) as error:
            if isinstance(error, MlflowException) and error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            self.say(f"{trial.root} has no more live curves: {error}")
        self._done.add(trial.root.name)

    def _send_rows(self, writer: Writer, trial: TrialFolder, tail: Tail) -> None:
        """Send the new rows of a trial to its live run, which replaces the run of an earlier attempt."""
        if not tail.lines:  # as where a skipped trial's record was removed meanwhile
            return
        request = TrialFiles(trial).read_request()
        environment = TrialFiles(trial).read_environment()
        tail.rows = [*tail.rows, *map(Row.model_validate_json, tail.lines[len(tail.rows) :])]
        if tail.run_id is None:
            first = tail.rows[0]
            # The trial's process writes environment.json at its start.
            started_unix_s = trial.environment.stat().st_mtime if environment else first.unix_time_s - first.wall_s
            color = color_of(self.study, request.arm)
            run = describe_running(request, environment, started_unix_s, tail.attempt, color)
            live = writer.begin(run, self._arm(writer, request.arm, run.started_ms), writer.found(run.key))
            tail.run_id, tail.delivered = live.info.run_id, int(live.data.metrics.get(ITERATION, -1)) + 1
        writer.send(tail.run_id, curves(tail.rows, request, environment, tail.delivered))
        tail.delivered = len(tail.rows)

    def _arm(self, writer: Writer, arm: str, started_ms: int) -> str:
        """Return the parent run of an arm, which is made for the arm's first trial."""
        if arm not in self._arms:
            run = Run(f"arms/{arm}", arm, started_ms, "RUNNING", params={}, tags={"arm": arm})
            self._arms[arm] = writer.begin(run, None, []).info.run_id
        return self._arms[arm]
