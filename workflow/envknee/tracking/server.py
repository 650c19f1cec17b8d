"""A tracking server for a group: MLflow's own, checked before it starts, closed where it could be open.

Input: a server's file (config/server.yaml, docs/tracking.md). Output: this process becomes the MLflow server.

    python -m envknee.tracking.server config/server.yaml            start
    python -m envknee.tracking.server config/server.yaml --check    say whether it could, and stop
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envknee.errors import UserError, run_command
from envknee.tracking.database import check_database
from envknee.tracking.private import check_private, kept_secret, read_environment
from envknee.tracking.server_config import ServerConfig, load_server_config
from envknee.tracking.ui import is_free

ADMIN = "admin"
FULL_DISK_BYTES = 50_000_000
"""With less room than this a database soon cannot write."""

_KEY = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in environment_file"
S3_HINTS = {
    "NoSuchBucket": "Create the bucket, or name one that exists.",
    "InvalidAccessKeyId": f"Correct {_KEY}.",
    "SignatureDoesNotMatch": f"Correct {_KEY}.",
    "AccessDenied": "Allow this key to list the bucket and to read, write and delete objects in it, or name another one:"
    f" {_KEY}.",
    "": f"Expected a store that answers there, MLFLOW_S3_ENDPOINT_URL for one other than AWS, and {_KEY}.",
}
"""By the code of a store's answer: what to do."""

IMPATIENT = {"AWS_MAX_ATTEMPTS": "3"}
"""boto3's own five attempts take up to 15 s of waiting, and a publisher waits 10 s for an answer."""

QUIET = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def main() -> None:
    """Start a tracking server, or say why it cannot start."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("file", type=Path, help="the server's file, such as config/server.yaml")
    parser.add_argument("--check", action="store_true", help="only say whether it could start")
    arguments = parser.parse_args()
    config = load_server_config(arguments.file)
    environment = environment_of(config, os.environ)
    check_server(config, environment)
    print(announcement(config), flush=True)
    if not arguments.check:
        os.execve(sys.executable, command_of(config), environment)  # noqa: S606  no shell


def environment_of(config: ServerConfig, given: Mapping[str, str]) -> dict[str, str]:
    """Return the server's environment: secrets travel in it, and nowhere else.

    Raises:
        UserError: when a file with secrets can be read by others.
    """
    # Options from outside could open another interface or take another store.
    inherited = {name: value for name, value in given.items() if not name.startswith(("MLFLOW_", "_MLFLOW_"))}
    inherited |= {name: given[name] for name in ("MLFLOW_S3_ENDPOINT_URL",) if name in given}
    own = read_environment(Path(config.environment_file)) if config.environment_file else {}
    environment = IMPATIENT | inherited | own | QUIET | {"MLFLOW_BACKEND_STORE_URI": _absolute(config)}
    if passwords := environment.get("PGPASSFILE"):
        check_private(Path(passwords))
    if config.needs_sign_in:
        private = Path(config.private).absolute()
        environment["MLFLOW_AUTH_ADMIN_USERNAME"] = ADMIN
        environment["MLFLOW_AUTH_ADMIN_PASSWORD"] = kept_secret(private, "admin-password")
        environment["MLFLOW_FLASK_SERVER_SECRET_KEY"] = kept_secret(private, "session-key")
        environment["MLFLOW_AUTH_CONFIG_PATH"] = str(_auth_config(private))
    return environment


def command_of(config: ServerConfig) -> list[str]:
    """Return the server's command line, which everyone on this machine can read: no secrets in it."""
    artifacts = config.artifacts if config.bucket else str(Path(config.artifacts).absolute())
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", config.host, "--port", str(config.port),
        "--workers", str(config.workers), "--serve-artifacts", "--artifacts-destination", artifacts,
    ]  # fmt: skip
    if config.allowed_hosts:
        # MLflow's own default would end here: this machine must still reach it.
        own = [f"localhost:{config.port}", f"127.0.0.1:{config.port}"]
        command += ["--allowed-hosts", ",".join(dict.fromkeys([*config.allowed_hosts, *own]))]
    return [*command, "--app-name", "basic-auth"] if config.needs_sign_in else command


