"""`make server`: MLflow with PostgreSQL and with SQLite, what it refuses, and studies that outlive its deaths."""

import contextlib
import json
import os
import random
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from envknee.record.read import read_rows
from envknee.study.errors import UserError, run_command
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.tracking.database import check_database, prepare_database
from envknee.tracking.follow import follow
from envknee.tracking.guard import may_hold_files
from envknee.tracking.live import LivePublisher
from envknee.tracking.mlflow_server import Server as MLflowServer
from envknee.tracking.publish import publish
from envknee.tracking.server import main
from envknee.tracking.sign_in import sign_in
from envknee.tracking.store import Store, locate_store, parse_uri
from forked import in_child
from programs import succeeded, told
from records import CURVE
from tracked import a_folder, a_run, a_running_study, a_study, client_of, history, lines, steps, stored_runs, write
from tracking_server import PASSWORD, Postgres, Server, attack
from waiting import wait_for
from workspaces import Workspace

API = "/api/2.0/mlflow/experiments/get?experiment_id=0"
FILES = "/api/2.0/mlflow-artifacts/artifacts/none"
"""Served by another part of MLflow, which asks for the sign-in in a way of its own."""


@pytest.fixture(scope="module")
def server(database: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on PostgreSQL, on loopback, as a group on one machine would run it."""
    folder = tmp_path_factory.mktemp("server")
    with Server(folder, {"PGPASSFILE": str(database.passwords)}, backend=database.uri()).running() as server:
        yield server
    assert PASSWORD not in server.log.read_text()


def test_server_and_publisher_killed_at_any_time_lose_and_double_nothing(server: Server, tmp_path, monkeypatch) -> None:
    """Rows are written all the while. The server's own API is the witness, after each death and at the end."""
    server.sign_in(monkeypatch)
    study = a_study("killed", uri=server.uri)
    folder = a_running_study(tmp_path / "results" / "killed", study)
    rows, chance, position = lines(CURVE), random.Random(6), 0  # noqa: S311
    child = in_child(follow, study, folder)
    for victim in ("server", "publisher", "server"):
        until = time.monotonic() + chance.uniform(0.5, 3.5)
        while time.monotonic() < until:
            write(folder, rows[position])
            position += 1
            time.sleep(0.5)
        if victim == "server":
            server.kill()
            write(folder, rows[position])
            position += 1
            server.start()
        else:
            child.kill()
            child.join()
            child = in_child(follow, study, folder)
        wait_until_delivered(folder, server, position)
    write(folder, "".join(rows[position:]))
    wait_until_delivered(folder, server, CURVE)
    child.terminate()
    child.join(timeout=300)
    assert child.exitcode == 0
    assert len(stored_runs(folder, server.uri, "killed")) == 2


def wait_until_delivered(folder: StudyFolder, server: Server, count: int) -> None:
    """Wait until the server has `count` rows; none of them twice or left out at any time."""

    def delivered() -> bool:
        logged = steps(folder, uri=server.uri)
        assert logged == list(range(len(logged)))
        return len(logged) == count

    wait_for(delivered)


def test_server_whose_database_is_away_is_told_and_live_curves_wait_for_it(
    server: Server, database: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.sign_in(monkeypatch)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    study = a_study("patient", uri=server.uri)
    folder = a_running_study(tmp_path / "results" / "patient", study)
    publisher = LivePublisher(locate_store(study, folder), study, folder, print)
    write(folder, lines(1)[0])
    publisher.look()
    database.stop()
    try:
        assert server.status(API, server.user) in (500, 503)
        write(folder, lines(2)[1])
        for _ in range(2):
            assert PASSWORD not in told(publisher.look, "cannot be used: ", "The measurements are safe in")
    finally:
        database.start()
    publisher.look()
    assert steps(folder, uri=server.uri) == [0, 1]


def test_sweep_with_a_store_delivers_its_curves_and_hides_its_password(server: Server, a_copy: Workspace, monkeypatch):
    """One trial is measured anew, by Isaac Lab, with a password in the address of its store, and in the environment."""
    server.sign_in(monkeypatch)
    a_copy.environment = dict(os.environ) | a_copy.environment
    folder = a_copy.results()
    newest = sorted(folder.trials.iterdir())[-1]
    shutil.rmtree(newest)
    user, secret = server.user
    result = succeeded(a_copy.sweep(a_copy.study(tracking={"uri": server.uri.replace("//", f"//{user}:{secret}@")})))
    said = (folder.root / "logs/live.log").read_text()
    assert f"live curves of results/tiny go to {server.uri}" in said and "curves wait" not in said
    runs = {run.data.tags["trial"]: run for run in stored_runs(folder, server.uri, "tiny") if "trial" in run.data.tags}
    assert sorted(runs) == [path.name for path in sorted(folder.trials.iterdir())]
    points = history(client_of(folder, server.uri), runs[newest.name], "iteration")
    assert [int(point.value) for point in points] == [row.iteration for row in read_rows(TrialFolder(newest))]
    assert stat.S_IMODE(folder.study.stat().st_mode) == 0o600
    files = {path for path in a_copy.folder.rglob("*") if path.is_file()} - {a_copy.folder / "tiny.yaml", folder.study}
    assert folder.report in files
    leaks = [path for path in files if secret.encode() in path.read_bytes()]
    assert not leaks and secret not in result + server.log.read_text()
    assert secret not in json.dumps([run.to_dictionary() for run in runs.values()])


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"password": "wrong"}, "password authentication failed.*PGPASSFILE"),
        ({"database": "nothing"}, 'database "nothing" does not exist.*createdb'),
    ],
)
@pytest.mark.timeout(300, func_only=True)  # MLflow by itself would try again for an hour
def test_database_that_cannot_be_used_is_told_within_seconds(
    database: Postgres, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], expected: str
) -> None:
    monkeypatch.setenv("PGPASSWORD", changed.get("password", PASSWORD))
    uri = database.uri(changed.get("database", "mlflow"))
    with pytest.raises(UserError, match=expected) as error:
        check_database(backend_at(uri))
    assert not re.search(f"{PASSWORD}|wrong", str(error.value))


