"""How a tracking server is to run: one small file, checked before anything starts.

Input: a YAML file such as config/server.yaml. Output: a frozen ServerConfig.
"""

import ipaddress
import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import yaml
from pydantic import Field, ValidationError

from envknee.config import Strict
from envknee.errors import UserError, nearest

BACKENDS = "sqlite:///FILE or postgresql://USER@HOST:PORT/DATABASE"


class ServerConfig(Strict):
    """Everything that `make server` is told; secrets are not in it."""

    backend: str = Field(description=f"Where runs are kept: {BACKENDS}.")
    artifacts: str = Field(description="Where files of runs are kept: a folder, or s3://BUCKET/PATH.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(default=5000, description="Port to listen on.")
    workers: Annotated[int, Field(ge=1)] = Field(default=2, description="Processes that answer requests.")
    allowed_hosts: list[str] = Field(
        default=[], description="Names under which clients reach it, needed beyond loopback: mlflow.lab.example:5000."
    )
    authentication: bool | None = Field(
        default=None, description="Whether clients must sign in; null: beyond loopback only."
    )
    private: str = Field(default="tracking/private", description="Folder (mode 0700) of users and generated passwords.")
    environment_file: str | None = Field(
        default=None, description="File (mode 0600) of NAME=VALUE lines: PGPASSWORD, AWS_SECRET_ACCESS_KEY, ..."
    )

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    @property
    def needs_sign_in(self) -> bool:
        """Whether clients must say who they are."""
        return not self.is_local if self.authentication is None else self.authentication

    @property
    def database(self) -> Path | None:
        """The file of a SQLite backend."""
        return Path(self.backend.removeprefix("sqlite:///")) if self.backend.startswith("sqlite:") else None

    @property
    def bucket(self) -> str | None:
        """The bucket of artifacts in an S3-compatible store."""
        return urlsplit(self.artifacts).netloc if self.artifacts.startswith("s3://") else None


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's own; a name other than localhost counts as open."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def load_server_config(path: Path) -> ServerConfig:
    """Read a server's file.

    Raises:
        UserError: names the file, the key, the value, and what is legal.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(
            f"{path} does not exist. Name a server's file, such as SERVER=config/server.yaml (docs/tracking.md)."
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not YAML: {error}\nconfig/server.yaml shows how it looks.") from error
    try:
        config = ServerConfig.model_validate(data)
    except ValidationError as error:
        problems = "\n".join(f"  {_explain(one)}" for one in error.errors(include_input=False, include_url=False))
        raise UserError(f"{path} is not a legal server:\n{problems}\nconfig/server.yaml explains every key.") from error
    problem = problem_of(config)
    if problem:
        raise UserError(f"{path}: {problem}")
    return config


def problem_of(config: ServerConfig) -> str | None:
    """Return what is wrong with a server's settings taken together, or None. Values that may hold a secret are not repeated."""
    try:
        backend = urlsplit(config.backend)
        password, host = backend.password, backend.hostname
    except ValueError:
        return f"backend is no URI. Expected {BACKENDS}."
    scheme = backend.scheme.partition("+")[0]
    if password or "password" in backend.query:
        return (
            "backend holds a password, which would be read by others in lists of processes and in copies of this file."
            " Leave it out, and write it into the file that PGPASSFILE names, or into environment_file (both mode 0600)."
        )
    if scheme not in ("sqlite", "postgresql"):
        return f"backend is a {scheme or 'plain path'!r} one. Expected {BACKENDS}."
    if scheme == "sqlite" and not re.fullmatch(r"sqlite:///[^?:]+", config.backend):
        return f"backend {config.backend!r} does not name one file. Expected sqlite:///FILE."
    if scheme == "postgresql" and not (host and backend.path.strip("/")):
        return (
            f"backend {config.backend!r} names no host or no database. Expected postgresql://USER@HOST:PORT/DATABASE."
        )
    if "://" in config.artifacts and not config.bucket:
        return f"artifacts {config.artifacts!r} cannot be used. Expected a folder or s3://BUCKET/PATH."
    if not config.is_local and not config.needs_sign_in:
        return (
            f"host {config.host} is reached by others, and authentication is off: anyone there could read, change and"
            " delete all runs. Leave `authentication` out (sign-in is then required), or use host 127.0.0.1."
        )
    if not config.is_local and not config.allowed_hosts:
        return (
            f"host {config.host} is reached by others, and allowed_hosts is empty. List the names that clients use, with the"
            f" port: allowed_hosts: [mlflow.lab.example:{config.port}]. Without them any web page could speak to this server."
        )
    if not all(re.fullmatch(r"[\w.*:\[\]-]*[\w\]][\w.*:\[\]-]*", name) for name in config.allowed_hosts):
        return f"allowed_hosts {config.allowed_hosts} must list names such as mlflow.lab.example:5000; '*' alone allows all."
    return None


def _explain(problem: object) -> str:
    """Turn one of pydantic's errors into a line, without the value: it may be a secret in the wrong place."""
    assert isinstance(problem, dict)
    key = ".".join(str(part) for part in problem["loc"]) or "the file"
    legal = list(ServerConfig.model_fields)
    if problem["type"] == "extra_forbidden":
        return f"{key}: unknown key{nearest(key, legal)}. Legal here: {', '.join(legal)}"
    if problem["type"] == "missing":
        return f"{key}: this key is needed, and is not there"
    if problem["type"] == "model_type":
        return f"expected keys with values: {', '.join(legal)}"
    return f"{key}: {problem['msg'].replace('Input should be', 'expected')}"
