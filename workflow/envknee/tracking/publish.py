"""Publishes a study: afterwards the tracking store matches the study's files.

Input: the Runs of a study, a Store. Output: an experiment (the study) with a parent run per arm and a child run per trial, and
results/<study>/published.json.

Publishing again changes nothing. Each run has the sha256 of its content, which is set last. A run with the same content is kept. A run
with other content, or without a sha256 because its publisher was killed, is replaced.
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

if TYPE_CHECKING:  # importing MLflow takes seconds, and `--help` does not need it
    from mlflow.entities import Experiment


@dataclass(frozen=True)
class Publication:
    """The result of publishing."""

    store: Store
    experiment: str
    experiment_id: str
    content_sha256: Mapping[str, str]
    """Hashes of run contents by run key, as in published.json."""
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
    """Update the tracking store from the files of a study, and write published.json.

    Raises:
        UserError: when there is nothing to publish, a file was changed, or the store cannot be used.
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
    """Make the runs of one results folder match its files."""
    stored = writer.found()
    kept: set[str] = set()
    digests: dict[str, str] = {}
    created = 0
    for parent, children in runs:
        parent_id = None
        for run in (parent, *children):
            digests[run.key] = run.content_sha256()
            run_id, is_new = writer.ensure(run, parent_id, stored)
            created += is_new
            kept.add(run_id)
            parent_id = parent_id or run_id
    # Search again: a retry of MLflow's client may have made a second run.
    for known in writer.found():
        tags = known.data.tags
        is_half = TAG_CONTENT not in tags and TAG_LIVE not in tags  # a live run belongs to a running trial
        if known.info.run_id not in kept and (tags.get(TAG_KEY) in digests or is_half):
            writer.client.delete_run(known.info.run_id)
    return Publication(store, experiment.name, experiment.experiment_id, digests, created)
