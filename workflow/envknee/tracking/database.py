"""The database of a tracking store: a missing SQLite file is made, any other database is checked. Nothing is migrated."""

from importlib.util import find_spec
from pathlib import Path

from envknee.study.errors import UserError
from envknee.study.lock import locked
from envknee.tracking.store import Store

CONNECT_TIMEOUT_S = 5


def prepare_database(store: Store, default_files: str) -> None:
    """Make sure that the database of a store can be used. A new SQLite file is made by one process, whole or not at all.

    MLflow's own creation fails when several processes start it at once, and leaves half a database when killed. In a new file,
    `default_files` is the folder for files of MLflow's experiment "Default". Raises as `check_database`.
    """
    database = store.database
    if database is None:
        check_database(store)
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    with locked(database.with_name(f"{database.name}.lock")):
        if database.exists() and database.stat().st_size:
            check_database(store)
            return
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        unfinished = database.with_name(f".{database.name}.new")
        unfinished.unlink(missing_ok=True)
        SqlAlchemyStore(f"sqlite:///{unfinished}", default_files).engine.dispose()
        unfinished.replace(database)


def check_database(store: Store) -> None:
    """Make sure that the database answers, and is empty or has the tables of the installed MLflow.

    MLflow itself would try for minutes to reach a database that does not answer, and would migrate an old one unasked.

    Raises:
        UserError: when it cannot be reached, refuses the user, or has another schema.
    """
    import sqlalchemy
    from alembic.migration import MigrationContext
    from sqlalchemy.exc import SQLAlchemyError

    named = f"{store.shown} ({store.source})"
    timeout = {"connect_timeout": CONNECT_TIMEOUT_S} if store.uri.startswith("postgresql") else {}
    try:
        engine = sqlalchemy.create_engine(store.uri, connect_args=timeout, poolclass=sqlalchemy.NullPool)
        with engine.connect() as connection:
            tables = sqlalchemy.inspect(connection).get_table_names()
            revisions = MigrationContext.configure(connection).get_current_heads()
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        raise UserError(f"{named} cannot be used as MLflow's database: {_why(error)}") from error
    if all(table.startswith("alembic_") for table in tables):
        return
    if not revisions or "experiments" not in tables:
        raise UserError(
            f"{named} holds tables of another program ({', '.join(sorted(tables)[:3])}, ...), and an empty database or one of"
            " MLflow's was expected. Create one for MLflow alone, such as `createdb mlflow`, and name that."
        )
    known = _revisions()
    if revisions[0] == known[0]:
        return
    if revisions[0] in known:
        raise UserError(
            f"{named} has the schema of an earlier MLflow ({revisions[0]}; this one's is {known[0]}). Nothing was changed."
            f" Stop what else uses it, make a backup, then run `mlflow db upgrade` with its URI, user included, and start again."
        )
    raise UserError(
        f"{named} has a schema that the installed MLflow does not know ({revisions[0]}; it knows up to {known[0]}): a newer"
        " MLflow made it. Nothing was changed. Use that version of MLflow, or name another database."
    )


def _why(error: Exception) -> str:
    """Return the error and the next step, without the URI."""
    said = " ".join(str(getattr(error, "orig", None) or error).split())
    hints = {
        "password": "Write the user's password into the file that PGPASSFILE names (HOST:PORT:DATABASE:USER:PASSWORD, mode"
        " 0600), or into the environment file.",
        "does not exist": "Create it: `createuser USER`, then `createdb --owner USER DATABASE`.",
        "no module": "This kind of database needs its driver: install it beside MLflow.",
        "not a database": "Move that file away: envknee's runs are made again from the results.",
    }
    usual = "Start that database server, or correct its URI."
    hint = next((hint for word, hint in hints.items() if word in said.lower()), usual)
    return f"{said[:300]}. {hint}"


def _revisions() -> list[str]:
    """Return the installed MLflow's schemas, the newest first."""
    from alembic.script import ScriptDirectory

    mlflow = find_spec("mlflow")  # importing MLflow would take seconds
    assert mlflow is not None and mlflow.origin is not None, "it is in the lock file"
    scripts = ScriptDirectory(str(Path(mlflow.origin).parent / "store" / "db_migrations"))
    return [script.revision for script in scripts.walk_revisions()]
