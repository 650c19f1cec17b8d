"""Live curves: a trial's rows are in the store while it runs, each once, whatever is killed and whenever."""

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking.follow import follow
from envknee.tracking.follow import start as start_publisher
from envknee.tracking.live import LivePublisher
from envknee.tracking.publish import publish
from envknee.tracking.store import locate_store
from envknee.tracking.writing import TAG_CONTENT, TAG_PARENT
from forked import in_child
from records import CURVE
from tracked import (
    a_folder,
    a_live_run,
    a_running_study,
    a_study,
    client_of,
    contents,
    finish,
    lines,
    start,
    steps,
    stored_parent,
    stored_runs,
    stored_trial,
    write,
)
from waiting import wait_for


@pytest.fixture
def folder(tmp_path: Path, empty_store: Path) -> StudyFolder:
    """A study whose first trial was asked for and says where it runs; it beside a store without runs."""
    folder = a_running_study(tmp_path / "results" / "demo")
    shutil.copy(empty_store, folder.root.parent / "mlflow.db")
    return folder


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory, empty_store: Path) -> list[Any]:
    """What a store holds of the same trial, published once when all is over."""
    other = a_folder(tmp_path_factory.mktemp("reference") / "demo", a_study(), a_live_run())
    shutil.copy(empty_store, other.root.parent / "mlflow.db")
    publish(a_study(), other)
    return without_start(contents(other))


def live(folder: StudyFolder, study: Study | None = None) -> LivePublisher:
    study = study or a_study()
    return LivePublisher(locate_store(study, folder), study, folder, print)


def without_start(metrics: list[Any]) -> list[Any]:
    """Leave out when the runs of trials and arms began: of live ones that is as seen from outside."""
    return [(key, (info[0], info[1], info[3]), *rest) for key, info, *rest in metrics]


def test_rows_are_delivered_as_they_come_and_half_a_line_waits(folder: StudyFolder) -> None:
    publisher, rows = live(folder), lines(4)
    publisher.look()
    assert stored_runs(folder) == []  # nothing was measured yet
    write(folder, rows[0] + rows[1][:20])
    publisher.look()
    assert steps(folder) == [0]
    write(folder, rows[1][20:] + rows[2] + rows[3])
    publisher.look()
    publisher.look()
    run = stored_trial(folder, "0000")
    assert steps(folder) == steps(folder, "losses/value") == [0, 1, 2, 3]
    assert (run.info.status, run.data.tags["status"], run.data.tags["device"]) == (
        "RUNNING",
        "running",
        "NVIDIA H100 80GB HBM3",
    )
    assert run.info.run_name == "stock · 2,048 × 32 × 4,096 · seed 0"
    assert run.data.params["num_envs"] == "2048"
    parent = stored_parent(folder, "stock")
    assert run.data.tags[TAG_PARENT] == parent.info.run_id
    assert parent.info.status == "RUNNING"


def test_live_run_becomes_the_finished_one_with_the_content_that_publishing_alone_gives(
    folder: StudyFolder, reference: list[Any]
) -> None:
    publisher = live(folder)
    for text in ("".join(lines(3)), "".join(lines(CURVE)[3:])):
        write(folder, text)
        publisher.look()
    running, arm = stored_trial(folder, "0000"), stored_parent(folder, "stock")
    folder.trial(0).metrics.unlink()
    finish_trial_0(folder)
    publisher.look()
    finished = stored_trial(folder, "0000")
    assert (finished.info.run_id, finished.info.status) == (running.info.run_id, "FINISHED")
    assert TAG_CONTENT in finished.data.tags
    assert publish(a_study(), folder).created == 1  # the arm, of which no one knew that it had ended
    assert stored_parent(folder, "stock").info.run_id == arm.info.run_id
    assert publish(a_study(), folder).created == 0
    assert without_start(contents(folder)) == reference


def finish_trial_0(folder: StudyFolder) -> None:
    finish(folder, 0, "stock", "target_reached", kind="learning")


def test_publishing_meanwhile_leaves_running_trials_alone(folder: StudyFolder) -> None:
    publisher = live(folder)
    write(folder, lines(1)[0])
    finish(folder, 1, "stock", "ok")
    publisher.look()
    publish(a_study(), folder)
    assert steps(folder) == [0]
    write(folder, lines(2)[1])
    publisher.look()
    assert steps(folder) == [0, 1]


def test_a_trial_that_is_run_again_gets_a_run_of_its_own(folder: StudyFolder) -> None:
    publisher, trial = live(folder), folder.trial(0)
    write(folder, "".join(lines(3)))
    publisher.look()
    first = stored_trial(folder, "0000").info.run_id
    trial.metrics.rename(trial.root / "metrics.interrupted-1.jsonl")
    write(folder, lines(1)[0].replace('"wall_s":2.0', '"wall_s":2.5'))
    publisher.look()
    assert stored_trial(folder, "0000").info.run_id != first
    assert steps(folder) == [0]


def test_sweep_that_ends_early_leaves_no_run_that_seems_to_go_on(folder: StudyFolder) -> None:
    publisher = live(folder)
    write(folder, lines(1)[0])
    publisher.look()
    publisher.stop()
    assert stored_trial(folder, "0000").info.status == "KILLED"
    again = live(folder)  # another sweep goes on, its trial still running
    write(folder, lines(2)[1])
    again.look()
    assert stored_trial(folder, "0000").info.status == "RUNNING"
    assert steps(folder) == [0, 1]


