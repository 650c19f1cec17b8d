"""Fixtures of real sweeps in a temporary folder, and how tests run side by side."""

import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import records
import side_by_side
from environment import ENVIRONMENT
from envknee.tracking.client import explaining
from envknee.tracking.database import prepare_database
from envknee.tracking.store import locate_store
from programs import succeeded
from running import kill_trials
from tracked import a_folder, a_study
from workspaces import Workspace

# A shell's background job inherits an ignored SIGINT and would hand it on to the sweeps that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(side_by_side)
    gc.disable()  # what collecting imports stays, and no test need look through it for garbage


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Return an empty workspace; whatever a test left running there is ended."""
    yield Workspace(tmp_path)
    kill_trials(tmp_path)


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return the workspace of one whole tiny sweep. Tests read it; what they change they copy first (see `a_copy`)."""
    workspace = Workspace(tmp_path_factory.mktemp("swept"))
    # As `.venv/bin/snakemake` is typed where no environment is activated.
    workspace.environment = ENVIRONMENT | {"PATH": os.defpath}
    workspace.output = succeeded(workspace.sweep(workspace.study()))  # type: ignore[attr-defined]  # kept for the tests that look at it
    workspace.environment = ENVIRONMENT
    return workspace


@pytest.fixture
def a_copy(swept: Workspace, tmp_path: Path) -> Workspace:
    """Return a copy of the finished sweep that a test may break."""
    # A tracking store knows where it lies, and is made again from the records: it is not copied.
    left_out = shutil.ignore_patterns("mlflow.db*", "mlartifacts")
    shutil.copytree(swept.folder, tmp_path / "copy", symlinks=True, ignore=left_out)
    return Workspace(tmp_path / "copy")


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new SQLite store, made once: that takes a second."""
    folder = a_folder(tmp_path_factory.mktemp("store") / "demo", a_study())
    store = locate_store(a_study(), folder)
    with explaining(store, folder):
        prepare_database(store, str(store.artifacts))
    return records.known(store.database)
