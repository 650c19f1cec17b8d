"""Checks of every request to our MLflow server, besides MLflow's own sign-in. Runs inside MLflow's workers.

MLflow allows two things to everyone who signs in. A client may choose any folder of the server's user for an experiment's files, and a
page of any other server on this machine may use the browser's sign-in.

Upstream: `authorization_function` of mlflow.server.auth 3.17. Each worker calls it before it answers any request, except for /health and
static files.
"""

import functools
import os
import posixpath
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from flask import Response, make_response, request
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from mlflow.server.auth import authenticate_request_basic_auth
from mlflow.server.constants import ARTIFACTS_DESTINATION_ENV_VAR
from mlflow.server.security_utils import get_allowed_origins_from_env
from mlflow.store.artifact import artifact_repository_registry
from mlflow.utils.file_utils import local_file_uri_to_path
from mlflow.utils.uri import get_uri_scheme
from werkzeug.datastructures import Authorization

from envknee.tracking import patience

# Each worker imports this module before it makes a connection or a client.
patience.limit_postgres()
patience.limit_s3()


def authenticate() -> Authorization | Response:
    """Return the user of the current request, or the response that refuses it."""
    _confine_files()
    origin = request.headers.get("Origin")
    if origin and urlsplit(origin).netloc != request.host and origin not in (get_allowed_origins_from_env() or []):
        return make_response("A page of another server may not speak to this one.", 403)
    answer = authenticate_request_basic_auth()
    if isinstance(answer, Authorization) and request.path.endswith("/experiments/create"):
        wanted: Any = request.get_json(force=True, silent=True)
        for name in ("artifact_location", "artifactLocation"):
            location = wanted.get(name) if isinstance(wanted, dict) else None
            if location and not may_hold_files(str(location), _files()):
                return make_response(
                    f"{name}: files of this server lie in its own folder or bucket alone. Leave it out.", 403
                )
    return answer


def may_hold_files(location: str, files: str) -> bool:
    """Tell whether a client's path or URI is in the server's own folder or bucket. Pure, except for symbolic links.

    `files` is `--artifacts-destination`: an absolute path, or s3://BUCKET/PATH.
    """
    parts = urlsplit(location)
    if parts.scheme == "mlflow-artifacts":
        return not parts.netloc and ".." not in unquote(parts.path)
    if "://" in files:
        return f"{posixpath.normpath(unquote(location))}/".startswith(f"{posixpath.normpath(files)}/")
    if get_uri_scheme(location) not in ("", "file"):
        return False
    path, root = (Path(local_file_uri_to_path(place)).resolve() for place in (location, files))  # as in MLflow
    return path.is_relative_to(root)


def _files() -> str:
    return os.environ[ARTIFACTS_DESTINATION_ENV_VAR]


@functools.cache
def _confine_files() -> None:
    """Make MLflow open only the server's own folder or bucket, for experiments, models and traces."""
    registry = artifact_repository_registry._artifact_repository_registry
    open_anywhere = registry.get_artifact_repository

    def open_own(artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None) -> Any:
        if not may_hold_files(artifact_uri, _files()):
            raise MlflowException(
                "These files lie outside this server's folder or bucket.", error_code=PERMISSION_DENIED
            )
        return open_anywhere(artifact_uri, tracking_uri, registry_uri)

    registry.get_artifact_repository = open_own