def test_what_live_publishing_cannot_read_is_told_once_and_the_others_go_on(folder: StudyFolder, capsys) -> None:
    start(folder, 1)
    publisher = live(folder)
    write(folder, lines(1)[0].replace('"iteration"', '"invented_later":1,"iteration"'))  # by a newer version
    write(folder, lines(1, 1)[0], 1)
    publisher.look()
    publisher.look()
    said = capsys.readouterr().out
    assert said.count("trials/0000 has no more live curves: 1 validation error for Row\ninvented_later") == 1
    assert steps(folder, trial="0001") == [0]


def test_run_that_a_person_deleted_stays_deleted_until_the_end(folder: StudyFolder, capsys) -> None:
    publisher = live(folder)
    write(folder, lines(1)[0])
    publisher.look()
    client_of(folder).delete_run(stored_trial(folder, "0000").info.run_id)
    write(folder, lines(2)[1])
    publisher.look()
    assert "trials/0000 has no more live curves: " in capsys.readouterr().out
    finish_trial_0(folder)
    publish(a_study(), folder)
    assert stored_trial(folder, "0000").info.status == "FINISHED"


STARTING = ("create_run:1", "create_run:2", "log_batch:2", "log_batch:3")
COMPLETING = ("log_batch:1", "log_batch:2", "log_artifact:2", "set_tag:1", "set_terminated:1")


@pytest.mark.parametrize(
    ("call", "begun"), [*((call, False) for call in STARTING), *((call, True) for call in COMPLETING)]
)
def test_publisher_killed_while_it_starts_or_completes_a_run_loses_and_doubles_nothing(
    folder: StudyFolder, reference: list[Any], call: str, begun: bool
) -> None:
    write(folder, "".join(lines(2)))
    if begun:
        live(folder).look()
        finish_trial_0(folder)
    child = in_child(follow, a_study(), folder, killed_after=call)
    child.join(timeout=300)
    assert child.exitcode == -signal.SIGKILL
    live(folder).look()
    if not begun:
        assert steps(folder) == [0, 1]
        finish_trial_0(folder)
        live(folder).look()
    assert publish(a_study(), folder).created == 1
    assert without_start(contents(folder)) == reference


def test_delivery_that_breaks_off_within_a_row_goes_on_with_that_row(folder: StudyFolder, monkeypatch) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    calls, log_batch, losses = [], SqlAlchemyStore.log_batch, {f"part{number}": 0.5 for number in range(600)}

    def breaking(*arguments: Any, **keywords: Any) -> None:
        calls.append(arguments)
        if len(calls) == 4:  # after the arm, the trial, and a call that ends within the second row
            raise OSError("the store is away")
        log_batch(*arguments, **keywords)

    monkeypatch.setattr(SqlAlchemyStore, "log_batch", breaking)
    rows = [row.model_copy(update={"losses": losses}) for row in a_live_run().rows[:3]]
    write(folder, "".join(row.model_dump_json() + "\n" for row in rows))
    with pytest.raises(UserError, match="the store is away"):
        live(folder).look()
    assert (steps(folder, "iteration"), steps(folder, "losses/part0")) == ([0], [0, 1])
    live(folder).look()
    assert steps(folder, "iteration") == steps(folder, "losses/part599") == [0, 1, 2]


def test_publisher_killed_at_any_time_loses_and_doubles_nothing(folder: StudyFolder) -> None:
    """Rows are written all the while; the store itself is the witness, after each death and at the end."""
    rows, chance = lines(CURVE), random.Random(6)  # noqa: S311
    position = 0
    for _ in range(5):
        child = in_child(follow, a_study(), folder)
        until = time.monotonic() + chance.uniform(0.2, 1.2)
        while time.monotonic() < until and position < CURVE:
            write(folder, rows[position])
            position += 1
            time.sleep(0.04)
        child.kill()
        child.join()
        logged = steps(folder)
        assert logged == list(range(len(logged)))
    write(folder, "".join(rows[position:]))
    live(folder).look()
    assert steps(folder) == steps(folder, "losses/value") == list(range(CURVE))
    assert len(stored_runs(folder)) == 2


def test_second_publisher_waits_for_the_end_of_the_first(folder: StudyFolder, capfd) -> None:
    write(folder, lines(1)[0])
    first = in_child(follow, a_study(), folder)
    wait_for(lambda: steps(folder) == [0])
    second = in_child(follow, a_study(), folder)
    said: list[str] = []

    def waits() -> bool:
        said.extend(capfd.readouterr())
        return "Another process holds" in "".join(said)

    wait_for(waits)
    first.kill()
    first.join()
    write(folder, lines(2)[1])
    wait_for(lambda: steps(folder) == [0, 1])
    second.terminate()
    second.join(timeout=300)
    assert second.exitcode == 0


def test_publisher_ends_with_the_sweep_that_started_it_and_is_not_there_without_a_store(
    folder: StudyFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert start_publisher(a_study(), folder) is None
    study = a_study(uri=f"sqlite:///{folder.root.parent}/mlflow.db")
    folder.study.write_text(canonical_json(study))
    write(folder, lines(1)[0])

    def sweep() -> None:
        publisher = start_publisher(study, folder)
        assert publisher is not None
        publisher.wait(300)

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    killed = in_child(sweep)
    wait_for(lambda: steps(folder) == [0])
    killed.kill()
    killed.join()
    wait_for(lambda: stored_trial(folder, "0000").info.status == "KILLED")