def test_database_of_another_schema_is_told_and_not_migrated(server: Server, database: Postgres, monkeypatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    uri = database.uri()
    check_database(backend_at(uri))
    version_row = sql(database, "SELECT version_num FROM alembic_version")
    try:
        sql(database, "UPDATE alembic_version SET version_num = '451aebb31d03'")
        with pytest.raises(UserError, match=r"an earlier MLflow.*backup.*`mlflow db upgrade` with its URI"):
            check_database(backend_at(uri))
        assert sql(database, "SELECT version_num FROM alembic_version") == "451aebb31d03"
        study = a_study("old", uri=database.uri(password=PASSWORD))  # the same without a server between
        folder = a_folder(server.folder / "results" / "old", study, a_run(0, "stock", "ok"))
        assert PASSWORD not in told(lambda: publish(study, folder), "an earlier MLflow")
        sql(database, "UPDATE alembic_version SET version_num = 'fromthefuture'")
        with pytest.raises(UserError, match="a newer MLflow made it"):
            check_database(backend_at(uri))
    finally:
        sql(database, f"UPDATE alembic_version SET version_num = '{version_row}'")  # noqa: S608  a word of Alembic's
    sql(database, "CREATE DATABASE taken")
    sql(database, "CREATE TABLE invoices (id int)", "taken")
    with pytest.raises(UserError, match=r"tables of another program \(invoices"):
        check_database(backend_at(database.uri("taken")))


def test_an_empty_database_is_filled_by_one_of_many_that_start_at_once(
    database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    sql(database, "CREATE DATABASE crowd")
    store = backend_at(database.uri("crowd"))
    assert not check_database(store)
    children = [in_child(prepare_database, store, "mlflow-artifacts:/") for _ in range(3)]
    for child in children:
        child.join(120)
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert check_database(store)


def backend_at(uri: str) -> Store:
    return parse_uri(uri, "backend", Path())


def sql(database: Postgres, statement: str, name: str = "mlflow") -> str:
    command = [database.programs / "psql", "-qtA", "-c", statement, database.uri(name)]
    done = subprocess.run(command, env={"PGPASSWORD": PASSWORD}, text=True, capture_output=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on all addresses of this machine: what others would reach, asked from here."""
    group = Server(tmp_path_factory.mktemp("group"), host="0.0.0.0", name="mlflow.lab.example")  # noqa: S104
    with group.running():
        yield group


def test_everyone_signs_in_with_a_password_that_was_made_up_and_stays_hidden(group: Server) -> None:
    private = group.folder / "tracking/private"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [private, *private.iterdir()]}
    assert set(modes.values()) == {0o600, 0o700}, modes
    assert len(group.user[1]) >= 24
    assert group.status(API) == 401
    assert group.status(API, ("admin", "password1234")) == 401  # the default of MLflow's earlier versions
    assert group.status(API, group.user) == 200
    assert group.status(API, group.user, Host="mlflow.lab.example") == 200
    assert group.status(API, group.user, Host="evil.example") == 403
    # Pages: the server's own, whatever its name, and another one's in the same browser.
    assert group.status(API, group.user, Host="mlflow.lab.example", Origin="http://mlflow.lab.example") == 200
    elsewhere = f"http://127.0.0.1:{group.port + 1}"
    for path in (API, FILES):
        assert group.status(path, group.user, Origin=group.uri) in (200, 404)
        assert group.status(path, group.user, Origin=elsewhere) == 403
    wait_for(lambda: "MLFLOW_TRACKING_URI=http://mlflow.lab.example\n" in group.log.read_text())
    said = group.log.read_text() + Path(f"/proc/{group.process.pid}/cmdline").read_text()
    assert "tracking/private/admin-password" in said and group.user[1] not in said
    assert "cannot be listened on" in group.refused()


def test_another_user_of_the_machine_gets_nothing(group: Server, tmp_path: Path, monkeypatch) -> None:
    group.sign_in(monkeypatch)
    study = a_study("attacked", uri=group.uri)
    folder = a_folder(tmp_path / "results" / "attacked", study, a_run(0, "stock", "ok"))
    publish(study, folder)
    (run, *_) = stored_runs(folder, group.uri, "attacked")
    (secret := tmp_path / "secret").write_text("never shown")
    secret.chmod(0o600)
    assert set(attack(group.uri, run.info.run_id, tmp_path).values()) == {401}
    assert len(stored_runs(folder, group.uri, "attacked")) == 2
    # The same by somebody who may sign in: runs are common, files of the server's user are not.
    answers = attack(group.uri, run.info.run_id, tmp_path, group.user)
    assert {answers.pop(what) for what in list(answers) if what.startswith("name a folder")} == {403}
    assert {answers.pop(what) for what in ("list runs", "delete a run", "write a file")} == {200}
    assert not (tmp_path / "authorized_keys").exists()
    assert len(stored_runs(folder, group.uri, "attacked")) == 1


def test_experiments_that_lie_elsewhere_are_not_served(group: Server, tmp_path: Path) -> None:
    """As an earlier version let people make them: the server's database says so."""
    (tmp_path / "secret").write_text("never shown")
    api, user = f"{group.uri}/api/2.0/mlflow", group.user
    made = requests.post(f"{api}/experiments/create", json={"name": "elsewhere"}, auth=user, timeout=30).json()
    made |= requests.post(f"{api}/runs/create", json=made, auth=user, timeout=30).json()["run"]["info"]
    query = {"path": "secret", "run_uuid": made["run_id"]}
    inside = group.folder / "artifacts" / made["experiment_id"] / made["run_id"] / "artifacts"
    inside.mkdir(parents=True)
    (inside / "secret").write_text("shown")
    answer = requests.get(f"{group.uri}/get-artifact", params=query, auth=user, timeout=30)
    assert (answer.status_code, answer.text) == (200, "shown")
    with contextlib.closing(sqlite3.connect(group.folder / "mlflow.db")) as database, database:
        database.execute("UPDATE runs SET artifact_uri = ? WHERE run_uuid = ?", (str(tmp_path), made["run_id"]))
    answer = requests.get(f"{group.uri}/get-artifact", params=query, auth=user, timeout=30)
    assert answer.status_code == 403 and "never shown" not in answer.text
    upload = f"{group.uri}/ajax-api/2.0/mlflow/upload-artifact"
    written = requests.post(upload, params=query | {"path": "authorized_keys"}, data=b"key", auth=user, timeout=30)
    assert written.status_code == 403 and not (tmp_path / "authorized_keys").exists()


@pytest.mark.parametrize(
    ("location", "files", "allowed"),
    [
        ("/srv/files/1", "/srv/files", True),
        ("file:///srv/files/1/x", "/srv/files", True),
        ("/srv/files/../keys", "/srv/files", False),
        ("file:///srv/files/%2e%2e/keys", "/srv/files", False),
        ("file://elsewhere/etc", "/srv/files", False),
        ("/srv/files #1/x", "/srv/files #1", True),
        ("/srv/files-of-others", "/srv/files", False),
        ("relative", "/srv/files", False),
        ("s3://bucket/x", "/srv/files", False),
        ("mlflow-artifacts:/1/x", "/srv/files", True),
        ("mlflow-artifacts:/../x", "/srv/files", False),
        ("mlflow-artifacts://other-host/x", "/srv/files", False),
        ("s3://runs/of-us/1", "s3://runs/of-us", True),
        ("s3://runs/of-us/../of-them", "s3://runs/of-us", False),
        ("s3://runs/of-us-too", "s3://runs/of-us", False),
        ("/etc", "s3://runs/of-us", False),
    ],
)
def test_files_lie_in_one_place(location: str, files: str, allowed: bool) -> None:
    assert may_hold_files(location, files) == allowed


def test_studies_are_told_to_sign_in(group: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = a_study("guarded", uri=group.uri)
    folder = a_folder(tmp_path / "results" / "guarded", study, a_run(0, "stock", "ok"))
    with pytest.raises(UserError, match="MLFLOW_TRACKING_USERNAME and _PASSWORD"):
        publish(study, folder)
    by_another_name = group.uri.replace("127.0.0.1", "127.0.0.2")  # of this machine, too
    with pytest.raises(UserError, match="(?s)403.*The server refuses this name: start it with --name"):
        publish(a_study("guarded", uri=by_another_name), folder)
    group.sign_in(monkeypatch)
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong-password")
    assert "wrong-password" not in told(lambda: publish(study, folder), "cannot be used")
    group.sign_in(monkeypatch)
    assert publish(study, folder).created == 2
    texts = [run.to_dictionary() for run in stored_runs(folder, group.uri, "guarded")]
    files = [path for path in [*folder.root.rglob("*"), *(group.folder / "artifacts").rglob("*")] if path.is_file()]
    assert group.user[1] not in json.dumps(texts)
    assert not [path for path in files if group.user[1].encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"backend": "postgresql://me:hunter2@127.0.0.1/mlflow"}, "--backend holds a password"),
        ({"backend": "http://127.0.0.1:5000"}, "is a server. Expected sqlite:///FILE or postgresql://"),
        ({"backend": "sqlite:///:memory:"}, "does not name one file"),
        ({"artifacts": "ftp://host/x"}, "Expected a folder or s3://BUCKET/PATH"),
        ({"host": "10.0.0.7"}, "--host 10.0.0.7 is reached by others"),
        ({"host": "0.0.0.0", "name": "*"}, "--name '*' is no host"),  # noqa: S104
        ({"host": "0.0.0.0", "name": "*:5000"}, "--name '*:5000' is no host"),  # noqa: S104
        ({"name": "[a-z]*.example"}, "is no host or HOST:PORT"),
        ({"port": "70000"}, "'70000' is no port"),
    ],
)
def test_bad_options_are_told(tmp_path: Path, monkeypatch, capsys, options: dict[str, str], expected: str) -> None:
    server = Server(tmp_path, None, **options)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", server.command[2:])
    monkeypatch.setattr(MLflowServer, "become", lambda *_: pytest.fail("it would have started"))
    with pytest.raises(SystemExit) as end:
        run_command(main, "envknee server")
    said = capsys.readouterr().err
    assert end.value.code == 2 and expected in said and "hunter2" not in said


def test_secrets_that_others_can_read_are_refused(tmp_path: Path) -> None:
    password = sign_in(tmp_path / "private")["MLFLOW_AUTH_ADMIN_PASSWORD"]
    assert sign_in(tmp_path / "private")["MLFLOW_AUTH_ADMIN_PASSWORD"] == password  # the next start keeps it
    (tmp_path / "private/admin-password").chmod(0o644)
    assert password not in told(lambda: sign_in(tmp_path / "private"), "can be read by others (mode 644,")
