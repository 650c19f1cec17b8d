"""Publishes a study: an experiment with a parent run per arm and a child run per trial. Again changes nothing (see `writing`)."""

from dataclasses import dataclass

from envknee.machine.lock import locked
from envknee.study.files import canonical_json, write_atomically
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking import view
from envknee.tracking.arms import describe_study, description_of
from envknee.tracking.client import explaining, writer_of
from envknee.tracking.store import Store, locate_store
from envknee.tracking.writing import TAG_KEY


@dataclass(frozen=True)
class Publication:
    """The result of publishing."""

    store: Store
    runs: int
    created: int
    """Number of runs that were not there as the files have them."""


def publish(study: Study, folder: StudyFolder) -> Publication:
    """Make the tracking store match the files of a study, and write published.json.

    Raises:
        UserError: when there is nothing to publish, a file was changed, or the store cannot be used.
    """
    store = locate_store(study, folder)
    runs, description = describe_study(study, folder), description_of(folder)
    current: set[str] = set()
    digests: dict[str, str] = {}
    created = 0
    with locked(folder.root / ".mlflow") as identity, explaining(store, folder):
        writer = writer_of(store, study, identity)
        stored = writer.found()
        for parent, children in runs:
            parent_id = None
            for run in (parent, *children):
                earlier = [known for known in stored if known.data.tags[TAG_KEY] == run.key]
                run_id, digests[run.key], is_new = writer.ensure(run, parent_id, earlier)
                created += is_new
                current.add(run_id)
                parent_id = parent_id or run_id
        # Search again: a retry of MLflow's client may have made a second run.
        for known in writer.found():
            if known.info.run_id not in current and known.data.tags[TAG_KEY] in digests:
                writer.client.delete_run(known.info.run_id)
        writer.describe(description)
        # The same for the same results in the same store.
        published = {
            "schema_version": 1,
            "tracking_uri": store.shown,
            "experiment": study.study,
            "experiment_id": writer.experiment_id,
            "runs": len(digests),
            "content_sha256": digests,
            "view": view.KEY,
        }
        write_atomically(folder.published, canonical_json(published))
    return Publication(store, len(digests), created)
