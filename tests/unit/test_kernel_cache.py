"""Of the processes that need the same kernels one compiles: real processes, real locks."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from envknee.run.kernel_cache import OneCompiles, key_of

WORK = """
import sys, time
from pathlib import Path
from envknee.run.kernel_cache import OneCompiles
one = OneCompiles(sys.argv[1], Path(sys.argv[2]))
one.wait()
if not (Path(sys.argv[2]) / f"{sys.argv[1]}.ready").exists():
    print("compiling", flush=True)
    time.sleep(float(sys.argv[3]))
    one.done()
print("ready", flush=True)
"""


def start(key: str, folder: Path, seconds: float) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WORK, key, str(folder), str(seconds)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_one_of_several_processes_compiles_and_the_others_wait(tmp_path):
    processes = [start("key", tmp_path, 1.0) for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0].split() for process in processes]
    assert sorted(map(len, outputs)) == [1, 1, 2]  # one "compiling", three "ready"


def test_other_kernels_wait_for_nobody(tmp_path):
    slow = start("slow", tmp_path, 60.0)
    assert slow.stdout is not None and slow.stdout.readline() == "compiling\n"
    other = start("other", tmp_path, 0.0)
    assert other.communicate(timeout=30)[0].split() == ["compiling", "ready"]
    slow.kill()


def test_a_process_that_dies_leaves_the_work_to_the_next(tmp_path):
    first = start("key", tmp_path, 60.0)
    assert first.stdout is not None and first.stdout.readline() == "compiling\n"
    second = start("key", tmp_path, 0.0)
    assert second.stderr is not None and "waiting" in second.stderr.readline()
    first.kill()
    assert second.communicate(timeout=30)[0].split() == ["compiling", "ready"]


@pytest.mark.alone
def test_once_compiled_nobody_waits(tmp_path):
    first = OneCompiles("key", tmp_path)
    first.wait()
    first.done()
    first.done()
    started = time.monotonic()
    OneCompiles("key", tmp_path).wait()
    assert time.monotonic() - started < 0.1


def test_a_folder_that_cannot_be_made_costs_nothing_but_the_waiting(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    turn = OneCompiles("key", tmp_path / "file" / "below")
    turn.wait()
    turn.done()
    assert "takes no lock" in capsys.readouterr().err


def test_whatever_decides_the_kernels_decides_the_key():
    needed = {"device": "9.0", "task": ["Isaac-Cartpole-Camera-Direct", "local", {}]}
    other = needed | {"task": ["Isaac-Cartpole-Camera", "local", {}]}
    assert key_of(needed) == key_of(dict(reversed(needed.items()))) != key_of(other)
