"""Ends of processes: nothing that took the PID of an ended one is hit, and nothing that one started is left."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from envknee.machine import lock, processes
from places import PROGRAMS
from programs import a_program

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


def started(command: list[str], **options: object) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, start_new_session=True, **options)  # type: ignore[call-overload]


def until(is_so: object, most_s: float = 20.0) -> None:
    give_up_s = time.monotonic() + most_s
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < give_up_s, "waited in vain"
        time.sleep(0.05)


@pytest.mark.parametrize(("ends", "status"), [("exit 3", 3), ("kill -TERM $$", -signal.SIGTERM)])
def test_an_ended_process_keeps_its_pid_until_all_of_it_was_ended(ends: str, status: int):
    ended = started(["bash", "-c", ends])
    until(lambda: processes.exit_status(ended) is not None)
    assert processes.exit_status(ended) == status and ended.returncode is None
    assert psutil.Process(ended.pid).status() == psutil.STATUS_ZOMBIE, "no other process gets this PID"
    processes.end_all(ended, 1.0)
    assert ended.returncode == status and processes.exit_status(ended) == status
    assert not psutil.pid_exists(ended.pid)


def test_a_process_with_the_pid_of_an_ended_one_is_not_hit():
    """It has that number as its group, too, and a child: what a reused PID looks like."""
    innocent = started(["bash", "-c", "sleep 60 & wait"])
    until(lambda: psutil.Process(innocent.pid).children())
    ended = started(["true"])
    ended.wait()
    ended.pid = innocent.pid
    processes.end_all(ended, 0.0)
    time.sleep(0.2)
    assert innocent.poll() is None and psutil.Process(innocent.pid).children()
    processes.end_all(innocent, 0.0)


def test_a_group_that_an_ended_process_left_is_ended(tmp_path: Path):
    ended = started(["bash", "-c", f"sleep 60 & echo $! > {tmp_path}/left; exit 0"])
    until(lambda: processes.exit_status(ended) == 0)
    left = int((tmp_path / "left").read_text())
    processes.end_all(ended, 1.0)
    until(lambda: is_gone(left))


def kept(command: list[str], **options: object) -> "subprocess.Popen[bytes]":
    return started([*processes.kept(Path("/there/is/none")), *command], **options)


@pytest.mark.parametrize(("ends", "status"), [("exit 3", 3), ("kill -KILL $$", -9), ("kill -TERM $$", -15)])
def test_a_keeper_ends_as_its_command_does(ends: str, status: int):
    assert kept(["bash", "-c", ends]).wait(30) == status


def test_a_keeper_that_cannot_start_its_command_says_so():
    keeper = kept(["/there/is/none"], stderr=subprocess.PIPE)
    assert b"envknee: /there/is/none cannot be run: No such file" in keeper.communicate(timeout=30)[1]
    assert keeper.returncode == 127


def test_a_command_below_a_keeper_has_usual_signals_and_no_lock(tmp_path: Path):
    """Python ignores SIGPIPE, the keeper blocks signals, and a lock must not outlive the keeper."""
    looks = "import os; print(open('/proc/self/status').read(), sorted(os.listdir('/proc/self/fd')))"
    with lock.locked(tmp_path / "lock"):
        keeper = kept(["cat", "/proc/self/status"], stdout=subprocess.PIPE, pass_fds=lock.held())
        status = dict(line.split(":\t") for line in keeper.communicate(timeout=30)[0].decode().splitlines())
        assert int(status["SigBlk"], 16) == 0 and int(status["SigIgn"], 16) & 1 << (signal.SIGPIPE - 1) == 0
        keeper = kept([sys.executable, "-c", looks], stdout=subprocess.PIPE, pass_fds=lock.held())
        assert b"['0', '1', '2', '3']" in keeper.communicate(timeout=30)[0], "3 is the folder that it lists"


@pytest.mark.parametrize("ends", ["the command", "the keeper's parent"])
def test_a_keeper_leaves_nothing_and_keeps_a_lock_until_then(ends: str, tmp_path: Path):
    """A daemon in a session of its own, a child that ignores SIGTERM, and a stopped one; 40 generations deep."""
    a_program(tmp_path, "deep", f"exec {sys.executable} {PROGRAMS / 'generations.py'} {tmp_path / 'pids'}")
    a_program(tmp_path, "command", f"{tmp_path}/deep & (setsid sleep 600 &) ; sleep 600 & kill -STOP $! ; read line")
    folder = tmp_path / "meeting"
    (folder / "kernels").mkdir(parents=True)
    parent = [
        sys.executable,
        str(PROGRAMS / "keep_locked.py"),
        str(tmp_path / "lock"),
        str(folder),
        str(tmp_path / "command"),
    ]
    reads, writes = os.pipe()
    with subprocess.Popen(parent, stdin=reads, stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        keeper = psutil.Process(int(launcher.stdout.readline()))
        pids = tmp_path / "pids"
        until(lambda: pids.exists() and pids.read_text().count("\n") == 41)
        below = keeper.children(recursive=True)
        assert len(below) >= 44
        if ends == "the command":
            os.write(writes, b"end\n")
        else:
            keeper.suspend()
            launcher.kill()
            launcher.wait()
            with pytest.raises(BlockingIOError):
                is_free(tmp_path / "lock")
            keeper.resume()
        until(lambda: all(is_gone(process.pid) for process in [keeper, *below]))
        launcher.wait()
        is_free(tmp_path / "lock")
    assert folder.exists() is (ends == "the command"), "its parent removes it, or is no more"
    os.close(reads)
    os.close(writes)


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended; whoever is its parent now may not have waited for it."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def is_free(path: Path) -> None:
    """Raise a BlockingIOError if another process holds a lock."""
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("how", ["KILL", "TERM", "USR1"])
def test_a_command_gets_its_signal_at_its_parents_end_without_setpriv(how: str, tmp_path: Path):
    a_program(tmp_path, "command", f"trap 'echo TERM > {tmp_path}/said; exit' TERM; trap 'echo USR1 > {tmp_path}/said; exit' USR1\n"
              f"echo $$ > {tmp_path}/pid; while :; do sleep 0.1; done")  # fmt: skip
    parent = (
        "import subprocess; from envknee.machine import processes;"
        f"subprocess.Popen([*processes.dying_with_parent({how!r}), {str(tmp_path / 'command')!r}]).wait()"
    )
    assert not [word for word in processes.dying_with_parent() if "setpriv" in word]
    launcher = subprocess.Popen([sys.executable, "-c", parent])
    pid = tmp_path / "pid"
    until(lambda: pid.exists() and pid.read_text())
    launcher.kill()
    launcher.wait()
    until(lambda: is_gone(int(pid.read_text())))
    said = tmp_path / "said"
    assert (said.read_text().strip() if said.exists() else "KILL") == how
