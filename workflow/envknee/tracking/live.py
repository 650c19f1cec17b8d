"""Curves of running trials: each trial has a live MLflow run, which becomes the finished one.

Input: results/<study>/trials/*/ while trials write them. Output: runs in the tracking store.

The server is the source of truth. After each start and each failure, the publisher asks it for its runs and their numbers of rows, and
goes on from there. So publisher and server may be killed at any time.
"""

from collections.abc import Callable
from typing import IO

from envknee.record.read import load_record
from envknee.record.schema import Environment, Request
from envknee.study.errors import UserError
from envknee.study.files import read_model
from envknee.study.lock import locked
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.tracking.arms import describe_running_arm
from envknee.tracking.client import explaining, writer_of
from envknee.tracking.describe import curves, describe_running, read_trial
from envknee.tracking.store import Store
from envknee.tracking.tail import Tail
from envknee.tracking.writing import ITERATION, TAG_CONTENT, TAG_KEY, Writer


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
                tail = self._tails.setdefault(trial.root.name, Tail(trial.metrics))
                tail.read()
                if trial.record.exists() or tail.error or len(tail.rows) > tail.delivered:
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
            if tail.error:
                raise tail.error
            if trial.record.exists():
                self._finish(writer, trial)
                self._done.add(trial.root.name)
            else:
                self._send_rows(writer, trial, tail)
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            self.say(f"{trial.root}: {self.store.shown} does not take this trial's run: {error}")
            self._done.add(trial.root.name)
        except UserError as error:
            self.say(str(error))
            self._done.add(trial.root.name)

    def _send_rows(self, writer: Writer, trial: TrialFolder, tail: Tail) -> None:
        """Send the new rows of a trial to its live run, which replaces the run of an earlier attempt."""
        request = read_model(trial.request, Request, "Run the sweep again: it asks for the trial anew.")
        environment = read_model(trial.environment, Environment, "") if trial.environment.exists() else None
        if tail.run_id is None:
            first = tail.rows[0]
            # The trial's process writes environment.json at its start.
            started_unix_s = trial.environment.stat().st_mtime if environment else first.unix_time_s - first.wall_s
            run = describe_running(request, environment, started_unix_s, tail.attempt, request.world_size)
            live = writer.begin(run, self._arm(writer, request.arm, run.started_ms), writer.found(run.key))
            tail.run_id, tail.delivered = live.info.run_id, int(live.data.metrics.get(ITERATION, -1)) + 1
        writer.send(tail.run_id, curves(tail.rows, request, environment, tail.delivered))
        tail.delivered = len(tail.rows)

    def _arm(self, writer: Writer, arm: str, started_ms: int) -> str:
        """Return the parent run of an arm, which is made for the arm's first trial."""
        if arm not in self._arms:
            self._arms[arm] = writer.begin(describe_running_arm(arm, started_ms), None, []).info.run_id
        return self._arms[arm]

    def _finish(self, writer: Writer, trial: TrialFolder) -> None:
        """Complete the live run of a finished trial, so that the publication at the end has nothing to do."""
        record = load_record(trial)
        if record.outcome.status != "skipped":
            run = read_trial(record, self.folder)
            writer.ensure(run, self._arm(writer, record.request.arm, run.started_ms), writer.found(run.key))
