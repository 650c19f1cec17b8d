"""Writes the runs of one results folder into a tracking store.

Input: a client, an experiment, Runs. Output: MLflow runs, each with the sha256 of its content, which is set last.

A run with the right content is kept. A live run of the same attempt is completed, without sending again what the server has. Any other
run, or an unfinished run of a killed publisher, is replaced.
"""

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import IO, TYPE_CHECKING

from envknee.tracking.run import Metric, Run

if TYPE_CHECKING:  # importing MLflow takes seconds, and `--help` does not need it
    from mlflow import MlflowClient
    from mlflow.entities import Run as StoredRun

RUNS_PER_PAGE = 1000
METRICS_PER_BATCH = 800
"""Within the limits of MLflow's API (mlflow.utils.validation): 1000 entries in one call."""

TAG_KEY = "envknee.key"
TAG_CONTENT = "envknee.content_sha256"
TAG_LIVE = "envknee.live"
"""Tag of an unfinished run: its attempt while the trial runs, then the hash of the content to which it is being completed."""
TAG_RESULTS = "envknee.results"
"""Tag with the ID of the results folder: two machines may publish studies of the same name to one server."""
TAG_PARENT = "mlflow.parentRunId"

ITERATION = "iteration"
"""Metric that tells how many rows a live run has: rows are sent whole and in order."""


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

    def found(self) -> list["StoredRun"]:
        """Return this results folder's runs in the store, oldest first."""
        from mlflow.utils import get_results_from_paginated_fn

        def page(most: int, token: str | None) -> Sequence["StoredRun"]:
            ours, order = f"tags.`{TAG_RESULTS}` = '{self.results}'", ["attributes.start_time"]
            return self.client.search_runs(
                [self.experiment_id], ours, max_results=most, order_by=order, page_token=token
            )

        return get_results_from_paginated_fn(page, RUNS_PER_PAGE)

    def ensure(self, run: Run, parent_id: str | None, stored: Sequence["StoredRun"]) -> tuple[str, bool]:
        """Make sure that a run is complete in the store; return its ID, and whether anything was written.

        `stored` are this results folder's runs in the store.
        """
        digest = run.content_sha256()
        same = [known for known in stored if known.data.tags.get(TAG_KEY) == run.key]
        match = next((known for known in same if known.data.tags.get(TAG_CONTENT) == digest), None)
        if match is not None:
            self._set_parent(match, parent_id)
            return match.info.run_id, False
        live = next((known for known in same if can_become(known, run, digest)), None)
        if live is None:
            run_id = self.create(run, parent_id)
            self._fill(run_id, run, run.metrics)
        else:
            run_id = live.info.run_id
            metrics = run.metrics
            if live.data.tags[TAG_LIVE] == run.attempt:  # otherwise a completion was interrupted, perhaps within a row
                metrics = not_yet_there(run.metrics, live.data.metrics)
            self.client.set_tag(run_id, TAG_LIVE, digest)
            self._set_parent(live, parent_id)
            if live.info.run_name != run.name:
                self.client.update_run(run_id, name=run.name)
            self._fill(run_id, run, metrics)
            self.client.delete_tag(run_id, TAG_LIVE)
        self.client.set_tag(run_id, TAG_CONTENT, digest)
        return run_id, True

    def create(self, run: Run, parent_id: str | None, live: bool = False) -> str:
        """Make a run with only its own tags; return its ID."""
        tags = {TAG_KEY: run.key, TAG_RESULTS: self.results}
        tags |= {TAG_PARENT: parent_id} if parent_id else {}
        tags |= {TAG_LIVE: run.attempt} if live and run.attempt else {}
        created = self.client.create_run(self.experiment_id, start_time=run.started_ms, tags=tags, run_name=run.name)
        return created.info.run_id

    def log(self, run_id: str, metrics: Sequence[Metric], params: Mapping[str, str], tags: Mapping[str, str]) -> None:
        """Send values; MLflow's client makes as many calls as needed. A store keeps each (name, step, time, value) once."""
        from mlflow.entities import Metric as StoredMetric
        from mlflow.entities import Param, RunTag

        self.client.log_batch(
            run_id,
            [StoredMetric(*metric) for metric in metrics],
            [Param(*pair) for pair in params.items()],
            [RunTag(*pair) for pair in tags.items()],
        )

    def log_rows(self, run_id: str, metrics: Sequence[Metric]) -> None:
        """Send curves, with each row (all metrics of one step) in one call, which is stored whole or not at all."""
        batch: list[Metric] = []
        for _, row in groupby(metrics, key=lambda metric: metric.step):
            values = list(row)
            if batch and len(batch) + len(values) > METRICS_PER_BATCH:
                self.log(run_id, batch, {}, {})
                batch = []
            batch += values
        self.log(run_id, batch, {}, {})

    def _fill(self, run_id: str, run: Run, metrics: Sequence[Metric]) -> None:
        self.log(run_id, metrics, run.params, run.tags)
        for path, content in run.artifacts.items():
            if isinstance(content, str):
                self.client.log_text(run_id, content, path)
            else:
                self.client.log_artifact(run_id, str(content), artifact_path=path.rpartition("/")[0] or None)
        self.client.set_terminated(run_id, run.status, end_time=run.ended_ms)

    def _set_parent(self, known: "StoredRun", parent_id: str | None) -> None:
        if parent_id is not None and known.data.tags.get(TAG_PARENT) != parent_id:
            self.client.set_tag(known.info.run_id, TAG_PARENT, parent_id)


def can_become(known: "StoredRun", run: Run, digest: str) -> bool:
    """Tell whether a live run in the store is of the same attempt, and holds only values of the finished run."""
    tags = known.data.tags
    if TAG_CONTENT in tags or run.attempt is None or tags.get(TAG_LIVE) not in (run.attempt, digest):
        return False
    values = {(metric.key, metric.value) for metric in run.metrics}
    return all(run.params.get(name) == value for name, value in known.data.params.items()) and all(
        latest in values for latest in known.data.metrics.items()
    )


def not_yet_there(metrics: Sequence[Metric], latest: Mapping[str, float]) -> list[Metric]:
    """Return the metrics that a live run lacks. `latest` has the latest value of each of its curves."""
    rows = {metric.value: metric.step for metric in metrics if metric.key == ITERATION}
    delivered_frames = rows.get(latest.get(ITERATION, -1.0), -1)
    return [metric for metric in metrics if metric.key not in latest or metric.step > delivered_frames]
