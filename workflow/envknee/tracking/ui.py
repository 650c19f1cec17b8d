"""MLflow's web page of a study's store, on this machine only.

Input: a study with a store. Output: this process becomes the server.
"""

import json
import os
import socket
import sys

from envknee.config import Study
from envknee.errors import UserError
from envknee.files import StudyFolder
from envknee.tracking import view
from envknee.tracking.store import Store, locate_store

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 5000
PORTS_TRIED = 50


def open_ui(study: Study, folder: StudyFolder, port: int | None) -> None:
    """Become the MLflow server of a study's store, on the loopback interface; a store on a server is only named.

    Raises:
        UserError: when nothing was published yet, or the port is taken.
    """
    store = locate_store(study, folder)
    if store.is_server:
        print(f"The runs are on {_page(store.shown, store, folder)} ({store.source})")
        return
    if store.database is not None and not store.database.exists():
        raise UserError(
            f"{store.database} does not exist: nothing was published yet. Run `make sweep` or `make publish` first."
        )
    port = choose_port(port)
    address = _page(f"http://{LOOPBACK}:{port}", store, folder)
    print(f"MLflow shows {store.shown} on {address} (Ctrl-C ends it)", flush=True)
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", LOOPBACK, "--port", str(port), "--workers", "1",
        "--default-artifact-root", str(store.artifacts), "--artifacts-destination", str(store.artifacts),
    ]  # fmt: skip
    # Options from the environment could open another interface. The URI goes there for its password's sake.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MLFLOW_UVICORN_OPTS", "MLFLOW_GUNICORN_OPTS")
    }
    environment |= {
        "MLFLOW_BACKEND_STORE_URI": store.uri, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }  # fmt: skip
    os.execve(sys.executable, command, environment)  # noqa: S606  no shell


def _page(server: str, store: Store, folder: StudyFolder) -> str:
    """Return the address of a study's runs and charts, or of all experiments while this store has none."""
    # Without this MLflow greets with its pages for language models.
    page, query = "experiments", "workflowType=machine_learning"
    if folder.published.exists():
        published = json.loads(folder.published.read_text(encoding="utf-8"))
        if published.get("tracking_uri") == store.shown:
            page += f"/{published.get('experiment_id')}/runs"
            query += f"&{view.ADDRESS}" if published.get("view") == view.KEY else ""
    return f"{server.rstrip('/')}/#/{page}?{query}"


def choose_port(port: int | None) -> int:
    """Return the port asked for, or else the first free one from 5000 on.

    Raises:
        UserError: when it is taken.
    """
    candidates = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED) if port is None else [port]
    for candidate in candidates:
        if is_free(candidate):
            return candidate
    raise UserError(
        f"--port {port}: something else listens there already. Name another port, or none to get the next free one"
        if port is not None
        else f"No port from {DEFAULT_PORT} to {DEFAULT_PORT + PORTS_TRIED - 1} is free. Name a free one with --port N"
    )


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """Return whether this process could listen on a port."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that just ended is no obstacle
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
