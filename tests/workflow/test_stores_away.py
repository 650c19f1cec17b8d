"""Stores that refuse, say nothing, or go away in the middle of a sweep and come back: PostgreSQL without a server between, and S3."""

import json
import re
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import psycopg2.extensions
import pytest
from conftest import wait_for
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking import patience
from envknee.tracking.follow import follow
from envknee.tracking.publish import publish
from envknee.tracking.writing import TAG_CONTENT
from forked import in_child
from programs import told
from records import CURVE
from test_server_s3 import BUCKET, KEY, ObjectStore, object_store
from tracked import (
    a_folder,
    a_live_run,
    a_run,
    a_running_study,
    a_study,
    client_of,
    finish,
    lines,
    steps,
    stored_runs,
    write,
)
from tracking_server import PASSWORD, Postgres, Server, postgres

NEXT_STEP = ("The measurements are safe in", "run `make publish` when the store is back")


@pytest.fixture(autouse=True)
def waits_as_before() -> Iterator[None]:
    """Let other tests of this process wait for PostgreSQL as psycopg2 does by itself."""
    yield
    psycopg2.extensions.set_wait_callback(None)


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with postgres() as database:
        yield database


def arrived(study: Study, folder: StudyFolder, uri: str) -> list[str]:
    """Return the trials that the store has whole, once each; none without an experiment."""
    if client_of(folder, uri).get_experiment_by_name(study.study) is None:
        return []
    runs = stored_runs(folder, uri, study.study)
    return sorted(run.data.tags["trial"] for run in runs if "trial" in run.data.tags and TAG_CONTENT in run.data.tags)


def test_a_wrong_password_is_told_and_not_shown(database: Postgres, tmp_path: Path) -> None:
    wrong = secrets.token_urlsafe(12)
    study = a_study("refused", uri=database.uri(password=wrong))
    folder = a_folder(tmp_path / "results" / "refused", study, a_run(0, "stock", "ok"))
    said = told(lambda: publish(study, folder), "password authentication failed", "PGPASSFILE")
    assert wrong not in said and not folder.published.exists()


def test_a_database_that_goes_away_in_a_sweep_gets_all_runs_when_it_is_back(
    database: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The store is stopped, then silent, while trials go on; each time it comes back."""
    monkeypatch.setattr(patience, "MOST_S", 2.0)
    uri = database.uri(password=PASSWORD)
    study = a_study("away", uri=uri)
    folder = a_running_study(tmp_path / "results" / "away", study)
    rows = lines(CURVE)
    # Tables are made by one process: two at once would be in each other's way, and a fork would share its connection.
    first = in_child(lambda: client_of(folder, uri).get_experiment_by_name("away"))
    first.join(timeout=60)
    assert first.exitcode == 0
    child = in_child(follow, study, folder)
    try:
        write(folder, rows[0])
        wait_for(lambda: steps(folder, uri=uri) == [0], 60)
        database.stop()
        write(folder, rows[1])
        finish(folder, 1, "stock", "ok")
        time.sleep(5.0)
        database.start()
        wait_for(lambda: arrived(study, folder, uri) == ["0001"], 60)
        database.send(signal.SIGSTOP)
        finish(folder, 2, "stock", "ok")
        time.sleep(5.0)
        database.send(signal.SIGCONT)
        wait_for(lambda: arrived(study, folder, uri) == ["0001", "0002"], 60)
        assert child.is_alive(), "the publisher outlives its store"
    finally:
        child.terminate()
        child.join(timeout=30)
        child.kill()
    said = capfd.readouterr().out
    assert said.count("curves wait, trials go on") == said.count("the store is back, and has all rows") == 2, said
    assert PASSWORD not in said
    folder.trial(0).metrics.unlink()
    finish(folder, 0, "stock", "target_reached", kind="learning")
    publish(study, folder)
    assert arrived(study, folder, uri) == ["0000", "0001", "0002"]
    assert publish(study, folder).created == 0


def test_a_database_that_says_nothing_is_given_up(
    database: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "MOST_S", 2.0)
    study = a_study("silent", uri=database.uri(password=PASSWORD))
    folder = a_folder(tmp_path / "results" / "silent", study, a_run(0, "stock", "ok"), a_live_run(1))
    began_s = time.monotonic()
    database.send(signal.SIGSTOP)
    try:
        said = told(lambda: publish(study, folder), "it said nothing for 2 s", "look at its machine")
    finally:
        database.send(signal.SIGCONT)
    assert time.monotonic() - began_s < 30 and PASSWORD not in said
    assert publish(study, folder).created == 3


def test_patience_is_longer_than_a_busy_server_needs_and_shorter_than_a_persons() -> None:
    assert 20 <= patience.MOST_S <= 60


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ObjectStore]:
    (tmp_path / "s3").mkdir()
    with object_store(tmp_path / "s3").running() as store:
        yield store


def test_a_bucket_that_refuses_says_nothing_or_is_away_gets_all_files_when_it_is_back(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
    study_file = tmp_path / "results" / "bucket"
    variables = store.variables(tmp_path)
    keys = tmp_path / "credentials"
    right = keys.read_text()
    keys.write_text(right.replace(store.secret, "wrong" + store.secret[5:]))
    with Server(tmp_path / "server", variables, artifacts=f"s3://{BUCKET}").running() as server:
        server.sign_in(monkeypatch)
        study = a_study("bucket", uri=server.uri)
        folder = a_folder(study_file, study, a_run(0, "stock", "ok"))
        said = [told(lambda: publish(study, folder), *NEXT_STEP, "a bucket that is away or refuses the key")]
        server.kill()
        keys.write_text(right)
        server.start()
        store.process.send_signal(signal.SIGSTOP)
        began_s = time.monotonic()
        try:
            said.append(told(lambda: publish(study, folder), *NEXT_STEP))
        finally:
            store.process.send_signal(signal.SIGCONT)
        assert time.monotonic() - began_s < 30
        store.kill()
        said.append(told(lambda: publish(study, folder), *NEXT_STEP))
        assert arrived(study, folder, server.uri) == [], "a run counts as whole only with its files"
        store.start()
        publish(study, folder)
        assert arrived(study, folder, server.uri) == ["0000"]
        assert any(content == folder.trial(0).record.read_bytes() for content in store.objects().values())
    assert not re.search(f"{store.secret}|{KEY}=", json.dumps(said) + server.log.read_text())
