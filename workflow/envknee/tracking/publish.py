"""Runs → the tracking store: it shows what the files of a study say, however often they are published.

Input: the Runs of a study, a Store. Output: an experiment (the study) with a parent run per arm and a child run per
trial, and results/<study>/published.json.

Publishing again changes nothing: a run carries the sha256 of its content, set last of all. A run with the same content
is left alone; one with other content, or with none because its publisher was killed, gives way to a new one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envknee.study.files import canonical_json, write_atomically
from envknee.study.lock import locked
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking import view
from envknee.tracking.arms import describe_study
from envknee.tracking.client import connect, explaining, study_experiment
from envknee.tracking.run import Run
from envknee.tracking.store import Store, locate_store
from envknee.tracking.writing import TAG_CONTENT, TAG_KEY, TAG_LIVE, Writer, results_id

if TYPE_CHECKING:  # importing MLflow takes seconds, and `--help` has no use for it
    from mlflow.entities import Experiment


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
                "view": view.KEY,
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
        view.show(client, experiment, study)
        writer = Writer(client, experiment.experiment_id, results_id(identity))
        publication = _publish_runs(writer, runs, experiment, store)
        write_atomically(folder.published, publication.as_json())
    return publication


def _publish_runs(
    writer: Writer, runs: Sequence[tuple[Run, list[Run]]], experiment: "Experiment", store: Store
) -> Publication:
    """Make the runs of one results folder match what its files say."""
    stored = writer.found()
    kept: set[str] = set()
    digests: dict[str, str] = {}
    created = 0

    def ensure(run: Run, parent_id: str | None) -> str:
        nonlocal created
        digests[run.key] = run.content_sha256()
        run_id, is_new = writer.ensure(run, parent_id, stored)
        created += is_new
        kept.add(run_id)
        return run_id

    for parent, children in runs:
        parent_id = ensure(parent, None)
        for child in children:
            ensure(child, parent_id)
    # Looked up again: a request that was sent twice by a retry may have made a run that nobody knows of.
    for known in writer.found():
        tags = known.data.tags
        is_half = TAG_CONTENT not in tags and TAG_LIVE not in tags  # a live one is of a trial that still runs
        if known.info.run_id not in kept and (tags.get(TAG_KEY) in digests or is_half):
            writer.client.delete_run(known.info.run_id)
    return Publication(store, experiment.name, experiment.experiment_id, digests, created)
