"""What the launcher decides without starting a simulation: results are taken as they are, and edits are noticed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import count

import pytest
from envknee.machine import control_group, gpus
from envknee.record.read import load_record, load_records
from envknee.record.schema import Lost, Outcome
from envknee.record.trial_files import TrialFiles
from envknee.run import attempts, ends, launch, resources, worker
from envknee.study.errors import EXIT_TO_MEND, UserError
from envknee.study.files import canonical_json, read_model, write_atomically
from envknee.study.paths import StudyFolder, TrialFolder
from places import PROGRAMS
from programs import python
from records import GPU, a_study, a_trial, known, write_study, write_trial


def a_measured_trial(folder: TrialFolder, **changes) -> TrialFolder:
    """Write the files that a trial's process leaves; the record is still to be made."""
    write_trial(folder, a_trial(32, **changes))
    folder.record.unlink()
    return folder


def an_asked_trial(folder: TrialFolder, text: str) -> TrialFolder:
    folder.root.mkdir()
    write_atomically(folder.request, text)
    return folder


def test_a_measured_trial_gets_its_record_without_running_again(tmp_path):
    trial = a_measured_trial(TrialFolder(tmp_path / "0000"), fps=1234.0)
    record = launch.launch(trial)
    assert record.fps_total is not None and record.fps_total.median == pytest.approx(1234.0)
    assert not trial.log.exists()  # no process was started
    assert load_record(trial) == record
    first = trial.record.read_bytes()
    launch.launch(trial)
    assert trial.record.read_bytes() == first


def test_a_refused_trial_gets_a_record_and_no_process(tmp_path):
    request = a_trial(4096).asked(refusal="its rollout takes 116 GB, and the device has 85 GB").request
    trial = an_asked_trial(TrialFolder(tmp_path / "0000"), canonical_json(request))
    record = launch.launch(trial)
    assert record.outcome.status == "refused"
    assert record.outcome.reason == request.refusal
    assert record.outcome.environment is None and record.fps_total is None
    assert not trial.log.exists() and not trial.metrics.exists()
    assert load_record(trial) == record


def test_a_damaged_outcome_of_another_trial_fails_none(tmp_path, capsys):
    folder = StudyFolder(tmp_path)
    write_atomically(folder.study, canonical_json(a_study()))
    records = [launch.launch(a_measured_trial(folder.trial(number), number=number)) for number in range(2)]
    write_atomically(folder.trial(0).outcome, "{")
    launch.say_progress(folder, records[1])
    assert capsys.readouterr().out.startswith("[ 1/15] throughput stock")


def test_a_climb_is_told_the_knee_that_its_first_two_sizes_predict(tmp_path, capsys):
    sizes = {256: 1000.0, 512: 1500.0, 1024: 1800.0}
    trials = [a_trial(size, number=number, fps=fps) for number, (size, fps) in enumerate(sizes.items())]
    climb = {"sampler": "adaptive", "adaptive": {"ascending": True}, "num_envs": {"from": 256, "to": 1024}}
    study = a_study(throughput={"horizon": [8], "batch_size": 128, "repeats": 3} | climb)
    said = []
    for done in range(1, len(trials) + 1):
        folder = write_study(tmp_path / f"{done}", study, trials[:done])
        launch.say_progress(folder, trials[done - 1].record)
        said.append(capsys.readouterr().out)
    assert ["predicted" in line for line in said] == [False, True, False]
    assert "predicted: the knee is near 4,096 (512 to 32,768)" in said[1]
    fixed = write_study(tmp_path / "fixed", a_study(), trials[:2])
    launch.say_progress(fixed, trials[1].record)
    assert "predicted" not in capsys.readouterr().out, "no climb"


def test_a_missing_or_truncated_request_is_an_error(tmp_path):
    trial = TrialFolder(tmp_path / "0000")
    trial.root.mkdir()
    with pytest.raises(UserError, match=r"0000/request\.json does not exist.*Run the sweep again"):
        launch.launch(trial)
    write_atomically(trial.request, canonical_json(a_trial(4).request)[:40])
    with pytest.raises(UserError, match=r"(?s)0000/request\.json is not a whole, valid Request.*Run the sweep again"):
        launch.launch(trial)


def test_a_request_changed_after_the_measurement_is_noticed(tmp_path):
    trial = a_measured_trial(TrialFolder(tmp_path / "0000"))
    edited = json.loads(trial.request.read_text(encoding="utf-8")) | {"num_envs": 64}
    write_atomically(trial.request, canonical_json(edited))
    with pytest.raises(UserError, match=r"holds the measurement of another request.*no other trial is touched"):
        launch.launch(trial)
    assert trial.outcome.exists() and trial.metrics.exists()


