"""How long a PostgreSQL server may say nothing: MLflow would wait for it without end.

libpq's own `connect_timeout` ends with the connection, and its keep-alives are answered by the kernel of a server whose processes are
stopped. So psycopg2 is given the function that waits for the server, as its documentation says ("Support for coroutine libraries").
"""

import select
from importlib.util import find_spec
from typing import Any

MOST_S = 30.0
"""Longer without a byte, the server counts as away."""


def limit_waiting() -> None:
    """Let every connection of this process to PostgreSQL fail that hears nothing for `MOST_S`; without psycopg2, do nothing."""
    if find_spec("psycopg2") is None:
        return
    from psycopg2.extensions import set_wait_callback

    set_wait_callback(lambda connection: _wait(connection, MOST_S))


def _wait(connection: Any, most_s: float) -> None:
    """Wait until psycopg2 has its answer.

    Raises:
        OperationalError: when nothing came for `most_s`. The connection is closed then, and its pool takes another one.
    """
    from psycopg2 import OperationalError
    from psycopg2.extensions import POLL_OK, POLL_READ

    while (state := connection.poll()) != POLL_OK:
        ready = select.poll()  # select() takes no descriptor from 1,024 on
        ready.register(connection.fileno(), select.POLLIN if state == POLL_READ else select.POLLOUT)
        if not ready.poll(most_s * 1000.0):
            connection.close()
            raise OperationalError(f"could not receive data from server: it said nothing for {most_s:g} s")
