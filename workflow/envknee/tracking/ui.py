"""MLflow's web page of a study's store, only for this user on this machine. This process becomes its server."""

import json

from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking import view
from envknee.tracking.mlflow_server import DEFAULT_PORT, LOOPBACK, Server, is_free
from envknee.tracking.store import Store, locate_store

PORTS_TRIED = 50
PRIVATE = ".mlflow-private"
"""Folder beside the store for users and passwords."""


def open_ui(study: Study, folder: StudyFolder, port: int | None) -> None:
    """Become the MLflow server of a study's store, on the loopback interface. For a store on a server, print its address.

    `port` is the user's; None: the first free one from 5000 on.

    Raises:
        UserError: when nothing was published yet, or the port is in use.
    """
    store = locate_store(study, folder)
    if store.artifacts is None:
        print(f"The runs are on a server ({store.source}):\n{_page(store.shown, store, folder)}")
        return
    if store.database is not None and not store.database.exists():
        raise UserError(
            f"{store.database} does not exist: nothing was published yet. Run `make sweep` or `make publish` first."
        )
    private = store.artifacts.parent / PRIVATE
    port = port or next(filter(is_free, range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED)), DEFAULT_PORT)
    server = Server(store, str(store.artifacts), private, LOOPBACK, port, is_quiet=True)
    server.become(
        f"MLflow shows {store.shown} (Ctrl-C ends it)\n{server.how_to_sign_in}\n{_page(server.address, store, folder)}"
    )


def _page(server: str, store: Store, folder: StudyFolder) -> str:
    """Return the address of a study's runs and charts, or of all experiments if the study is not in this store."""
    # Without workflowType, MLflow opens its pages for language models.
    page, query = "experiments", "workflowType=machine_learning"
    if folder.published.exists():
        published = json.loads(folder.published.read_text(encoding="utf-8"))
        if published.get("tracking_uri") == store.shown:
            page += f"/{published.get('experiment_id')}/runs"
            query += f"&{view.address_of(view.KEY)}" if published.get("view") == view.KEY else ""
    return f"{server.rstrip('/')}/#/{page}?{query}"
