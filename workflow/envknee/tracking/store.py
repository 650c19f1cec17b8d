"""Which tracking store a study has. Says whether the user's credentials may go there.

Input: the study file, MLFLOW_TRACKING_URI. Output: a Store.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder

DATABASES = ("postgresql", "mysql", "mssql")
FOR_SERVERS = (
    "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_AUTH",
    "MLFLOW_TRACKING_AWS_SIGV4", "MLFLOW_TRACKING_CLIENT_CERT_PATH",
)  # fmt: skip
CREDENTIALS = {"http": FOR_SERVERS, "https": FOR_SERVERS, "postgresql": ("PGPASSWORD",), "mysql": ("MYSQL_PWD",)}
"""By scheme, the environment variables that are sent to whatever address is named; MLflow has ~/.mlflow/credentials, too."""

MLFLOWS_FILE = Path("~/.mlflow/credentials")
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
    """Let credentials go to a study's own store from the processes that this one starts, if the user wrote the file that names it.

    Args:
        study: what Snakemake runs
        files: that it was read from
    """
    if study.tracking.uri is not None and not any(_is_of_results(file) for file in files):
        os.environ["MLFLOW_TRACKING_URI"] = without_credentials(study.tracking.uri)


def check_credentials(study: Study, file: Path) -> None:
    """Refuse to send credentials to an address that only a results folder names: it may be somebody else's.

    MLflow's client would send them to any address.

    Args:
        study: what is published
        file: that it was read from

    Raises:
        UserError: says how to allow it.
    """
    uri = study.tracking.uri or ""
    if not _is_of_results(file) or _origin(uri) == _origin(os.environ.get("MLFLOW_TRACKING_URI", "")):
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


def _is_of_results(file: str | Path) -> bool:
    """Return whether a study file is a results folder's own, which may come from another machine."""
    return Path(file).name == StudyFolder(Path()).study.name


def _origin(uri: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(uri)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", None, None  # no store at all: `parse_uri` says so


def parse_uri(uri: str, source: str, beside: Path) -> Store:
    """Return the store that a URI names.

    Args:
        uri: that a user wrote
        source: where, for messages
        beside: folder for the artifacts of a database on a server

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
