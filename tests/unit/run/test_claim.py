"""One folder, one study, one sweep at a time."""

import errno
import fcntl
import os
import stat
import threading
from pathlib import Path

import pytest
from envknee.run import claim
from envknee.study import space
from envknee.study.continued import continued
from envknee.study.errors import UserError
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from programs import python, told
from records import a_study


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return StudyFolder(tmp_path / "demo")


def with_a_trial(folder: StudyFolder, study: Study | None = None) -> StudyFolder:
    claim.take(study or a_study(), folder).close()
    folder.trial(0).root.mkdir(parents=True)
    folder.trial(0).request.touch()
    return folder


def test_the_study_is_written_and_read_back(folder):
    study = a_study(learning={"num_envs": [8], "horizon": 8, "batch_size": [16], "target_reward": 4, "budget_s": 30})
    with claim.take(study, folder):
        assert read_study(folder.study) == study


def test_results_of_another_study_with_the_same_name_are_refused_with_the_differences(folder):
    with_a_trial(folder)
    other = a_study(seed=2, throughput={"num_envs": [16], "horizon": [8], "batch_size": 128, "repeats": 3})
    sizes = "throughput.num_envs: measured with [16, 32, 64, 128, 256], now [16]"
    told(lambda: claim.take(other, folder), "seed: measured with 1, now 2", sizes, "Change `study:` to a new name")
    assert read_study(folder.study) == a_study()


def test_what_decides_or_tracks_may_change_at_any_time(folder):
    with_a_trial(folder)
    changed = a_study(decide={"delta": 0.2}, tracking={"uri": "http://localhost:5000"}, slots=2)
    with claim.take(changed, folder):
        assert read_study(folder.study) == changed


def test_repeats_are_added_to_a_measured_study_and_never_taken_away(folder):
    with_a_trial(folder)

    def asking(**changes: int):
        return a_study(throughput=a_study().sections["throughput"].model_dump(mode="json") | changes)

    more = asking(more_repeats=2)
    with claim.take(more, folder):
        assert read_study(folder.study) == more
    with pytest.raises(UserError, match=r"throughput\.more_repeats: 1, and this study was measured with 2"):
        claim.check(asking(more_repeats=1), folder)
    with pytest.raises(UserError, match="leave `repeats` as it was, and set `more_repeats`"):
        claim.check(asking(repeats=9, more_repeats=2), folder)


def test_repeats_that_are_added_again_and_again_leave_every_trial_its_number(folder, tmp_path):
    points = {"num_envs": [16, 32], "horizon": 8, "batch_size": 128, "repeats": 2}
    throughput, learning = points | {"block": "all"}, points | {"target_reward": 1.0, "budget_s": 9.0}

    def asking(timed: int, learned: int) -> Study:
        return a_study(throughput=throughput | {"more_repeats": timed}, learning=learning | {"more_repeats": learned})

    with_a_trial(folder, asking(0, 0))
    before = space.plan(asking(0, 0))
    for more in ((0, 1), (1, 1), (2, 1), (2, 3), (4, 3)):
        study = continued(asking(*more), folder)
        claim.take(study, folder).close()
        plan = space.plan(read_study(folder.study))
        assert plan[: len(before)] == before and len(plan) > len(before)
        before = plan
    assert continued(asking(4, 3), folder) == study, "as often as the sweep is started"
    # Whoever asks for all of them at once has no order to keep.
    assert continued(asking(2, 2), StudyFolder(tmp_path / "new")).raised == []


def test_a_folder_without_trials_belongs_to_nobody_yet(folder):
    claim.take(a_study(), folder).close()
    claim.take(a_study(seed=2), folder).close()
    assert read_study(folder.study).seed == 2


def test_a_second_sweep_is_told_who_holds_the_study(folder):
    words = r"already being swept by process \d+ on .*Wait for it"
    with claim.take(a_study(), folder), pytest.raises(UserError, match=words):
        claim.take(a_study(), folder)
    claim.take(a_study(), folder).close()  # free again


def test_a_trial_that_outlived_its_sweep_is_waited_for(folder, capsys):
    stream = with_a_trial(folder).trial(0).lock.open("w")
    fcntl.flock(stream, fcntl.LOCK_EX)
    ended = threading.Timer(0.5, stream.close)
    ended.start()
    claim.wait_for_trials(folder)
    assert stream.closed
    assert "trials/0000: still running under an earlier sweep; waiting for it" in capsys.readouterr().err
    claim.wait_for_trials(folder)
    assert capsys.readouterr().err == ""


def test_a_file_system_without_locks_is_named_with_what_has_them(folder, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))  # Lustre, mounted without -o flock

    monkeypatch.setattr(claim.fcntl, "flock", refuse)
    with pytest.raises(UserError, match=r"demo is on a file system without file locks \(Function not.*-o flock"):
        claim.take(a_study(), folder)


def test_who_may_read_what_follows_the_umask_and_a_password_is_for_its_owner_alone(folder):
    before = os.umask(0o027)
    try:
        claim.take(a_study(), folder).close()
        assert stat.S_IMODE(folder.study.stat().st_mode) == 0o640
        secret = a_study(tracking={"uri": "postgresql://me:hunter2@db/runs"})
        claim.take(secret, folder).close()
        assert stat.S_IMODE(folder.study.stat().st_mode) == 0o600
        folder.study.chmod(0o644)  # as an earlier version left it
        claim.take(secret, folder).close()
        assert stat.S_IMODE(folder.study.stat().st_mode) == 0o600
    finally:
        os.umask(before)


def test_the_lock_does_not_outlive_a_killed_sweep(folder):
    program = (
        "import os, sys; from pathlib import Path; from envknee.run import claim\n"
        "from envknee.study.load import read_study; from envknee.study.paths import StudyFolder\n"
        "folder = StudyFolder(Path(sys.argv[1])); lock = claim.take(read_study(folder.study), folder)\n"
        "os.kill(os.getpid(), 9)"
    )
    claim.take(a_study(), folder).close()
    assert python("-c", program, folder.root).returncode == -9
    claim.take(a_study(), folder).close()


def test_set_up_waits_while_a_sweep_uses_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "PROJECT", tmp_path)
    with claim.environment_kept():
        pass  # no clone
    with (tmp_path / ".venv.lock").open("w") as lock:
        # Two sweeps.
        with claim.environment_kept(), claim.environment_kept(), pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with claim.environment_kept():
            pass  # set-up is at work: nobody waits for it
