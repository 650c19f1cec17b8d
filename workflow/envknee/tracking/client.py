"""MLflow's client of a study's tracking store, and its errors with the next step."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking import view
from envknee.tracking.database import UnusableError, next_step, prepare_database
from envknee.tracking.store import Store, without_credentials
from envknee.tracking.writing import Writer, results_id

if TYPE_CHECKING:  # importing MLflow takes seconds, and `--help` does not need it
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
"""Makes MLflow open the experiment at its runs, not at the traces of a language model."""

MLFLOW_DEFAULTS = {
    # A call to a dead server takes 247 s by default (7 retries), and at most about 20 s with these.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    # Files go through the server. By default, MLflow's client accesses the server's bucket directly, which it may not reach.
    "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false",
    "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # Errors are raised, and reported once.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
}
"""Environment variables for MLflow, unless the user has set them."""


@contextmanager
def explaining(store: Store, folder: StudyFolder) -> Iterator[None]:
    """Turn errors of MLflow, its database or its server into a `UserError` with the next step.

    Inside, MLflow fails fast, prints nothing and sends no telemetry, unless the user's own settings differ.
    """
    for name, value in MLFLOW_DEFAULTS.items():
        os.environ.setdefault(name, value)
    logging.getLogger("urllib3").setLevel(logging.ERROR)
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    safe = (
        f"The measurements are safe in {folder.root}: run `make publish` when the store is back, or name another one (tracking.uri in"
        " the study file)."
    )
    try:
        yield
    except UnusableError as error:
        raise UserError(f"{error} {safe}") from error
    except (MlflowException, RequestException, SQLAlchemyError, ModuleNotFoundError, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None and not isinstance(error, RequestException):
            raise  # an error of our own files: a full disk, a missing permission
        message = " ".join(without_credentials(word) if "://" in word else word for word in str(error).split())
        raise UserError(
            f"The tracking store {store.shown} ({store.source}) cannot be used: {message[:600]}\n{next_step(message)} {safe}"
        ) from error


def writer_of(store: Store, study: Study, identity: IO[str]) -> Writer:
    """Return a writer of a study's runs, for use inside `explaining`. A missing database or experiment is created.

    `identity` is the file of `results_id`.
    """
    from mlflow import MlflowClient

    if store.artifacts is not None:
        # As a URI, because MLflow writes this one into SQL as it stands: a quote or a colon in the path would break that.
        prepare_database(store, store.artifacts.absolute().as_uri())
    client = MlflowClient(tracking_uri=store.uri)
    experiment = _experiment(client, study.study, store)
    view.show(client, experiment, study)
    return Writer(client, experiment.experiment_id, results_id(identity))


def _experiment(client: "MlflowClient", name: str, store: Store) -> "Experiment":
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = None if store.artifacts is None else str(store.artifacts / name)
        try:
            client.create_experiment(name, artifact_location=location, tags=EXPERIMENT_TAGS)
        except MlflowException as error:  # another machine was faster
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        experiment = client.get_experiment_by_name(name)
        assert experiment is not None, name
    if experiment.lifecycle_stage == "deleted":
        raise UserError(
            f"The experiment {name!r} was deleted in {store.shown}, and its name is taken until it is purged."
            f" Bring it back with `mlflow experiments restore --experiment-id {experiment.experiment_id}`, or rename the study."
        )
    if store.artifacts is not None:
        _check_location(experiment, store, store.artifacts)
    return experiment


def _check_location(experiment: "Experiment", store: Store, artifacts: Path) -> None:
    """Refuse a store that was moved: MLflow keeps absolute paths, and would write to the old folder."""
    where = Path(experiment.artifact_location.removeprefix("file://"))
    if (
        where.is_absolute()
        and not where.is_relative_to(artifacts)
        and (store.source == "the default" or not where.is_dir())
    ):
        raise UserError(
            f"{store.shown} was made for artifacts in {where}, and {artifacts} was expected: it was moved or copied."
            f" Move it back, or delete {store.database or store.shown} if it holds nothing but envknee's runs:"
            " they are made again from the results when you publish."
        )
