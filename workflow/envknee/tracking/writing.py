"""Writes the runs of one results folder into a tracking store.

Input: a client, an experiment, Runs. Output: MLflow runs, each with the sha256 of its content, which is set last.

A run with the right content is kept. An unfinished run of the same attempt (a live one, or of a killed publisher) is completed, without
sending again what the server has. Any other run is replaced.
"""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from envknee.study.files import sha256_of
from envknee.tracking.run import Metric, Run

if TYPE_CHECKING:  # importing MLflow takes seconds, and `--help` does not need it
    from mlflow import MlflowClient
    from mlflow.entities import Run as StoredRun

RUNS_PER_PAGE = 1000

TAG_KEY = "envknee.key"
TAG_CONTENT = "envknee.content_sha256"
"""Tag of a complete run."""
TAG_ATTEMPT = "envknee.attempt"
TAG_RESULTS = "envknee.results"
"""Tag with the ID of the results folder: two machines may publish studies of the same name to one server."""
TAG_NOTE = "mlflow.note.content"
"""Tag with a description."""
TAG_NOTES = "envknee.notes_sha256"
"""Tag with the sha256 of the descriptions that envknee wrote last: a person's own stays."""
TAG_PARENT = "mlflow.parentRunId"

ITERATION = "iteration"
"""Metric that tells how many rows an unfinished run has: rows are sent in order, and each row's `iteration` last."""


def results_id(identity: IO[str]) -> str:
    """Return the ID of a results folder, which is made at its first publication and kept in a file."""
    identity.seek(0)
    known = identity.read().strip()
    if not re.fullmatch(r"[0-9a-f]{32}", known):
        known = uuid.uuid4().hex
        identity.truncate(0)
        identity.write(known)
        identity.flush()
    return known


@dataclass(frozen=True)
class Writer:
    """Writes the runs of one results folder."""

    client: "MlflowClient"
    experiment_id: str
    results: str
    """The folder's ID (see `results_id`)."""

    def found(self, key: str | None = None) -> list["StoredRun"]:
        """Return this results folder's runs in the store (only those of `key`), oldest first."""
        from mlflow.utils import get_results_from_paginated_fn

        ours = f"tags.`{TAG_RESULTS}` = '{self.results}'" + ("" if key is None else f" AND tags.`{TAG_KEY}` = '{key}'")

        def page(most: int, token: str | None) -> Sequence["StoredRun"]:
            order = ["attributes.start_time"]
            return self.client.search_runs(
                [self.experiment_id], ours, max_results=most, order_by=order, page_token=token
            )

        return get_results_from_paginated_fn(page, RUNS_PER_PAGE)

    def ensure(self, run: Run, parent_id: str | None, stored: Sequence["StoredRun"]) -> tuple[str, str, bool]:
        """Make sure that a run is complete in the store; return its ID, its content's sha256, and whether anything was written.

        `stored` are the runs of its key in the store.
        """
        digest = run.content_sha256()
        complete = next((known for known in stored if known.data.tags.get(TAG_CONTENT) == digest), None)
        known = complete or self.begin(run, parent_id, stored)
        run_id = known.info.run_id
        if parent_id is not None and known.data.tags.get(TAG_PARENT) != parent_id:
            self.client.set_tag(run_id, TAG_PARENT, parent_id)
        if complete is None:
            self.send(run_id, not_yet_there(run.metrics, known.data.metrics))
            for path, content in run.artifacts.items():
                if isinstance(content, str):
                    self.client.log_text(run_id, content, path)
                else:
                    self.client.log_artifact(run_id, str(content), artifact_path=path.rpartition("/")[0] or None)
            self.client.set_terminated(run_id, run.status, end_time=run.ended_ms)
            self.client.set_tag(run_id, TAG_CONTENT, digest)
        return run_id, digest, complete is None

    def describe(self, text: str) -> None:
        """Make a text the description of the experiment, unless a person has written another one there."""
        tags = self.client.get_experiment(self.experiment_id).tags
        known = tags.get(TAG_NOTE, "")
        is_ours = sha256_of(known) in tags.get(TAG_NOTES, "").split()
        if text in ("", known) or (known and not is_ours):
            return
        # Both texts are known as ours first: this process may be killed before the second call.
        self.client.set_experiment_tag(self.experiment_id, TAG_NOTES, f"{sha256_of(known)} {sha256_of(text)}")
        self.client.set_experiment_tag(self.experiment_id, TAG_NOTE, text)

    def begin(self, run: Run, parent_id: str | None, stored: Sequence["StoredRun"]) -> "StoredRun":
        """Return this attempt's unfinished run as it was, or a new one, and send its name, parameters and tags.

        All other runs in `stored`, which are of the same key, are deleted.
        """
        from mlflow.entities import Param, RunTag

        begun = next((known for known in stored if can_become(known, run)), None)
        others = [known for known in stored if known is not begun]
        if begun is None:
            tags = {TAG_KEY: run.key, TAG_RESULTS: self.results, TAG_ATTEMPT: run.attempt, TAG_PARENT: parent_id}
            given = {name: value for name, value in tags.items() if value is not None}
            begun = self.client.create_run(self.experiment_id, start_time=run.started_ms, tags=given, run_name=run.name)
        elif (begun.info.run_name, begun.info.status) != (run.name, "RUNNING"):
            self.client.update_run(begun.info.run_id, status="RUNNING", name=run.name)
        for known in others:
            self.client.delete_run(known.info.run_id)
        self.client.log_batch(
            begun.info.run_id,
            params=[Param(*pair) for pair in run.params.items()],
            tags=[RunTag(*pair) for pair in run.tags.items()],
        )
        return begun

    def send(self, run_id: str, metrics: Iterable[Metric]) -> None:
        """Send curves in MLflow's own batches, row by row. A store keeps each (name, step, time, value) once."""
        from mlflow.entities import Metric as StoredMetric

        in_order = sorted(metrics, key=lambda metric: (metric.step, metric.key == ITERATION))
        self.client.log_batch(run_id, [StoredMetric(*metric) for metric in in_order])


def can_become(known: "StoredRun", run: Run) -> bool:
    """Tell whether an unfinished run in the store is of the same attempt, and holds only values of `run`, if that has ended."""
    tags, values = known.data.tags, {(metric.key, metric.value) for metric in run.metrics}
    if TAG_CONTENT in tags or tags.get(TAG_ATTEMPT) != run.attempt:
        return False
    return run.status == "RUNNING" or (
        known.data.params.items() <= run.params.items() and known.data.metrics.items() <= values
    )


def not_yet_there(metrics: Sequence[Metric], latest: Mapping[str, float]) -> list[Metric]:
    """Return the metrics that an unfinished run lacks. `latest` has the latest value of each of its curves."""
    rows = {metric.value: metric.step for metric in metrics if metric.key == ITERATION}
    delivered_frames = rows.get(latest.get(ITERATION, -1.0), -1)
    return [metric for metric in metrics if metric.key not in latest or metric.step > delivered_frames]
