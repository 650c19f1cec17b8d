"""A conftest of tests that run side by side and note when each begins and ends."""

import time
from pathlib import Path

import pytest
import side_by_side


def pytest_configure(config):
    config.pluginmanager.register(side_by_side)
    config.addinivalue_line("markers", "alone: no other test runs meanwhile")


def note(text):
    with Path("notes").open("a") as notes:
        notes.write(text + "\n")


@pytest.fixture(scope="session")
def shared():
    note("made")


@pytest.fixture
def copied(shared):
    pass


@pytest.fixture(autouse=True)
def noted(request):
    note(f"{request.node.name} begins")
    time.sleep(0.2)
    note(f"{request.node.name} ends")
