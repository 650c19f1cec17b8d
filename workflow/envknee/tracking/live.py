"""Curves of running trials: each trial has a live MLflow run, which becomes the finished one.

Input: results/<study>/trials/*/ while trials write them. Output: runs in the tracking store.

The server is the source of truth. After each start and each failure, the publisher asks it for its runs and their numbers of rows, and
goes on from there. So publisher and server may be killed at any time.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
from envknee.tracking.writing import ITERATION, TAG_CONTENT, TAG_KEY, TAG_LIVE, Writer


@dataclass
class Followed:
    """A live run, with the number of rows that the server has."""

    run_id: str
    attempt: str
    rows: int
    status: str


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
        self._followed: dict[str, Followed] = {}
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
                if self._writer is None:
                    self._writer = writer_of(self.store, self.study, identity)
                    self._learn(self._writer)
                for trial in news:
                    self._deliver(self._writer, trial)
        except UserError:
            self._writer = None
            raise

    def stop(self) -> None:
        """Mark the runs of unfinished trials as KILLED; a trial that runs again gets a new run.

        Raises:
            UserError: when the store cannot be used now.
        """
        left = [trial for trial in self._followed.values() if trial.status == "RUNNING"]
        if left and self._writer is not None:
            with explaining(self.store, self.folder):
                for trial in left:
                    self._writer.client.set_terminated(trial.run_id, "KILLED")

    def _news(self) -> list[TrialFolder]:
        """Return the trials with new rows or a record, oldest first."""
        news = []
        for path in self.folder.trial_files("request.json"):
            trial = TrialFolder(path.parent)
            name = trial.root.name
            if name in self._done:
                continue
            tail = self._tails.setdefault(name, Tail(trial.metrics))
            try:
                tail.read()
            except UserError as error:
                self._give_up(name, error)
                continue
            followed = self._followed.get(name)
            delivered = followed.rows if followed and followed.attempt == tail.attempt else 0
            if trial.record.exists() or len(tail.rows) > delivered:
                news.append(trial)
        return news

    def _learn(self, writer: Writer) -> None:
        """Ask the store for this study's runs, and how far each is."""
        self._followed.clear()
        self._arms.clear()
        for run in writer.found():
            kind, _, name = run.data.tags.get(TAG_KEY, "").partition("/")
            if kind == "arms":
                self._arms[name] = run.info.run_id
            elif TAG_CONTENT in run.data.tags:
                if (self.folder.trials / name / "record.json").exists():
                    self._done.add(name)
            elif TAG_LIVE in run.data.tags and name in self._followed:  # of a killed publisher; the older one stays
                writer.client.delete_run(run.info.run_id)
            elif TAG_LIVE in run.data.tags:
                rows = int(run.data.metrics.get(ITERATION, -1)) + 1
                self._followed[name] = Followed(run.info.run_id, run.data.tags[TAG_LIVE], rows, run.info.status)

    def _deliver(self, writer: Writer, trial: TrialFolder) -> None:
        from mlflow.exceptions import MlflowException

        name = trial.root.name
        try:
            if trial.record.exists():
                self._finish(writer, trial)
            else:
                self._send_rows(writer, trial, self._tails[name])
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            self._give_up(name, UserError(f"{trial.root}: {self.store.shown} does not take this trial's run: {error}"))
        except UserError as error:
            self._give_up(name, error)

    def _send_rows(self, writer: Writer, trial: TrialFolder, tail: Tail) -> None:
        """Send the new rows of a trial to its live run, which replaces the run of an earlier attempt."""
        name = trial.root.name
        request = read_model(trial.request, Request, "Run the sweep again: it asks for the trial anew.")
        followed = self._followed.get(name)
        assert tail.attempt is not None, "there is a row"
        if followed and followed.attempt != tail.attempt:
            del self._followed[name]
            writer.client.delete_run(followed.run_id)
            followed = None
        environment = read_model(trial.environment, Environment, "") if trial.environment.exists() else None
        first = tail.rows[0]
        # The trial's process writes environment.json at its start.
        started_unix_s = trial.environment.stat().st_mtime if environment else first.unix_time_s - first.wall_s
        run = describe_running(request, environment, started_unix_s, tail.attempt)
        if followed is None:
            run_id = writer.create(run, self._arm(writer, request.arm, run.started_ms), live=True)
            followed = self._followed[name] = Followed(run_id, tail.attempt, 0, "RUNNING")
        if followed.status != "RUNNING":
            writer.client.update_run(followed.run_id, status="RUNNING")
            followed.status = "RUNNING"
        if followed.rows == 0:
            writer.log(followed.run_id, [], run.params, run.tags)
        writer.log_rows(followed.run_id, curves(tail.rows, request, environment, followed.rows))
        followed.rows = len(tail.rows)

    def _arm(self, writer: Writer, arm: str, started_ms: int) -> str:
        """Return the parent run of an arm, which is made for the arm's first trial."""
        if arm not in self._arms:
            run = describe_running_arm(arm, started_ms)
            self._arms[arm] = writer.create(run, None, live=True)
            writer.log(self._arms[arm], [], run.params, run.tags)
        return self._arms[arm]

    def _finish(self, writer: Writer, trial: TrialFolder) -> None:
        """Complete the live run of a finished trial, so that the publication at the end has nothing to do."""
        name = trial.root.name
        record = load_record(trial)
        if record.outcome.status != "skipped":
            run = read_trial(record, self.folder)
            followed = self._followed.get(name)
            known = [writer.client.get_run(followed.run_id)] if followed else []
            run_id, _ = writer.ensure(run, self._arm(writer, record.request.arm, run.started_ms), known)
            if followed and followed.run_id != run_id:  # the live run did not match the files
                writer.client.delete_run(followed.run_id)
        self._done.add(name)
        self._followed.pop(name, None)

    def _give_up(self, name: str, error: UserError) -> None:
        """Leave a trial to the publication at the end, which reports its error."""
        self.say(str(error))
        self._done.add(name)
        self._followed.pop(name, None)
