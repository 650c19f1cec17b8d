"""How long this process waits for a PostgreSQL or an S3 store that was reached, and then says nothing: a frozen server, a lost network.

Without these limits psycopg2 waits for ever. boto3 waits for three minutes, in which a tracking server runs out of threads.
"""

import select
import time
from typing import Any, cast

POSTGRES_S = 20.0
"""For a connection, or for an answer. MLflow's statements take milliseconds."""

S3_CONNECT_S, S3_ANSWER_S = 5.0, 20.0
"""For a connection, and for an answer, at each of boto3's attempts."""


def limit_postgres() -> None:
    """Let no call of psycopg2 in this process wait longer than `POSTGRES_S`. Without psycopg2 there is nothing to limit.

    Options of a connection would not do: libpq's own timeouts end with the connection's start, and `statement_timeout` needs a server
    that still runs.
    """
    try:
        from psycopg2 import extensions
    except ModuleNotFoundError:
        return
    extensions.set_wait_callback(_wait)


def _wait(connection: Any) -> None:
    """Wait until PostgreSQL has answered. Upstream: psycopg2 2.9, `extensions.set_wait_callback`; an error here closes the connection."""
    from psycopg2 import OperationalError, extensions

    events = {extensions.POLL_READ: select.POLLIN, extensions.POLL_WRITE: select.POLLOUT}
    until = time.monotonic() + POSTGRES_S
    while (state := connection.poll()) != extensions.POLL_OK:
        poll = select.poll()
        poll.register(connection.fileno(), events[state])
        if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
            raise OperationalError(f"PostgreSQL did not answer within {POSTGRES_S:g} s")


def limit_s3() -> None:
    """Let no attempt of boto3's clients that are made from now on wait longer than `S3_CONNECT_S` and `S3_ANSWER_S`.

    MLflow makes its clients itself, and passes no timeout on. Upstream: botocore 1.44, `Config.OPTION_DEFAULTS`.
    """
    try:
        from botocore.config import Config
    except ModuleNotFoundError:
        return
    defaults = cast("dict[str, float]", Config.OPTION_DEFAULTS)
    defaults.update(connect_timeout=S3_CONNECT_S, read_timeout=S3_ANSWER_S)
