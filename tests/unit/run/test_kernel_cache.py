"""Of the processes that need the same kernels one compiles: real processes, real locks."""

import os
import subprocess
import sys
from pathlib import Path

from envknee.run.kernel_cache import OneCompiles
from places import PROGRAMS
from programs import ran, succeeded


def start(key: str, folder: Path, seconds: float) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / "compile_kernels.py"), key, str(folder), str(seconds)], text=True,
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


def test_once_compiled_nobody_waits_and_whatever_decides_them_names_other_kernels(tmp_path, capsys):
    needed = {"device": "9.0", "task": ["Isaac-Cartpole-Camera-Direct", "local", {}]}
    first, other = (OneCompiles(needed | more, tmp_path) for more in ({}, {"device": "8.0"}))
    first.wait()
    first.done()
    first.done()
    same = OneCompiles(dict(reversed(needed.items())), tmp_path)
    same.wait()
    assert not same.is_compiling and "waiting" not in capsys.readouterr().err
    other.wait()
    assert other.is_compiling


def test_a_folder_that_cannot_be_made_costs_nothing_but_the_waiting(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    turn = OneCompiles("key", tmp_path / "file" / "below")
    turn.wait()
    turn.done()
    assert "takes no lock" in capsys.readouterr().err


def test_no_headers_are_left_in_tmp_and_warp_compiles_on_without_them(tmp_path):
    """As a trial's process ends: by os._exit, at which Python tidies nothing up."""
    program = PROGRAMS / "compile_twice.py"
    variables = os.environ | {"TMPDIR": str(tmp_path), "WARP_CACHE_PATH": str(tmp_path / "kernels")}
    said = succeeded(ran([sys.executable, program], env=variables))
    folders = [line for line in said.splitlines() if "folder" in line]
    assert folders == ["first: 1 folder, then 0", "second: 1 folder, then 0"]
    assert not list(tmp_path.glob("wp_pch_*"))
