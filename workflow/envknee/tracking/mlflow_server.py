"""MLflow's own server, with sign-in. This process becomes `mlflow server`."""

import os
import socket
import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from envknee.study.errors import UserError
from envknee.tracking.database import prepare_database
from envknee.tracking.sign_in import ADMIN, PASSWORD_FILE, sign_in
from envknee.tracking.store import Store

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 5000
LONGEST_START_S = 300


@dataclass(frozen=True)
class Server:
    """Settings of an MLflow server."""

    store: Store
    files: str
    """An absolute path, or s3://BUCKET/PATH."""
    private: Path
    """Folder of users and passwords, mode 0700."""
    host: str
    port: int
    names: Sequence[str] = ()
    """Names by which other machines reach it: mlflow.lab.example:5000."""
    workers: int = 1
    is_quiet: bool = False
    """Whether it prints only warnings, so that our last line stays the last one."""

    @property
    def address(self) -> str:
        """Its address on this machine."""
        host = {"0.0.0.0": LOOPBACK, "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def how_to_sign_in(self) -> str:
        """How to sign in, as a sentence."""
        return f"Sign in as {ADMIN} with the password in {self.private / PASSWORD_FILE}"

    @property
    def command(self) -> list[str]:
        """The command line. It holds no secrets, because everyone on this machine can read it."""
        options = {
            "--host": self.host, "--port": str(self.port), "--workers": str(self.workers), "--app-name": "basic-auth",
            "--artifacts-destination": self.files,
        }  # fmt: skip
        if self.names:
            own = [f"{host}:{self.port}" for host in ("localhost", LOOPBACK)]
            options["--allowed-hosts"] = ",".join([*self.names, *own])
            # Under names other than localhost, MLflow refuses requests of its own page without this.
            options["--cors-allowed-origins"] = ",".join(
                f"{way}://{name}" for name in self.names for way in ("http", "https")
            )
        if self.is_quiet:
            options["--uvicorn-opts"] = "--log-level warning"
        words = [word for option in options.items() for word in option]
        return [sys.executable, "-m", "mlflow", "server", "--serve-artifacts", *words]

    def environment(self) -> dict[str, str]:
        """Return its environment, which alone holds the secrets."""
        # MLflow's variables of the user could open another interface or use another store.
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name.startswith("MLFLOW_S3_") or not name.startswith(("MLFLOW_", "_MLFLOW_"))
        }
        # What MLflow says at its start would hide our own lines.
        quiet = {"MLFLOW_LOGGING_LEVEL": "ERROR", "PYTHONWARNINGS": "ignore"} if self.is_quiet else {}
        package = str(Path(__file__).parents[2])  # for envknee.tracking.guard
        return inherited | quiet | sign_in(self.private) | {
            "MLFLOW_BACKEND_STORE_URI": self.store.uri,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "PYTHONPATH": os.pathsep.join([package, *filter(None, [inherited.get("PYTHONPATH")])]),
            "AWS_MAX_ATTEMPTS": inherited.get("AWS_MAX_ATTEMPTS", "3"),  # boto3's five take longer than a publisher waits
        }  # fmt: skip

    def become(self, announcement: str) -> None:
        """Turn this process into the server. When it answers, print `announcement`.

        Raises:
            UserError: when the port is in use, the database cannot be used, or others can read a secret.
        """
        if not is_free(self.port, self.host):
            raise UserError(
                f"{self.host}:{self.port} cannot be listened on: another program does (perhaps workers of a server that was"
                " killed), or this machine has no such address. Stop it, or name another --port or --host."
            )
        prepare_database(self.store, "mlflow-artifacts:/")
        environment = self.environment()
        if os.fork() == 0:
            announce(self, announcement)
        os.execve(sys.executable, self.command, environment)  # noqa: S606  no shell


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Tell whether this process can listen on a port."""
    try:  # the port of a server that just ended is free
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError:
        return False
    return True


def announce(server: Server, text: str) -> None:
    """Print a text when the server (the parent process) answers, then end this process."""
    process, until = os.getppid(), time.monotonic() + LONGEST_START_S
    while os.getppid() == process and time.monotonic() < until:
        # Another program may have taken the port since it was free: its answer would make a wrong address look right.
        if listens(process, server.port) and _answers(f"{server.address}/health"):
            print(text, flush=True)
            os._exit(0)
        time.sleep(0.3)
    print(
        f"envknee: the server ended, or did not answer within {LONGEST_START_S} s. If another program took port {server.port},"
        " start it again.",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)


def listens(pid: int, port: int) -> bool:
    """Tell whether a process or one below it listens on a port."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        connections = [own for member in family for own in member.net_connections("tcp")]
    except psutil.NoSuchProcess:  # it is just ending
        return False
    return any(own.status == psutil.CONN_LISTEN and own.laddr.port == port for own in connections)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):  # noqa: S310  our own server
            return True
    except OSError:
        return False
