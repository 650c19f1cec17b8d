"""A real tracking server with a real PostgreSQL behind it, on loopback, in folders of their own."""

import contextlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
import requests
from environment import ENVIRONMENT
from needs import need, postgresql
from programs import ran, refused, succeeded
from records import known

PASSWORD = "kept-out-of-every-log"  # noqa: S105
START_S = 400


class Postgres:
    """Debian's PostgreSQL with one user, who signs in with a password."""

    def __init__(self, folder: Path, port: int, programs: Path) -> None:
        self.folder = folder
        self.port = port
        self.programs = programs
        # PostgreSQL refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:
            shutil.chown(folder, self.user)
        self.passwords = folder / "passwords"

    def uri(self, database: str = "mlflow", password: str | None = None) -> str:
        secret = "" if password is None else f":{password}"
        return f"postgresql://mlflow{secret}@127.0.0.1:{self.port}/{database}"

    def run(self, program: str, *arguments: str) -> None:
        command = [str(self.programs / program), *arguments]
        environment = {"PATH": os.environ["PATH"], "PGPASSWORD": PASSWORD, "LC_ALL": "C.UTF-8"}
        own = {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}
        drop = own if os.geteuid() == 0 else {}
        succeeded(ran(command, cwd=self.folder, env=environment, timeout=60, stderr=subprocess.STDOUT, **drop))

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        where = ["-D", str(self.folder / "data"), "-l", str(self.folder / "log")]
        self.run("pg_ctl", *where, "-o", options, "-w", "start")

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """Give a PostgreSQL with the empty database `mlflow`; skip where Debian's is not installed."""
    need("postgresql")
    # Not below pytest's own folder, which another user may not enter.
    folder = Path(tempfile.mkdtemp(prefix="envknee-postgres-"))
    database = Postgres(folder, free_port(), known(postgresql()))
    try:
        (folder / "given").write_text(PASSWORD)
        shutil.chown(folder / "given", database.user)
        data = ["-D", str(folder / "data"), "--username", "mlflow", "--no-sync"]
        database.run("initdb", *data, "--auth", "scram-sha-256", "--pwfile", str(folder / "given"))
        database.passwords.write_text(f"127.0.0.1:{database.port}:*:mlflow:{PASSWORD}\n")
        database.passwords.chmod(0o600)
        database.start()
        try:
            database.run(
                "createdb", "--host", "127.0.0.1", "--port", str(database.port), "--username", "mlflow", "mlflow"
            )
            yield database
        finally:
            database.stop()
    finally:
        shutil.rmtree(folder)


class Daemon:
    """A program in a process group of its own, whose output goes to a log."""

    command: list[str]

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.environment, self.log = folder, environment, folder / "server.log"

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_S
        while not self.answers():
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def kill(self) -> None:
        """SIGKILL for it and all its workers."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        try:
            self.start()
            yield self
        finally:
            self.kill()


class Server(Daemon):
    """`make server`'s process. Options are those of its command line."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None, **options: str) -> None:
        super().__init__(folder, ENVIRONMENT | (environment or {}))
        self.port = free_port()
        chosen = {"backend": "sqlite:///mlflow.db", "artifacts": "artifacts", "port": str(self.port)}
        words = [word for name, value in (chosen | options).items() for word in (f"--{name}", value)]
        self.command = [sys.executable, "-m", "envknee.tracking.server", *words]

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def user(self) -> tuple[str, str]:
        """The first user, with the password that was made up for him."""
        return "admin", (self.folder / "tracking/private/admin-password").read_text().strip()

    def sign_in(self, patch: pytest.MonkeyPatch) -> None:
        for name, value in zip(("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"), self.user, strict=True):
            patch.setenv(name, value)

    def refused(self) -> str:
        return refused(ran(self.command, cwd=self.folder, env=self.environment, timeout=60), status=2)

    def answers(self) -> bool:
        return self.status("/health") == 200

    def status(self, path: str, user: tuple[str, str] | None = None, **headers: str) -> int:
        """Return the status of an answer; 0 where there is none."""
        try:
            return requests.get(self.uri + path, auth=user, headers=headers, timeout=10).status_code
        except requests.RequestException:
            return 0


def attack(uri: str, run_id: str, folder: Path, user: tuple[str, str] | None = None) -> dict[str, int]:
    """Do to an MLflow server what another user of its machine could; return the answers by what was tried.

    Args:
        uri: of the server
        run_id: a run in it
        folder: of the server's own user: `secret` in it is read, `authorized_keys` written
        user: who signs in, if anybody
    """
    api, pages = f"{uri}/api/2.0/mlflow", f"{uri}/ajax-api/2.0/mlflow"
    name = f"attack-{time.monotonic_ns()}"
    inside = json.dumps({"name": name, "artifact_location": str(folder)})
    body = ["-H", "Content-Type: application/json", "-X", "POST", "-d"]
    tried = {
        "list runs": [f"{api}/runs/search", *body, '{"experiment_ids": ["0"]}'],
        "read files of a run": [f"{uri}/get-artifact?path=record.json&run_uuid={run_id}"],
        "read a file through the proxy": [f"{uri}/api/2.0/mlflow-artifacts/artifacts?path=../{folder.name}"],
        "name a folder": [f"{api}/experiments/create", *body, inside],
        "name a folder in camel case": [f"{api}/experiments/create", *body, inside.replace("_location", "Location")],
        "name a folder as a page does": [f"{pages}/experiments/create", *body, inside],
        "write a file": [f"{pages}/upload-artifact?run_uuid={run_id}&path=authorized_keys", *body, "key"],
        "start an assistant": [f"{uri}/ajax-api/3.0/mlflow/assistant/config"],
        "delete a run": [f"{api}/runs/delete", *body, json.dumps({"run_id": run_id})],
    }
    return {what: _curl(words, user) for what, words in tried.items()}


def _curl(words: list[str], user: tuple[str, str] | None) -> int:
    """Return the status of the answer to another user of this machine, where this one may become one."""
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    sign_in = ["--user", ":".join(user)] if user else []
    command = [*other, "curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", *sign_in, *words]
    return int(subprocess.run(command, text=True, capture_output=True, check=True, timeout=60, cwd="/").stdout)


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return as many ports, no two of them the same."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
