"""`make server`: MLflow with PostgreSQL and with SQLite, what it refuses, and studies that outlive its deaths."""

import contextlib
import json
import random
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ENVIRONMENT, Workspace, wait_for
from envknee.errors import UserError
from envknee.files import StudyFolder, TrialFolder
from envknee.record import read_rows
from envknee.tracking.database import check_database
from envknee.tracking.live import LivePublisher
from envknee.tracking.private import kept_secret, read_environment
from envknee.tracking.publish import publish
from envknee.tracking.server_config import load_server_config
from envknee.tracking.store import locate_store
from forked import follow_in_child
from tracked import (
    LIVE_ROWS,
    a_folder,
    a_running_study,
    a_study,
    client_of,
    finish,
    history,
    lines,
    steps,
    stored_runs,
    write,
)
from tracking_server import PASSWORD, Postgres, Server, free_port, postgres

pytestmark = pytest.mark.workflow

API = "/api/2.0/mlflow/experiments/get?experiment_id=0"


@pytest.fixture(autouse=True)
def _no_store_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLFLOW_TRACKING_URI", "PGPASSFILE", "PGPASSWORD"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as database:
        yield database


@pytest.fixture(scope="module")
def server(database: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on PostgreSQL, on loopback, as a group on one machine would run it."""
    folder = tmp_path_factory.mktemp("server")
    server = Server(folder, {"PGPASSFILE": str(database.passwords)}, backend=database.uri())
    server.start()
    yield server
    server.kill()
    assert PASSWORD not in server.log.read_text()


# On PostgreSQL


def test_server_and_publisher_killed_at_any_time_lose_and_double_nothing(server: Server, tmp_path: Path) -> None:
    """Rows are written all the while. The server's own API is the witness, after each death and at the end."""
    study = a_study("killed", uri=server.uri)
    folder = a_running_study(tmp_path / "results" / "killed", study)
    rows, chance, position = lines(LIVE_ROWS), random.Random(6), 0  # noqa: S311
    child = follow_in_child(folder, study=study)
    for victim in ("server", "publisher", "server"):
        until = time.monotonic() + chance.uniform(0.5, 3.5)
        while time.monotonic() < until:
            write(folder, rows[position])
            position += 1
            time.sleep(0.3)
        if victim == "server":
            server.kill()
            write(folder, rows[position])
            position += 1
            server.start()
        else:
            child.kill()
            child.join()
            child = follow_in_child(folder, study=study)
        wait_until_delivered(folder, server, position)
    write(folder, "".join(rows[position:]))
    wait_until_delivered(folder, server, LIVE_ROWS)
    child.terminate()
    child.join(timeout=30)
    assert child.exitcode == 0
    assert len(stored_runs(folder, server.uri, "killed")) == 2


def wait_until_delivered(folder: StudyFolder, server: Server, count: int) -> None:
    """Wait, no longer than promised, until the server has `count` rows; none of them twice or left out at any time."""

    def delivered() -> bool:
        found = steps(folder, uri=server.uri)
        assert found == list(range(len(found)))
        return len(found) == count

    wait_for(delivered, timeout_s=10)


def test_publishing_through_the_server_brings_files_and_changes_nothing_the_second_time(
    server: Server, tmp_path: Path
) -> None:
    study = a_study("group", uri=server.uri)
    folder = a_folder(tmp_path / "results" / "group", study)
    finish(folder, 0, "stock", "ok")
    assert publish(study, folder).created == 2
    assert publish(study, folder).created == 0
    (trial,) = [run for run in stored_runs(folder, server.uri, "group") if "trial" in run.data.tags]
    kept = list((server.folder / "artifacts").rglob(f"{trial.info.run_id}/artifacts/record.json"))
    assert [path.read_bytes() for path in kept] == [folder.trial(0).record.read_bytes()]
    assert trial.info.artifact_uri.startswith("mlflow-artifacts:")  # clients need no access to the folder


def test_server_whose_database_is_away_is_told_and_live_curves_wait_for_it(
    server: Server, database: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    study = a_study("patient", uri=server.uri)
    folder = a_running_study(tmp_path / "results" / "patient", study)
    publisher = LivePublisher(locate_store(study, folder), study, folder, print)
    write(folder, lines(1)[0])
    publisher.look()
    database.stop()
    try:
        assert server.status(API) in (500, 503)
        write(folder, lines(2)[1])
        for _ in range(2):
            with pytest.raises(UserError, match="(?s)cannot be used: .*The measurements are safe in") as error:
                publisher.look()
            assert PASSWORD not in str(error.value)
    finally:
        database.start()
    publisher.look()
    assert steps(folder, uri=server.uri) == [0, 1]


def test_sweep_with_a_store_delivers_its_curves_and_hides_its_password(server: Server, a_copy: Workspace) -> None:
    """One trial is measured anew, by Isaac Lab, with a password in the address of its store."""
    folder = a_copy.results()
    newest = sorted(folder.trials.iterdir())[-1]
    shutil.rmtree(newest)
    secret = "hunter2-in-the-address"  # noqa: S105
    result = a_copy.sweep(a_copy.study(tracking={"uri": server.uri.replace("//", f"//me:{secret}@")}))
    assert result.returncode == 0, result.stdout
    said = (folder.root / "logs/live.log").read_text()
    assert f"live curves of results/tiny go to {server.uri}" in said and "wait" not in said
    runs = {run.data.tags["trial"]: run for run in stored_runs(folder, server.uri, "tiny") if "trial" in run.data.tags}
    assert sorted(runs) == [path.name for path in sorted(folder.trials.iterdir())]
    points = history(client_of(folder, server.uri), runs[newest.name], "iteration")
    assert [int(point.value) for point in points] == [row.iteration for row in read_rows(TrialFolder(newest))]
    assert stat.S_IMODE(folder.study.stat().st_mode) == 0o600
    files = {path for path in a_copy.folder.rglob("*") if path.is_file()} - {a_copy.folder / "tiny.yaml", folder.study}
    assert folder.report in files
    leaks = [path for path in files if secret.encode() in path.read_bytes()]
    assert not leaks and secret not in result.stdout + server.log.read_text()
    assert secret not in json.dumps([run.to_dictionary() for run in runs.values()])


def test_loopback_is_the_default_and_no_secret_is_in_the_command_line(server: Server) -> None:
    words = Path(f"/proc/{server.process.pid}/cmdline").read_text()
    assert "--host\x00127.0.0.1\x00" in words
    assert PASSWORD not in words + server.file.read_text()
    assert server.status(API) == 200
    assert server.status(API, host="evil.example") == 403


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"password": "wrong"}, "password authentication failed.*PGPASSFILE"),
        ({"database": "nothing"}, 'database "nothing" does not exist.*createdb'),
        ({"port": 1}, "refused.*Start the database server"),
    ],
)
def test_database_that_cannot_be_used_is_told_within_seconds(
    database: Postgres, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], expected: str
) -> None:
    monkeypatch.setenv("PGPASSWORD", changed.get("password", PASSWORD))
    uri = database.uri(changed.get("database", "mlflow"))
    uri = uri.replace(str(database.port), str(changed.get("port", database.port)))
    started = time.monotonic()
    with pytest.raises(UserError, match=expected) as error:
        check_database(uri, uri, "backend")
    assert time.monotonic() - started < 10
    assert not re.search(f"{PASSWORD}|wrong", str(error.value))