def check_server(config: ServerConfig, environment: Mapping[str, str]) -> None:
    """Make sure that the server can start: what MLflow says of these comes late, or never.

    Raises:
        UserError: names what is wrong, and what to do.
    """
    if not is_free(config.port, config.host):
        raise UserError(
            f"{config.host}:{config.port} cannot be listened on: another program does (perhaps this server, or workers of one"
            " that was killed), or this machine has no such address. Stop it, or name another `port` or `host`."
        )
    if config.database is not None:
        _check_folder(config.database.absolute().parent, "backend")
    if config.bucket is None:
        _check_folder(Path(config.artifacts).absolute(), "artifacts")
    # Where PostgreSQL's own library and boto3 look for passwords, keys and what else they can be told.
    os.environ.update({name: value for name, value in environment.items() if name.startswith(("PG", "AWS_"))})
    check_database(_absolute(config), config.backend, "backend")
    if config.bucket is not None:
        _check_bucket(config.artifacts, environment)


def announcement(config: ServerConfig) -> str:
    """Return what the server's owner must know: where it is, where it keeps things, and how to sign in."""
    where = f"[{config.host}]" if ":" in config.host else config.host
    lines = [
        f"MLflow serves http://{where}:{config.port}; runs in {config.backend}, files in {config.artifacts} (Ctrl-C ends it)",
        f"Studies use it with MLFLOW_TRACKING_URI=http://{(config.allowed_hosts or [f'{where}:{config.port}'])[0]}",
    ]
    if config.needs_sign_in:
        private = Path(config.private) / "admin-password"
        lines.append(
            f"Sign in as {ADMIN!r} with the password in {private}; give each person an own account (docs/tracking.md)."
        )
    return "\n".join(lines)


def _absolute(config: ServerConfig) -> str:
    return config.backend if config.database is None else f"sqlite:///{config.database.absolute()}"


def _auth_config(private: Path) -> Path:
    """Write what MLflow's sign-in reads; users are kept beside it."""
    path = private / "basic_auth.ini"
    content = (
        "[mlflow]\ndefault_permission = READ\n"
        f"database_uri = sqlite:///{private / 'users.db'}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    path.touch(mode=0o600)
    path.write_text(content.replace("%", "%%"), encoding="utf-8")
    (private / "users.db").touch(mode=0o600)
    return path


def _check_folder(folder: Path, key: str) -> None:
    """Make sure that a file can be made in a folder, which is created where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"envknee")
            probe.flush()
    except OSError as error:
        raise UserError(
            f"{key}: {folder} cannot be written to: {error.strerror or error}. Name a folder of yours, or make room there."
        ) from error
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < FULL_DISK_BYTES:
        raise UserError(
            f"{key}: the disk of {folder} has {free_bytes / 1e6:.0f} MB left, and a server that starts now would fail soon."
            " Make room there, or name another folder."
        )


def _check_bucket(artifacts: str, environment: Mapping[str, str]) -> None:
    """Make sure that an S3-compatible store answers, knows the bucket, and lets this key read and write there."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    quick = Config(connect_timeout=5, read_timeout=10, retries={"total_max_attempts": 1})
    endpoint = environment.get("MLFLOW_S3_ENDPOINT_URL")
    place = urlsplit(artifacts)
    bucket, path = place.netloc, place.path.lstrip("/")
    try:
        store: Any = boto3.client("s3", endpoint_url=endpoint, config=quick)
        store.list_objects_v2(Bucket=bucket, Prefix=path, MaxKeys=1)
        # Only who may write can begin an upload, and one that is given up leaves nothing behind.
        probe = {"Bucket": bucket, "Key": f"{path.rstrip('/')}/envknee-probe".lstrip("/")}
        begun = store.create_multipart_upload(**probe)
        store.abort_multipart_upload(**probe, UploadId=begun["UploadId"])
    except (BotoCoreError, ClientError, ValueError) as error:
        told = error.response.get("Error", {}) if isinstance(error, ClientError) else {}
        code = told.get("Code", "")
        said = f"{told.get('Message') or 'it says no more'} ({code})" if code else str(error)
        raise UserError(
            f"artifacts: {artifacts} at {endpoint or 'AWS'} cannot be used: {' '.join(said.split())[:300]}."
            f" {S3_HINTS.get(code, S3_HINTS[''])}"
        ) from error


if __name__ == "__main__":
    run_command(main)
