"""A study's tracking store, and whether the user's credentials may be sent to it."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from envknee.study.errors import UserError
from envknee.study.load import is_of_results
from envknee.study.model import Study
from envknee.study.paths import StudyFolder

DATABASES = ("postgresql", "mysql", "mssql")
FOR_SERVERS = (
    "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_AUTH",
    "MLFLOW_TRACKING_AWS_SIGV4", "MLFLOW_TRACKING_CLIENT_CERT_PATH",
)  # fmt: skip
CREDENTIALS = {"http": FOR_SERVERS, "https": FOR_SERVERS, "postgresql": ("PGPASSWORD",), "mysql": ("MYSQL_PWD",)}
"""By scheme, environment variables that MLflow's client sends to any address. It also sends ~/.mlflow/credentials."""

MLFLOWS_FILE = Path("~/.mlflow/credentials")
LEGAL_URIS = (
    "sqlite:///FILE (four slashes for an absolute path), http://HOST:PORT, https://HOST,"
    " or postgresql, mysql or mssql://USER:PASSWORD@HOST/DATABASE"
)


@dataclass(frozen=True)
class Store:
    """A tracking store."""

    uri: str
    source: str
    """The setting that named the store, for messages."""
    database: Path | None
    """The file of a SQLite store."""
    artifacts: Path | None
    """The folder for artifacts of a database store; None: an MLflow server decides."""

    @property
    def shown(self) -> str:
        """The URI without user, password and query."""
        return without_credentials(self.uri)


def locate_store(study: Study, folder: StudyFolder) -> Store:
    """Return a study's tracking store: its own, else MLFLOW_TRACKING_URI's, else a SQLite file beside the results.

    Raises as `parse_uri`.
    """
    beside = folder.root.resolve().parent
    if study.tracking.uri is not None:
        return parse_uri(study.tracking.uri, "tracking.uri of the study", beside)
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return parse_uri(uri, "the environment variable MLFLOW_TRACKING_URI", beside)
    return parse_uri(f"sqlite:///{beside / 'mlflow.db'}", "the default", beside)


def without_credentials(uri: str) -> str:
    """Return a URI without user, password, query and fragment, also when it is malformed."""
    if uri.startswith("sqlite:"):
        return uri
    return re.split(r"[?#]", re.sub(r"://.*@", "://", uri, flags=re.DOTALL))[0]


def trust_address(study: Study, files: Iterable[str | Path]) -> None:
    """Allow child processes to send credentials to a study's own store, if the user wrote the `files` that name it."""
    if study.tracking.uri is not None and not any(is_of_results(file) for file in files):
        os.environ["MLFLOW_TRACKING_URI"] = without_credentials(study.tracking.uri)


def check_credentials(study: Study, file: Path) -> None:
    """Raise a UserError if credentials would go to an address that only a results folder names: it may come from somebody else.

    MLflow's client would send them to any address. `file` is the one that the study was read from.
    """
    uri = study.tracking.uri or ""
    if not is_of_results(file) or _origin(uri) == _origin(os.environ.get("MLFLOW_TRACKING_URI", "")):
        return
    scheme = uri.partition(":")[0].partition("+")[0]
    given = [name for name in CREDENTIALS.get(scheme, ()) if os.environ.get(name)]
    given += [str(MLFLOWS_FILE)] if scheme in ("http", "https") and MLFLOWS_FILE.expanduser().exists() else []
    if given:
        shown = without_credentials(uri)
        raise UserError(
            f"{file} names the tracking store {shown}, and your credentials ({', '.join(given)}) are not known to be meant for it:"
            f" nothing was sent. If they are, set MLFLOW_TRACKING_URI={shown} and run this again."
        )


def check_database(study: Study, file: Path, folder: StudyFolder) -> None:
    """Raise a UserError if a database file outside the results would be made, and only a results folder names it.

    `file` is the one that the study was read from. `MLFLOW_TRACKING_URI` with the same address says that its user wants it.
    """
    uri = study.tracking.uri or ""
    if not uri.startswith("sqlite:") or not is_of_results(file) or uri == os.environ.get("MLFLOW_TRACKING_URI"):
        return
    results = folder.root.resolve().parent
    database = parse_uri(uri, f"tracking.uri of {file}", results).database
    if database is not None and not database.resolve().is_relative_to(results):
        raise UserError(
            f"{file} names the tracking store {uri}, a file outside {results}: nothing was written. If you want it there, set"
            f" MLFLOW_TRACKING_URI={uri} and run this again."
        )


def _origin(uri: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(uri)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", None, None  # no store at all: `parse_uri` says so


def parse_uri(uri: str, source: str, beside: Path) -> Store:
    """Return the store that a user's URI names.

    `source` says where, for messages. `beside` is the folder for the artifacts of a database server.

    Raises:
        UserError: when MLflow cannot write runs there.
    """

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
