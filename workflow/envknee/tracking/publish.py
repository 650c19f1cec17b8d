"""Runs → the tracking store: it shows what the files of a study say, however often they are published.

Input: the Runs of a study, a Store. Output: an experiment (the study) with a parent run per arm and a child run per
trial, and results/<study>/published.json.

Publishing again changes nothing: a run carries the sha256 of its content, set last of all. A run with the same content
is left alone; one with other content, or with none because its publisher was killed, gives way to a new one.
"""

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import IO, TYPE_CHECKING, TypeVar

from envknee.config import Study
from envknee.files import StudyFolder, canonical_json, write_atomically
from envknee.tracking.describe import describe_study
from envknee.tracking.lock import locked
from envknee.tracking.run import Run
from envknee.tracking.store import Store, connect, explaining, locate_store, study_experiment

if TYPE_CHECKING:  # importing MLflow takes seconds, and `--help` has no use for it
    from mlflow import MlflowClient
    from mlflow.entities import Experiment
    from mlflow.entities import Run as StoredRun

Item = TypeVar("Item")

RUNS_PER_PAGE = 1000
METRICS_PER_BATCH = 800
PARAMS_PER_BATCH = 100
TAGS_PER_BATCH = 100
"""Limits of MLflow's API (mlflow.utils.validation): 1000 things in one call."""

TAG_KEY = "envknee.key"
TAG_CONTENT = "envknee.content_sha256"
TAG_RESULTS = "envknee.results"
"""Which results folder a run came from: two machines may publish studies of one name to one server."""
TAG_PARENT = "mlflow.parentRunId"


@dataclass(frozen=True)
class Publication:
    """What a publisher did."""

    store: Store
    experiment: str
    experiment_id: str
    content_sha256: Mapping[str, str]
    """By the run's key; the content of published.json."""
    created: int

    def as_json(self) -> str:
        """Return the text of published.json: the same for the same results in the same store."""
        return canonical_json(
            {
                "schema_version": 1,
                "tracking_uri": self.store.shown,
                "experiment": self.experiment,
                "experiment_id": self.experiment_id,
                "runs": len(self.content_sha256),
                "content_sha256": dict(self.content_sha256),
            }
        )


def publish(study: Study, folder: StudyFolder) -> Publication:
    """Bring the tracking store up to date with the files of a study, and write published.json.

    Raises:
        UserError: when there is nothing to publish, a file was tampered with, or the store cannot be used.
    """
    store = locate_store(study, folder)
    runs = describe_study(study, folder)
    with locked(folder.root / ".mlflow") as identity, explaining(store, folder):
        client = connect(store)
        experiment = study_experiment(client, study.study, store)
        publication = _publish_runs(client, runs, experiment, store, _results_id(identity))
        write_atomically(folder.published, publication.as_json())
    return publication


def _results_id(identity: IO[str]) -> str:
    """Return the identity of a results folder, made up at its first publication and kept in a file of its own."""
    identity.seek(0)
    known = identity.read().strip()
    if re.fullmatch(r"[0-9a-f]{32}", known):
        return known
    identity.truncate(0)
    identity.write(uuid.uuid4().hex)
    identity.flush()
    return _results_id(identity)


def _publish_runs(
    client: "MlflowClient",
    runs: Sequence[tuple[Run, list[Run]]],
    experiment: "Experiment",
    store: Store,
    results_id: str,
) -> Publication:
    """Make the runs of one results folder match what its files say."""
    found = _runs_of(client, experiment.experiment_id, results_id)
    kept: set[str] = set()
    digests: dict[str, str] = {}
    created = 0

    def ensure(run: Run, parent_id: str | None) -> str:
        nonlocal created
        digests[run.key] = run.content_sha256()
        same = (known for known in found if known.data.tags.get(TAG_KEY) == run.key)
        match = next((known for known in same if known.data.tags.get(TAG_CONTENT) == digests[run.key]), None)
        if match is None:
            run_id = _create(client, experiment.experiment_id, run, parent_id, results_id, digests[run.key])
            created += 1
        else:
            run_id = match.info.run_id
            if parent_id is not None and match.data.tags.get(TAG_PARENT) != parent_id:
                client.set_tag(run_id, TAG_PARENT, parent_id)
        kept.add(run_id)
        return run_id

    for parent, children in runs:
        parent_id = ensure(parent, None)
        for child in children:
            ensure(child, parent_id)
    # Looked up again: a request that was sent twice by a retry may have made a run that nobody knows of.
    for known in _runs_of(client, experiment.experiment_id, results_id):
        replaced = known.data.tags.get(TAG_KEY) in digests or TAG_CONTENT not in known.data.tags
        if known.info.run_id not in kept and replaced:
            client.delete_run(known.info.run_id)
    return Publication(store, experiment.name, experiment.experiment_id, digests, created)


def _runs_of(client: "MlflowClient", experiment_id: str, results_id: str) -> list["StoredRun"]:
    """Return the runs that this results folder has in the store, oldest first."""
    runs: list[StoredRun] = []
    token = None
    while True:
        page = client.search_runs(
            [experiment_id],
            f"tags.`{TAG_RESULTS}` = '{results_id}'",
            max_results=RUNS_PER_PAGE,
            order_by=["attributes.start_time"],
            page_token=token,
        )
        runs += page
        token = page.token
        if not token:
            return runs


def _create(
    client: "MlflowClient", experiment_id: str, run: Run, parent_id: str | None, results_id: str, digest: str
) -> str:
    """Log a run and return its ID. The content's sha256 comes last: a run without one is half a run."""
    from mlflow.entities import Metric as StoredMetric
    from mlflow.entities import Param, RunTag

    tags = {TAG_KEY: run.key, TAG_RESULTS: results_id} | ({TAG_PARENT: parent_id} if parent_id else {})
    run_id = client.create_run(experiment_id, start_time=run.started_ms, tags=tags, run_name=run.name).info.run_id
    for metrics, params, more_tags in zip_longest(
        _chunks([StoredMetric(*metric) for metric in run.metrics], METRICS_PER_BATCH),
        _chunks([Param(*pair) for pair in run.params.items()], PARAMS_PER_BATCH),
        _chunks([RunTag(*pair) for pair in run.tags.items()], TAGS_PER_BATCH),
        fillvalue=(),
    ):
        client.log_batch(run_id, metrics, params, more_tags)
    for path, content in run.artifacts.items():
        if isinstance(content, str):
            client.log_text(run_id, content, path)
        else:
            client.log_artifact(run_id, str(content), artifact_path=path.rpartition("/")[0] or None)
    client.set_terminated(run_id, run.status, end_time=run.ended_ms)
    client.set_tag(run_id, TAG_CONTENT, digest)
    return run_id


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))
