"""`make server` with files in an S3-compatible store: a real one, SeaweedFS, whose bucket is looked into beside MLflow."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from envknee.study.paths import StudyFolder
from envknee.tracking.publish import publish
from object_store import BUCKET, ObjectStore, object_store
from tracked import a_folder, a_run, a_study, client_of, downloaded, stored_runs
from tracking_server import Server


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")).running() as store:
        yield store


@pytest.fixture(scope="module")
def server(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with Server(folder, store.variables(folder), artifacts=f"s3://{BUCKET}/of-us").running() as server:
        yield server


def test_files_of_a_study_arrive_in_the_bucket_and_come_back_byte_for_byte(
    server: Server, store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.sign_in(monkeypatch)
    study = a_study("bucket", uri=server.uri)
    trials = a_run(0, "stock", "ok"), a_run(1, "stock", "target_reached", kind="learning")
    folder = a_folder(tmp_path / "results" / "bucket", study, *trials)
    policy = os.urandom(9_000_000)  # more than boto3 sends in one part, and than MLflow takes for a large file here
    monkeypatch.setenv("MLFLOW_MULTIPART_UPLOAD_MINIMUM_FILE_SIZE", "1000000")
    folder.trial(1).policy.write_bytes(policy)
    assert publish(study, folder).created == 3
    assert publish(study, folder).created == 0
    assert "/mpu/" not in server.log.read_text()  # whoever publishes needs no way to the bucket, whatever the size
    inside = store.objects()
    assert policy in inside.values()
    assert not list(server.folder.rglob("record.json"))  # the server keeps no copy
    runs = stored_runs(folder, server.uri, "bucket")
    assert {run.info.artifact_uri.partition(":")[0] for run in runs} == {"mlflow-artifacts"}
    for run in runs:
        if number := run.data.tags.get("trial"):
            of_run, trial = f"of-us/{run.info.experiment_id}/{run.info.run_id}/artifacts", folder.trial(int(number))
            for path in (trial.record, trial.metrics, trial.request):
                assert inside[f"{of_run}/{path.name}"] == path.read_bytes()
            link = f"{server.uri}/get-artifact?path=record.json&run_uuid={run.info.run_id}"  # as MLflow's page has it
            assert requests.get(link, auth=server.user, timeout=30).content == trial.record.read_bytes()
    # From an address that has no way to the bucket, as docs/tracking.md says; then as MLflow does unless told: from the bucket.
    monkeypatch.setenv("MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD", "false")
    assert read_back(server, folder, tmp_path / "through") == inside
    assert "/presigned/" not in server.log.read_text()
    monkeypatch.delenv("MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD")
    assert read_back(server, folder, tmp_path / "beside") == inside
    assert "/presigned/" in server.log.read_text()
    key_appears_nowhere(server, store, folder.root, [run.to_dictionary() for run in runs])


def read_back(server: Server, folder: StudyFolder, where: Path) -> dict[str, bytes]:
    """Return what MLflow gives of a study, by the key that it has in the bucket."""
    client, contents = client_of(folder, server.uri), {}
    for run in stored_runs(folder, server.uri, folder.root.name):
        below = f"of-us/{run.info.experiment_id}/{run.info.run_id}/artifacts"
        files = downloaded(client, run, where / run.info.run_id)
        contents |= {f"{below}/{path}": content for path, content in files.items()}
    return contents


def key_appears_nowhere(server: Server, store: ObjectStore, results: Path, runs: list[dict]) -> None:
    secret = store.secret
    given = server.folder / "credentials"
    assert secret in given.read_text() and stat.S_IMODE(given.stat().st_mode) == 0o600
    files = [path for root in (server.folder, results.parent) for path in root.rglob("*") if path.is_file()]
    assert {server.log, server.folder / "mlflow.db", results / "published.json"} <= set(files)
    assert [path for path in files if secret.encode() in path.read_bytes()] == [given]
    assert secret not in json.dumps(runs) + Path(f"/proc/{server.process.pid}/cmdline").read_text()
    assert not [key for key, content in store.objects().items() if secret.encode() in content + key.encode()]