def test_database_of_another_schema_is_told_and_not_migrated(
    server: Server, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    uri = database.uri()
    check_database(uri, uri, "backend")
    found = sql(database, "SELECT version_num FROM alembic_version")
    try:
        sql(database, "UPDATE alembic_version SET version_num = '451aebb31d03'")
        with pytest.raises(UserError, match=r"an earlier MLflow.*backup.*`mlflow db upgrade postgresql://mlflow@127"):
            check_database(uri, uri, "backend")
        assert sql(database, "SELECT version_num FROM alembic_version") == "451aebb31d03"
        study = a_study("old", uri=database.uri(password=PASSWORD))  # the same without a server between
        folder = a_folder(server.folder / "results" / "old", study)
        finish(folder, 0, "stock", "ok")
        with pytest.raises(UserError, match="an earlier MLflow") as error:
            publish(study, folder)
        assert PASSWORD not in str(error.value)
        sql(database, "UPDATE alembic_version SET version_num = 'fromthefuture'")
        with pytest.raises(UserError, match="a newer MLflow made it"):
            check_database(uri, uri, "backend")
    finally:
        sql(database, f"UPDATE alembic_version SET version_num = '{found}'")  # noqa: S608  a word of Alembic's
    sql(database, "CREATE DATABASE taken")
    sql(database, "CREATE TABLE invoices (id int)", "taken")
    with pytest.raises(UserError, match=r"tables of another program \(invoices"):
        check_database(database.uri("taken"), "taken", "backend")


def sql(database: Postgres, statement: str, name: str = "mlflow") -> str:
    """Run a statement with PostgreSQL's own client."""
    command = [database.programs / "psql", "-qtA", "-c", statement, database.uri(name)]
    done = subprocess.run(command, env={"PGPASSWORD": PASSWORD}, text=True, capture_output=True, check=True)
    return done.stdout.strip()


# For others


def test_beyond_loopback_everyone_signs_in_with_a_password_that_was_made_up(tmp_path: Path) -> None:
    """The name 0.0.0.0 of this machine: what others would reach, asked from here."""
    server = Server(tmp_path, host="0.0.0.0")  # noqa: S104
    assert "allowed_hosts is empty" in server.refused()
    server = Server(tmp_path, host="0.0.0.0", allowed_hosts=["mlflow.lab.example"])  # noqa: S104
    server.start()
    try:
        secret = tmp_path / "tracking/private/admin-password"
        password = secret.read_text().strip()
        assert len(password) >= 24
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [secret.parent, *secret.parent.iterdir()]}
        assert set(modes.values()) == {0o600, 0o700}, modes
        assert server.status(API) == 401
        assert server.status(API, ("admin", "password1234")) == 401  # the default of MLflow's earlier versions
        assert server.status(API, ("admin", password)) == 200
        assert server.status(API, ("admin", password), host="mlflow.lab.example") == 200
        assert server.status(API, ("admin", password), host="evil.example") == 403
        assert server.status("/api/2.0/mlflow-artifacts/artifacts") == 401
        said = server.log.read_text()
        assert str(secret.relative_to(tmp_path)) in said and password not in said
        assert password not in Path(f"/proc/{server.process.pid}/cmdline").read_text()
        studies_are_told_to_sign_in(server, tmp_path, password)
        assert "cannot be listened on" in server.refused()
    finally:
        server.kill()
    assert kept_secret(secret.parent, secret.name) == password  # the next start keeps it
    secret.chmod(0o644)
    assert "can be read by others (mode 644)" in Server(tmp_path, host="0.0.0.0", allowed_hosts=["a"]).refused()  # noqa: S104


