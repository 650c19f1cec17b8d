"""Which tracking store a study has, how to reach it, and what to do when it cannot be used.

Input: the study file, MLFLOW_TRACKING_URI. Output: a Store, an MLflow client of it, the study's experiment in it.
"""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from envknee.config import Study
from envknee.errors import UserError
from envknee.files import StudyFolder
from envknee.tracking.database import check_database
from envknee.tracking.lock import locked

if TYPE_CHECKING:  # importing MLflow takes seconds, and `--help` has no use for it
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
"""Opens the experiment at its runs, not at the traces of a language model."""

MLFLOW_DEFAULTS = {
    # One call to a dead server takes 247 s by default (7 retries); so it takes about 20 s at worst.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    # Files go through the server. MLflow would take large ones to its bucket, and all from there, to which there need be no way.
    "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false",
    "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # What goes wrong is raised as well, and reported once.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
}
"""Environment variables set for MLflow unless the user has."""

DATABASES = ("postgresql", "mysql", "mssql")
LEGAL_URIS = (
    "sqlite:///FILE (four slashes for an absolute path), http://HOST:PORT, https://HOST,"
    " or postgresql, mysql or mssql://USER:PASSWORD@HOST/DATABASE"
)


@dataclass(frozen=True)
class Store:
    """Where runs are logged."""

    uri: str
    source: str
    """Who named it, for messages."""
    database: Path | None
    """The file of a SQLite store."""
    artifacts: Path | None
    """Where the artifacts of a database store lie; a server decides that itself."""

    @property
    def shown(self) -> str:
        """The URI without user, password and query."""
        return without_credentials(self.uri)

    @property
    def is_server(self) -> bool:
        """Whether an MLflow server is spoken to, rather than a database."""
        return self.artifacts is None


def locate_store(study: Study, folder: StudyFolder) -> Store:
    """Return the tracking store of a study: its own, else MLFLOW_TRACKING_URI's, else a SQLite file beside the results.

    Raises:
        UserError: when the URI is not one that MLflow can write runs to.
    """
    beside = folder.root.resolve().parent
    if study.tracking.uri is not None:
        return _parse_uri(study.tracking.uri, "tracking.uri of the study", beside)
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return _parse_uri(uri, "the environment variable MLFLOW_TRACKING_URI", beside)
    return _parse_uri(f"sqlite:///{beside / 'mlflow.db'}", "the default", beside)


def without_credentials(uri: str) -> str:
    """Return a URI without user, password, query and fragment, also when it is malformed."""
    if uri.startswith("sqlite:"):
        return uri
    return re.split(r"[?#]", re.sub(r"://.*@", "://", uri, flags=re.DOTALL))[0]


def _parse_uri(uri: str, source: str, beside: Path) -> Store:
    def refuse(why: str) -> UserError:
        return UserError(f"{source} is {without_credentials(uri)!r}: {why}. Expected {LEGAL_URIS}.")

    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise refuse(str(error)) from error
    if uri != uri.strip() or "\n" in uri:
        raise refuse("it holds white space")
    scheme = parts.scheme.partition("+")[0]
    if scheme == "sqlite":
        path = uri.removeprefix(f"{parts.scheme}:///")
        if path == uri or path in ("", ":memory:") or "?" in path or Path(path).is_dir():
            raise refuse("it does not name one file")
        database = Path(path).absolute()
        return Store(f"sqlite:///{database}", source, database, database.parent / "mlartifacts")
    if scheme not in ("http", "https", *DATABASES):
        raise refuse(f"MLflow cannot log runs to {scheme + ':' if scheme else 'a plain path'}")
    if not host or port == 0:
        raise refuse("it names no host")
    return Store(uri, source, None, None if scheme in ("http", "https") else beside / "mlartifacts")


def _create_sqlite(store: Store, database: Path) -> None:
    """Create a new SQLite store, whole or not at all, and by one process only.

    MLflow's own creation fails when several processes start it at once, and leaves half a database when killed.
    """
    database.parent.mkdir(parents=True, exist_ok=True)
    with locked(database.with_name(f"{database.name}.lock")):
        if database.exists() and database.stat().st_size:
            check_database(store.uri, store.shown, store.source)
            return
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        unfinished = database.with_name(f".{database.name}.new")
        unfinished.unlink(missing_ok=True)
        SqlAlchemyStore(f"sqlite:///{unfinished}", str(store.artifacts)).engine.dispose()
        unfinished.replace(database)


def connect(store: Store) -> "MlflowClient":
    """Return a client whose store exists; a server may still turn out not to answer."""
    _set_up_mlflow()
    from mlflow import MlflowClient

    if store.database is not None:
        _create_sqlite(store, store.database)
    elif not store.is_server:
        check_database(store.uri, store.shown, store.source)
    return MlflowClient(tracking_uri=store.uri)


def _set_up_mlflow() -> None:
    """Make MLflow fail fast, keep quiet and send nothing home; what the user has set stays."""
    for name, value in MLFLOW_DEFAULTS.items():
        os.environ.setdefault(name, value)
    logging.getLogger("urllib3").setLevel(logging.ERROR)


@contextmanager
def explaining(store: Store, folder: StudyFolder) -> Iterator[None]:
    """Turn what MLflow, its database or its server raise into a message with the next step."""
    _set_up_mlflow()
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, RequestException, SQLAlchemyError, ModuleNotFoundError, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None and not isinstance(error, RequestException):
            raise  # a file of ours: the disk is full, a permission is missing
        said = " ".join(without_credentials(word) if "://" in word else word for word in str(error).split())
        raise UserError(
            f"The tracking store {store.shown} ({store.source}) cannot be used: {said[:600]}\n"
            f"Expected a running MLflow store that takes runs.{_hint(said)} The measurements are safe in {folder.root}:"
            " run `make publish` when the store is back, or name another one (tracking.uri in the study file)."
        ) from error


def _hint(said: str) -> str:
    """Return what an answer of a server usually means."""
    if "Invalid Host header" in said:
        return " It does not go by that name: add it to the server's allowed_hosts, or call it by one of those."
    if any(code in said for code in ("401", "403", "Unauthorized", "Forbidden")):
        return " If it asks who you are, set MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN."
    if any(code in said for code in ("code 500", "500 error", "code 503", "503 error")):
        return " The server is there and cannot do it: its own log says why (its database is away, its disk is full)."
    if any(words in said for words in ("Connection reset", "RemoteDisconnected")):  # MLflow does, when its bucket fails
        return " The server broke off the request: its own log says why (its bucket is away or refuses the key)."
    return ""


def study_experiment(client: "MlflowClient", name: str, store: Store) -> "Experiment":
    """Return the experiment of a study, created where it does not exist."""
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
    """Refuse a store that was moved: MLflow keeps absolute paths, and would write where the results used to be."""
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
