"""A real tracking server with a real PostgreSQL behind it, on loopback, in folders of their own."""

import contextlib
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
from typing import Any

import pytest
import requests
import yaml
from conftest import ENVIRONMENT

PASSWORD = "kept-out-of-every-log"  # noqa: S105
START_S = 90


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
        drop = (
            {"user": self.user, "group": pwd.getpwnam(self.user).pw_gid, "extra_groups": []}
            if os.geteuid() == 0
            else {}
        )
        done = subprocess.run(
            command, cwd=self.folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
            timeout=60, **drop,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout

    def create(self, database: str) -> None:
        self.run("createdb", "--host", "127.0.0.1", "--port", str(self.port), "--username", "mlflow", database)

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder} -c fsync=off"
        self.run(
            "pg_ctl", "-D", str(self.folder / "data"), "-o", options, "-l", str(self.folder / "log"), "-w", "start"
        )

    def stop(self) -> None:
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    """Give a PostgreSQL with the empty database `mlflow`; skip where Debian's is not installed."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs:
        pytest.skip("no PostgreSQL in /usr/lib/postgresql: `apt-get install postgresql` to test a server on it")
    # Not below pytest's own folder, which another user may not enter.
    folder = Path(tempfile.mkdtemp(prefix="envknee-postgres-"))
    database = Postgres(folder, free_port(), programs[-1])
    try:
        (folder / "given").write_text(PASSWORD)
        shutil.chown(folder / "given", database.user)
        data = ["-D", str(folder / "data"), "--username", "mlflow", "--no-sync"]
        database.run("initdb", *data, "--auth", "scram-sha-256", "--pwfile", str(folder / "given"))
        database.passwords.write_text(f"127.0.0.1:{database.port}:*:mlflow:{PASSWORD}\n")
        database.passwords.chmod(0o600)
        database.start()
        try:
            database.create("mlflow")
            yield database
        finally:
            database.stop()
    finally:
        shutil.rmtree(folder)


class Server:
    """`make server`'s process, in a process group of its own."""

    def __init__(self, folder: Path, environment: dict[str, str] | None = None, **settings: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.file = folder / "server.yaml"
        self.log = folder / "server.log"
        self.environment = ENVIRONMENT | (environment or {})
        chosen = {"backend": "sqlite:///mlflow.db", "artifacts": "artifacts", "port": self.port, "workers": 1}
        self.file.write_text(yaml.safe_dump(chosen | settings))

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "envknee.tracking.server", str(self.file)]

    def refused(self) -> str:
        """Return what is said by a server that must not start."""
        done = subprocess.run(
            [*self.command, "--check"], cwd=self.folder, env=self.environment, text=True, capture_output=True, timeout=60,
            check=False,
        )  # fmt: skip
        assert done.returncode == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + START_S
        while self.status("/health") != 200:
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.2)

    def kill(self) -> None:
        """SIGKILL for the server and all its workers."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(timeout=30)

    def status(self, path: str, user: tuple[str, str] | None = None, host: str | None = None) -> int:
        """Return the status of an answer; 0 where there is none."""
        try:
            return requests.get(
                self.uri + path, auth=user, headers={"Host": host} if host else {}, timeout=10
            ).status_code
        except requests.RequestException:
            return 0


def free_port() -> int:
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return as many ports, no two of them the same."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