def studies_are_told_to_sign_in(server: Server, tmp_path: Path, password: str) -> None:
    study = a_study("guarded", uri=server.uri)
    folder = a_folder(tmp_path / "results" / "guarded", study)
    finish(folder, 0, "stock", "ok")
    with pytest.MonkeyPatch.context() as patch:
        with pytest.raises(UserError, match="MLFLOW_TRACKING_USERNAME and _PASSWORD"):
            publish(study, folder)
        by_another_name = server.uri.replace("127.0.0.1", "127.0.0.2")  # of this machine, too
        with pytest.raises(UserError, match="(?s)403.*add it to the server's allowed_hosts"):
            publish(a_study("guarded", uri=by_another_name), folder)
        patch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
        patch.setenv("MLFLOW_TRACKING_PASSWORD", "wrong-password")
        with pytest.raises(UserError, match="cannot be used") as error:
            publish(study, folder)
        assert "wrong-password" not in str(error.value)
        patch.setenv("MLFLOW_TRACKING_PASSWORD", password)
        assert publish(study, folder).created == 2
        texts = [run.to_dictionary() for run in stored_runs(folder, server.uri, "guarded")]
    files = [path for path in [*folder.root.rglob("*"), *(tmp_path / "artifacts").rglob("*")] if path.is_file()]
    assert password not in json.dumps(texts)
    assert not [path for path in files if password.encode() in path.read_bytes()]


# What is refused before anything starts


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"backend": "postgresql://me:hunter2@127.0.0.1/mlflow"}, "backend holds a password.*PGPASSFILE"),
        ({"backend": "mysql://me@127.0.0.1/mlflow"}, "'mysql' one. Expected sqlite:///FILE or postgresql://"),
        ({"backend": "postgresql:///mlflow"}, "names no host or no database"),
        ({"backend": "sqlite:///:memory:"}, "does not name one file"),
        ({"artifacts": "ftp://host/x"}, "Expected a folder or s3://BUCKET/PATH"),
        ({"host": "10.0.0.7", "authentication": False, "allowed_hosts": ["a"]}, "authentication is off: anyone"),
        ({"host": "10.0.0.7"}, "allowed_hosts is empty"),
        ({"host": "10.0.0.7", "allowed_hosts": ["*"]}, "'\\*' alone allows all"),
        ({"port": 70000}, "port: expected less than or equal to 65535"),
        ({"artefacts": "x"}, "artefacts: unknown key .did you mean 'artifacts'"),
        ({"environment_file": 3}, "environment_file: expected a valid string"),
    ],
)
def test_bad_settings_are_told(tmp_path: Path, settings: dict[str, Any], expected: str) -> None:
    file = Server(tmp_path, **settings).file
    with pytest.raises(UserError, match=expected) as error:
        load_server_config(file)
    assert "hunter2" not in str(error.value)


