"""The database of a tracking store: a new one is filled, any other is checked. Nothing is migrated."""

import re
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from envknee.machine.lock import locked
from envknee.study.errors import UserError
from envknee.tracking import patience
from envknee.tracking.store import Store

if TYPE_CHECKING:
    import sqlalchemy


class UnusableError(UserError):
    """A database that cannot be reached, or refuses the user."""


NEXT_STEPS = {
    "password authentication|no password": "Write the user's password into the file that PGPASSFILE names"
    " (HOST:PORT:DATABASE:USER:PASSWORD, mode 0600), or into the environment file.",
    r"(database|role) \S+ does not exist": "Create it: `createuser USER`, then `createdb --owner USER DATABASE`.",
    "No module": "This kind of database needs its driver: install it beside MLflow.",
    "not a database": "Move that file away: envknee's runs are made again from the results.",
    "did not answer within": "It was reached and is silent: see whether it is frozen or overloaded, or the network drops packets.",
    "Invalid Host header": "The server refuses this name: start it with --name, or use one of its names.",
    r"\b40[13]\b": "If it needs a login, set MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN.",
    r"\b50[03]\b|Connection reset|RemoteDisconnected": "The server failed: its own log says why (for example, no database, a full disk, or"
    " a bucket that is away or refuses the key).",
    "": "A running MLflow store that takes runs was expected: start it, or correct its URI.",
}
"""What helps, by words of an error: the first that fit."""


ONE_AT_A_TIME = 2_048_071
"""Key of PostgreSQL's advisory lock around the creation of tables. Any number would do: other programs have other databases."""

LONGEST_WAIT_S = 120.0
"""For another process that creates the tables. That takes about ten seconds."""


def prepare_database(store: Store, default_files: str) -> None:
    """Make sure that the database of a store can be used. A new one is filled by one process; a new SQLite file whole or not at all.

    MLflow's own creation fails when several processes start it at once, and leaves half a database when killed. In a new database,
    `default_files` is the folder for files of MLflow's experiment "Default". Raises as `check_database`.
    """
    if (database := store.database) is not None:
        database.parent.mkdir(parents=True, exist_ok=True)
        with locked(database.with_name(f"{database.name}.lock")):
            if not database.exists() or not database.stat().st_size:
                from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

                unfinished = database.with_name(f".{database.name}.new")
                unfinished.unlink(missing_ok=True)
                SqlAlchemyStore(f"sqlite:///{unfinished}", default_files).engine.dispose()
                unfinished.replace(database)
    if not check_database(store):
        _fill(store, default_files)


def _fill(store: Store, default_files: str) -> None:
    """Create MLflow's tables in an empty database, while no other process does."""
    import sqlalchemy
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    engine = sqlalchemy.create_engine(store.uri, poolclass=sqlalchemy.NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:  # PostgreSQL's lock ends with it
        _lock_postgres(connection, "pg_try_advisory_lock")
        SqlAlchemyStore(store.uri, default_files).engine.dispose()


def _lock_postgres(connection: "sqlalchemy.Connection", function: str) -> None:
    """Take PostgreSQL's lock on MLflow's tables by one of its functions; after LONGEST_WAIT_S go on without. Nothing for SQLite."""
    import sqlalchemy

    if connection.dialect.name != "postgresql":
        return
    taken = sqlalchemy.select(getattr(sqlalchemy.func, function)(ONE_AT_A_TIME))
    until = time.monotonic() + LONGEST_WAIT_S
    while not connection.execute(taken).scalar() and time.monotonic() < until:
        time.sleep(0.2)


def check_database(store: Store) -> bool:
    """Make sure that the database answers, and is empty or has the tables of the installed MLflow. Return whether it has tables.

    MLflow itself would try for minutes to reach a database that does not answer, and would migrate an old one unasked. From this check
    on, no call to PostgreSQL waits without end (`patience`).

    Raises:
        UserError: when it cannot be reached, refuses the user, or has another schema.
    """
    import sqlalchemy
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory
    from sqlalchemy.exc import SQLAlchemyError

    named = f"{store.shown} ({store.source})"
    patience.limit_postgres()
    try:
        engine = sqlalchemy.create_engine(store.uri, poolclass=sqlalchemy.NullPool)
        with engine.connect() as connection:
            # While another process creates MLflow's tables, they would pass for another program's.
            _lock_postgres(connection, "pg_try_advisory_lock_shared")
            tables = sqlalchemy.inspect(connection).get_table_names()
            revisions = MigrationContext.configure(connection).get_current_heads()
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        message = " ".join(str(getattr(error, "orig", None) or error).split())  # without the URI
        raise UnusableError(
            f"{named} cannot be used as MLflow's database: {message[:300]}. {next_step(message)}"
        ) from error
    if all(table.startswith("alembic_") for table in tables):
        return False
    if not revisions or "experiments" not in tables:
        raise UserError(
            f"{named} holds tables of another program ({', '.join(sorted(tables)[:3])}, ...), and an empty database or one of"
            " MLflow's was expected. Create one for MLflow alone, such as `createdb mlflow`, and name that."
        )
    mlflow = find_spec("mlflow")  # importing MLflow would take seconds
    assert mlflow is not None and mlflow.origin is not None, "it is in the lock file"
    newest = ScriptDirectory(str(Path(mlflow.origin).parent / "store" / "db_migrations")).get_current_head()
    if revisions[0] != newest:
        raise UserError(
            f"{named} has the schema of another MLflow ({revisions[0]}; this one's is {newest}). Nothing was changed. If an earlier MLflow"
            " made it, stop what else uses it, make a backup, then run `mlflow db upgrade` with its URI, user included, and start again."
            " If a newer MLflow made it, use that version, or name another database."
        )
    return True


def next_step(message: str) -> str:
    """Return what helps against an error of MLflow, of its database or of its server."""
    return next(step for words, step in NEXT_STEPS.items() if re.search(words, message))