CHANGED = "was changed after the measurement"


@pytest.mark.parametrize(
    ("name", "damage", "complaint"),
    [
        ("metrics.jsonl", lambda text: text[: len(text) // 2], CHANGED),
        ("metrics.jsonl", lambda text: text.replace('"warmup":true', '"warmup":false'), CHANGED),
        ("metrics.jsonl", lambda _: None, CHANGED),
        ("record.json", lambda text: text[:100], "is not a whole, valid Record"),
        ("record.json", lambda text: text.replace('"frames": ', '"frames": 9'), "does not follow from the files"),
        ("outcome.json", lambda text: text[:100], "is not a whole, valid Outcome"),
        ("outcome.json", lambda text: text.replace('"status": "ok"', '"status": "oom"'), "does not follow"),
        ("outcome.json", lambda text: text.replace('"status": "ok"', '"status": "fine"'), "valid Outcome"),
    ],
)
def test_truncated_or_edited_files_are_named_with_a_remedy(tmp_path, name, damage, complaint):
    folder = StudyFolder(tmp_path)
    for number in range(2):
        launch.launch(a_measured_trial(folder.trial(number), number=number))
    path = folder.trial(1).root / name
    damaged = damage(path.read_text(encoding="utf-8"))
    if damaged is None:
        path.unlink()
    else:
        path.write_text(damaged, encoding="utf-8")
    with pytest.raises(UserError, match=complaint) as error:
        load_records(folder)
    assert str(folder.trial(1).root) in str(error.value)
    assert "Restore the file" in str(error.value) or "writes it again" in str(error.value)
    assert load_record(folder.trial(0)).request.number == 0  # the other trial is untouched


@pytest.mark.parametrize("name", ["00000", "\uff11", "0000.old"])
def test_a_copy_of_a_trial_is_not_counted(tmp_path, name):
    folder = write_study(tmp_path / "demo", a_study(), [a_trial(16)])
    shutil.copytree(folder.trial(0).root, folder.trials / name)
    assert len(load_records(folder)) == 1


def test_a_trial_from_elsewhere_is_refused(tmp_path):
    folder = write_study(tmp_path / "demo", a_study(), [a_trial(16)])
    trials = [a_trial(16, number=number) for number in (1, 99)]
    other = write_study(tmp_path / "other", a_study(study="other"), [trial.asked(study="other") for trial in trials])
    for number in (1, 99):
        dropped = shutil.copytree(other.trial(number).root, folder.trial(number).root)
        words = rf"holds trial {number} of study 'other', and trial {number} of study 'demo'"
        with pytest.raises(UserError, match=words):
            load_records(folder)
        shutil.rmtree(dropped)
    shutil.copytree(folder.trial(0).root, folder.trial(1).root)
    with pytest.raises(UserError, match=r"0001 holds trial 0 of study 'demo', and trial 1 of"):
        load_records(folder)


def test_rows_and_log_of_an_interrupted_attempt_are_kept(tmp_path):
    trial = TrialFolder(tmp_path)
    for attempt in ("first", "second", "third"):
        trial.log.write_text(f"{attempt} log", encoding="utf-8")
        if attempt != "second":  # it ended before its first row
            trial.metrics.write_text(attempt, encoding="utf-8")
        TrialFiles(trial).set_aside()
    trial.run.mkdir()  # of a command
    TrialFiles(trial).set_aside()
    (tmp_path / "run.interrupted-4").rmdir()
    assert {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()} == {
        "metrics.interrupted-1.jsonl": "first", "trial.interrupted-1.log": "first log",
        "trial.interrupted-2.log": "second log",
        "metrics.interrupted-3.jsonl": "third", "trial.interrupted-3.log": "third log",
    }  # fmt: skip


def test_rows_that_a_power_cut_took_are_noticed(tmp_path):
    trial = a_measured_trial(TrialFolder(tmp_path / "0000"))
    assert attempts.forget_torn(trial) is None
    for left in (b"", b'{"iteration":0,"war', b"\0" * 64):
        trial.metrics.write_bytes(left)
        assert "not whole, as after a power cut" in (attempts.forget_torn(trial) or "")


def test_a_trial_imports_nothing_from_where_results_lie(tmp_path):
    (tmp_path / "extras.py").write_text("print('ran')")
    variables = resources.environment_of(a_trial(16, gpus=0).request)
    for given, ran in ((variables, False), (variables | {"PYTHONSAFEPATH": ""}, True)):
        printed = python("-m", "extras", cwd=tmp_path, env=given)
        assert (printed.stdout == "ran\n") is ran and ("No module named extras" in printed.stderr) is not ran


def test_a_second_signal_leaves_no_process_behind():
    """One that has left its session and its parent, too, and ignores SIGTERM."""
    with subprocess.Popen(
        [sys.executable, PROGRAMS / "end_at_signals.py"], stdout=subprocess.PIPE, text=True
    ) as launcher:
        said = [known(launcher.stdout).readline() for _ in range(3)]  # the processes may be faster than the launcher
        assert sorted(said) == ["started\n", "started\n", "waiting\n"]
        for _ in range(3):
            launcher.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        # Whoever still ran would hold this pipe open.
        assert launcher.communicate(timeout=30)[0] == "ended\n" and launcher.returncode == signal.SIGTERM


def test_a_container_that_the_kernel_killed_for_memory_is_a_result(tmp_path, monkeypatch):
    """It is in a control group of its own: the machine counts the kill, and the launcher's group does not."""
    monkeypatch.setenv(gpus.OTHER_LOCKS, str(tmp_path))
    kills = count()
    said = {"cgroup": "0::/session\n", "memory.events": "oom_kill 0\n"}
    # What is left is vmstat.
    monkeypatch.setattr(control_group, "_read", lambda path: said.get(path.name) or f"oom_kill {next(kills)}\n")
    monkeypatch.setattr(launch, "entrance_for", lambda *_: None)
    monkeypatch.setattr(worker, "command_of", lambda *_, **__: (["bash", "-c", "kill -KILL $$"], dict(os.environ)))
    host, docker = (
        an_asked_trial(TrialFolder(tmp_path / name), canonical_json(a_trial(4, gpus=0).asked(runtime=name).request))
        for name in ("host", "docker")
    )
    with pytest.raises(UserError, match="ended without a result"):
        launch.launch(host)
    assert launch.launch(docker).outcome.status == "oom"


def test_a_launcher_stopped_before_it_wrote_the_cost_loses_no_lost_attempt(tmp_path):
    trial = a_measured_trial(TrialFolder(tmp_path / "0000"), device=GPU)
    running = attempts.Attempts(began_unix_s=1000.0, lost=Lost(attempts=2, held_s=3600.0), lived_s=1800.0)
    write_atomically(trial.attempts, canonical_json(running))
    whole = read_model(trial.outcome, Outcome, "").model_copy(update={"attempt": 3})
    write_atomically(trial.outcome, canonical_json(whole))
    record = launch.launch(trial)
    assert (record.lost_attempts, record.lost_gpu_hours, record.gpu_hours) == (2, 1.0, 0.5)
    assert not trial.attempts.exists() and load_record(trial) == record


def test_a_launcher_stopped_before_it_put_ranks_together_loses_no_measurement(tmp_path):
    """Rank 0 tells how it ended and then exports what it has learned, for seconds."""
    trial = a_measured_trial(TrialFolder(tmp_path / "0000"), device=GPU, gpus=2)
    whole = read_model(trial.outcome, Outcome, "")
    trial.outcome.unlink()
    write_atomically(trial.attempts, canonical_json(attempts.Attempts(began_unix_s=1000.0, lost=Lost())))
    for rank in range(2):
        write_atomically(trial.rank_outcome(rank), canonical_json(whole.model_copy(update={"ranks": None})))
    record = launch.launch(trial)
    assert record.outcome == whole and len(record.outcome.ranks or []) == 2
    assert not trial.log.exists()  # no process was started


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.json"
    write_atomically(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "new \ud800")
    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_files_of_trials_come_in_the_order_of_their_numbers(tmp_path):
    folder = StudyFolder(tmp_path)
    for name in ("9999", "10000", "0002", "0007.old", "00007"):
        (folder.trials / name).mkdir(parents=True)
        (folder.trials / name / "record.json").touch()
    assert [path.parent.name for path in folder.trial_files("record.json")] == ["0002", "9999", "10000"]


@pytest.mark.parametrize(
    ("said", "status", "is_to_mend"),
    [
        ("envknee: no such task", EXIT_TO_MEND, True),
        ("  rank      : 1 (local_rank: 1)\n  exitcode  : 78 (pid: 4711)", 1, True),
        ("srun: error: n1: task 0: Exited with exit code 78", 143, True),
        ("  exitcode  : 1 (pid: 78)", 1, False),
        ("ValueError: 78", 1, False),
    ],
)
def test_an_error_to_mend_is_known_by_its_status_also_among_ranks_and_nodes(tmp_path, said, status, is_to_mend):
    trial = TrialFolder(tmp_path)
    trial.log.write_text(f"{said}\n")
    assert ends.is_to_mend(trial, status) == is_to_mend