def test_the_default_file_is_legal_and_stays_on_this_machine() -> None:
    config = load_server_config(Path(__file__).parents[2] / "config/server.yaml")
    assert config.is_local and not config.needs_sign_in


def test_missing_file_folder_in_the_way_and_taken_port_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="SERVER=config/server.yaml"):
        load_server_config(tmp_path / "none.yaml")
    (tmp_path / "file").touch()
    assert (
        "artifacts: " in (said := Server(tmp_path, artifacts="file/below").refused()) and "cannot be written to" in said
    )
    (tmp_path / "mlflow.db").write_bytes(b"no database, but text that is long enough" * 100)
    assert "Move that file away" in Server(tmp_path).refused()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of its own of 60 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=60M", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only root may mount a small disk")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_full_disk_of_a_server_is_told_and_nothing_is_lost(small_disk: Path, tmp_path: Path) -> None:
    server = Server(small_disk / "server")
    study = a_study("full", uri=server.uri)
    folder = a_folder(tmp_path / "results" / "full", study)
    finish(folder, 0, "stock", "ok")
    server.start()
    try:
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
            while True:
                stream.write(b"\0" * 4096)
        with pytest.raises(UserError, match="(?s)cannot be used: .*its own log says why .*its disk is full"):
            publish(study, folder)
        other = Server(small_disk / "server")
        assert re.search(r"the disk of .* has 0 MB left|No space left on device", other.refused())
        filler.unlink()
        publish(study, folder)
        assert len(stored_runs(folder, server.uri, "full")) == 2
        assert publish(study, folder).created == 0
    finally:
        server.kill()


def test_store_that_speaks_s3_and_is_away_is_told(tmp_path: Path) -> None:
    secret = "never-shown-anywhere"  # noqa: S105
    environment = tmp_path / "environment"
    text = (
        f"AWS_ACCESS_KEY_ID=me\nAWS_SECRET_ACCESS_KEY={secret}\nMLFLOW_S3_ENDPOINT_URL=http://127.0.0.1:{free_port()}\n"
    )
    environment.write_text(text)
    server = Server(tmp_path, artifacts="s3://runs/of-us", environment_file=str(environment))
    assert "can be read by others" in server.refused()
    environment.chmod(0o600)
    said = server.refused()
    assert "artifacts: s3://runs/of-us at http://127.0.0.1" in said and secret not in said
    assert "Expected a store that answers there" in said


def test_environment_file(tmp_path: Path) -> None:
    path = tmp_path / "environment"
    path.write_text("# who we are\n\nPGPASSWORD=a=b\n AWS_REGION = here \n")
    path.chmod(0o600)
    assert read_environment(path) == {"PGPASSWORD": "a=b", "AWS_REGION": "here"}
    path.write_text("hunter2\n")
    with pytest.raises(UserError, match="line 1, is no NAME=VALUE") as error:
        read_environment(path)
    assert "hunter2" not in str(error.value)


# What documents offer


COMPOSE = Path(__file__).parents[2] / "containers/tracking"


def test_compose_file_names_exact_versions_and_publishes_on_loopback_only() -> None:
    services = yaml.safe_load((COMPOSE / "compose.yaml").read_text())["services"]
    base = re.search(r"^FROM (\S+)$", (COMPOSE / "Dockerfile").read_text(), re.MULTILINE)
    assert base is not None
    for image in (services["database"]["image"], base[1]):
        assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?-[a-z-]+", image), image
    assert [port for service in services.values() for port in service.get("ports", [])] == ["127.0.0.1:5000:5000"]
    assert "password" not in json.dumps([service.get("environment") for service in services.values()]).replace(
        "/run/secrets/database-password", ""
    )
    config = load_server_config(COMPOSE / "server.yaml")
    assert config.needs_sign_in and str(config.port) in services["server"]["ports"][0]


def test_image_of_the_server_installs_pins_and_what_its_code_imports() -> None:
    text = (COMPOSE / "Dockerfile").read_text()
    asked = re.search(r"pins\.txt \\\\?\n\s+(mlflow[^\n]+)", text)
    assert asked is not None, text
    pinned = set()
    for lock in ("containers/requirements.lock", "workflow/requirements.lock"):
        pinned |= set(re.findall(r"^([a-z0-9_.-]+)==", (COMPOSE.parents[1] / lock).read_text(), re.MULTILINE))
    assert set(asked[1].split()) <= pinned
    # What the server's module imports, and nothing of the simulation with it.
    code = "import sys; import envknee.tracking.server; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, text=True, capture_output=True, check=True)
    assert not {"torch", "isaaclab", "optuna", "mlflow"} & set(loaded.stdout.split())
