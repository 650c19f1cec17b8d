"""PostgreSQL and S3 stores that are silent, go away, come back, or refuse a password: told in bounded time, and nothing is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from environment import ENVIRONMENT
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking import patience
from envknee.tracking.live import LivePublisher
from envknee.tracking.publish import publish
from envknee.tracking.store import locate_store
from frail import Network, State
from object_store import BUCKET, ObjectStore, object_store
from programs import told
from records import CURVE
from tracked import a_folder, a_run, a_running_study, a_study, finish, lines, steps, stored_runs, write
from tracking_server import PASSWORD, Postgres, Server
from waiting import wait_for
from workspaces import Workspace

OTHER = "not-the-key-of-it"
SAFE = "The measurements are safe in"


@pytest.fixture(scope="module")
def network(database: Postgres) -> Iterator[Network]:
    with Network(database.port).running() as network:
        yield network


def uri_through(network: Network, password: str = PASSWORD) -> str:
    return f"postgresql://mlflow:{password}@127.0.0.1:{network.port}/mlflow"


@pytest.mark.timeout(600, func_only=True)  # MLflow by itself would try again for an hour
@pytest.mark.parametrize("state", ["silent", "gone"])
def test_database_that_goes_away_in_a_sweep_is_told_in_time_and_has_every_row_once_it_is_back(
    network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: State
) -> None:
    monkeypatch.setattr(patience, "POSTGRES_S", 2.0)
    study = a_study(f"away-{state}", uri=uri_through(network))
    folder = a_running_study(tmp_path / "results" / study.study, study)
    publisher = LivePublisher(locate_store(study, folder), study, folder, print)
    rows = lines(CURVE)
    write(folder, "".join(rows[:3]))
    publisher.look()
    network.state = state
    try:
        for row in rows[3:5]:
            write(folder, row)  # the trial goes on
            said = told(publisher.look, "cannot be used", SAFE)
            assert PASSWORD not in said
            assert ("did not answer within 2 s" in said) == (state == "silent")
        write(folder, "".join(rows[5:7]))
    finally:
        network.state = "open"
    publisher.look()
    assert steps(folder, uri=study.tracking.uri) == list(range(7))
    write(folder, "".join(rows[7:]))
    finish(folder, 0, "stock", "target_reached", kind="learning")
    assert publish(study, folder).runs == len(stored_runs(folder, study.tracking.uri, study.study)) == 2
    assert publish(study, folder).created == 0
    assert steps(folder, uri=study.tracking.uri) == list(range(CURVE))


def test_sweep_whose_database_goes_away_midway_ends_well_and_has_every_run(
    network: Network, workspace: Workspace
) -> None:
    workspace.environment = ENVIRONMENT | {"PGPASSWORD": PASSWORD}
    uri = f"postgresql://mlflow@127.0.0.1:{network.port}/mlflow"
    sizes = {"num_envs": [4], "horizon": 4, "batch_size": 16, "repeats": 3, "iterations": 2}
    study = workspace.study(study="cut", learning=None, throughput=sizes, tracking={"uri": uri})
    folder = workspace.prepared("cut")
    sweep = workspace.start(study)
    try:
        wait_for(folder.trial(0).record.exists)
        network.state = "silent"
        wait_for(folder.trial(2).outcome.exists)  # the trials go on
    finally:
        network.state = "open"
        said, _ = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, said
    assert PASSWORD not in said
    runs = [run for run in stored_runs(folder, uri_through(network), "cut") if "trial" in run.data.tags]
    assert sorted(run.data.tags["trial"] for run in runs) == ["0000", "0001", "0002"]


def test_wrong_password_of_a_database_is_told_without_it_and_the_right_one_publishes_all(
    network: Network, tmp_path: Path
) -> None:
    wrong, right = (a_study("guessed", uri=uri_through(network, password)) for password in ("hunter2", PASSWORD))
    folder = a_running_study(tmp_path / "results" / "guessed", wrong)
    publisher = LivePublisher(locate_store(wrong, folder), wrong, folder, print)
    write(folder, "".join(lines(2)))
    finish(folder, 1, "stock", "ok")
    for act in (publisher.look, lambda: publish(wrong, folder)):
        said = told(act, "password authentication failed", "PGPASSFILE", SAFE)
        assert "hunter2" not in said
    assert publish(right, folder).created == 2


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("store")).running() as store:
        yield store


def server_on(store: ObjectStore, network: Network, folder: Path, secret: str | None = None) -> Server:
    """Return a server whose bucket lies behind `network`; `secret`: a key that the store does not know."""
    folder.mkdir()
    variables = store.variables(folder) | {"MLFLOW_S3_ENDPOINT_URL": f"http://127.0.0.1:{network.port}"}
    if secret is not None:
        path = Path(variables["AWS_SHARED_CREDENTIALS_FILE"])
        path.write_text(path.read_text().replace(store.secret, secret))
    return Server(folder, variables, artifacts=f"s3://{BUCKET}/of-us")


@pytest.mark.timeout(600, func_only=True)
def test_bucket_that_is_away_is_told_in_time_and_has_every_file_once_it_is_back(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Network(store.ports["s3.port"]).running() as network,
        server_on(store, network, tmp_path / "server").running() as server,
    ):
        server.sign_in(monkeypatch)
        study = a_study("bucket-away", uri=server.uri)
        folder = a_folder(tmp_path / "results" / study.study, study, a_run(0, "stock", "ok"))
        publish(study, folder)
        for number, state in enumerate(("silent", "gone"), 1):
            finish(folder, number, "stock", "ok")
            network.state = state
            with monkeypatch.context() as impatient:
                impatient.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "3")
                impatient.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # uvicorn closes idle connections
                for _ in range(2):
                    said = told(lambda: publish(study, folder), "cannot be used: ", SAFE)
                    assert not [s for s in (store.secret, server.user[1]) if s in said]
            # Nobody waits for the bucket's sake: the server goes on with what needs no files.
            assert len(stored_runs(folder, server.uri, study.study)) >= 2
            network.state = "open"
            wait_for(lambda: published(study, folder))
            assert publish(study, folder).created == 0
            runs = {
                run.data.tags["trial"]: run
                for run in stored_runs(folder, server.uri, study.study)
                if "trial" in run.data.tags
            }
            assert sorted(runs) == [f"{other:04d}" for other in range(number + 1)]
            inside = store.objects()
            for name, run in runs.items():
                of_run = f"of-us/{run.info.experiment_id}/{run.info.run_id}/artifacts"
                trial = folder.trial(int(name))
                assert inside[f"{of_run}/record.json"] == trial.record.read_bytes()
        assert store.secret not in server.log.read_text()


def published(study: Study, folder: StudyFolder) -> bool:
    try:
        publish(study, folder)
    except UserError:
        return False
    return True


def test_wrong_key_of_a_bucket_is_told_without_it(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        Network(store.ports["s3.port"]).running() as network,
        server_on(store, network, tmp_path / "server", secret=OTHER).running() as server,
    ):
        server.sign_in(monkeypatch)
        study = a_study("key", uri=server.uri)
        folder = a_folder(tmp_path / "results" / "key", study, a_run(0, "stock", "ok"))
        said = told(lambda: publish(study, folder), "a bucket that is away or refuses the key", SAFE)
        assert OTHER not in said + server.log.read_text()
        assert "SignatureDoesNotMatch" in server.log.read_text() or "AccessDenied" in server.log.read_text()
