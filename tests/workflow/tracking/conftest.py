"""Fixtures of servers that tests of this folder share."""

from collections.abc import Iterator

import pytest
from tracking_server import Postgres, postgres


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    """Return a PostgreSQL of one file's own, whose tests stop it and break its database."""
    with postgres() as database:
        yield database
