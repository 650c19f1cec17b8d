"""Two ordinary users of one machine take turns on its GPU: each is told of the other, and neither can harm the other's files."""

import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import envknee
import pytest
from envknee.machine import gpus
from records import known

ALICE, BOB = (uid for uid in range(65000, 65002))
"""Two users that need no entry in /etc/passwd, and own nothing."""

MEASURES = """
import sys, time
from envknee.machine import gpus
with gpus.reserved(1, ["GPU-only"]) as taken:
    print(*taken, flush=True)
    time.sleep(float(sys.argv[1]))
"""

CLAIMS = """
import sys
from pathlib import Path
from envknee.run import claim
from envknee.study.errors import run_command
from envknee.study.load import parse_study
from envknee.study.paths import StudyFolder
study = parse_study({"study": "demo", "throughput": {"num_envs": [2], "horizon": 4, "batch_size": 8}})
run_command(lambda: print(claim.take(study, StudyFolder(Path(sys.argv[1]))).name))
"""


BECOMES = """
import os, sys
import envknee.run.claim, envknee.study.load, envknee.machine.gpus
user = int(sys.argv.pop(1))
os.setgroups([]), os.setresgid(user, user, user), os.setresuid(user, user, user)
"""
"""It imports first: another user may be unable to read this Python, or this checkout."""


def run_as(user: int, code: str, *words: object) -> "subprocess.Popen[str]":
    """Run Python as another user of this machine."""
    variables = {
        "PATH": os.defpath,
        "PYTHONPATH": str(Path(envknee.__file__).parents[1]),
        gpus.OTHER_LOCKS: FOLDER.name,
    }
    return subprocess.Popen(
        [sys.executable, "-B", "-c", BECOMES + code, *map(str, (user, *words))], cwd="/",
        env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


class FOLDER:
    """Where both have their locks: like /tmp."""

    name = ""


@pytest.fixture(autouse=True)
def locks() -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root can become two other users")
    with tempfile.TemporaryDirectory(prefix="envknee-two-users-") as folder:
        Path(folder).chmod(0o1777)
        FOLDER.name = folder
        yield Path(folder)


def first_line(process: "subprocess.Popen[str]") -> str:
    return known(process.stdout).readline().strip()


def test_the_second_user_waits_and_is_told_whom_for(locks: Path) -> None:
    alice = run_as(ALICE, MEASURES, 600)
    assert first_line(alice) == "GPU-only"
    bob = run_as(BOB, MEASURES, 0)
    said = known(bob.stderr).readline()
    assert f"GPU-only.lock is held by process {alice.pid} of user {ALICE}" in said, said
    time.sleep(1.0)
    assert bob.poll() is None, "two trials on one GPU"
    alice.kill()
    alice.communicate()
    out, _ = bob.communicate(timeout=30)
    assert (bob.returncode, out.strip()) == (0, "GPU-only")


def test_what_one_user_leaves_serves_the_other_who_cannot_write_it(locks: Path) -> None:
    for user in (ALICE, BOB, 0):  # the file is there from the second on
        done = run_as(user, MEASURES, 0)
        out, said = done.communicate(timeout=30)
        assert (done.returncode, out.strip()) == (0, "GPU-only"), said
    file = (locks / "envknee-GPU-only.lock").stat()
    assert (file.st_uid, stat.S_IMODE(file.st_mode), file.st_size) == (ALICE, 0o444, 0)
    remove = f"import os; os.unlink({str(locks / 'envknee-GPU-only.lock')!r})"
    assert "PermissionError" in run_as(BOB, remove).communicate(timeout=30)[1], "the folder is like /tmp"


def test_a_link_of_one_user_is_not_followed_by_the_other(locks: Path) -> None:
    target = locks / "of-bob"
    plant = f"import os; os.symlink({str(target)!r}, {str(locks / 'envknee-GPU-only.lock')!r})"
    run_as(ALICE, plant).communicate(timeout=30)
    _, said = run_as(BOB, MEASURES, 0).communicate(timeout=30)
    assert f"it belongs to user {ALICE}" in said and "ENVKNEE_LOCKS" in said
    assert not target.exists()


def test_results_of_one_user_are_not_written_by_the_other(locks: Path) -> None:
    mine = locks / "results"
    mine.mkdir(mode=0o755)
    os.chown(mine, ALICE, ALICE)
    first = run_as(ALICE, CLAIMS, mine / "demo")
    assert first.communicate(timeout=60)[0].strip().endswith("demo/.lock")
    before = {path: path.read_bytes() for path in (mine / "demo").iterdir()}
    second = run_as(BOB, CLAIMS, mine / "demo")
    _, said = second.communicate(timeout=60)
    assert second.returncode == 2 and "belongs to another user" in said and "Traceback" not in said, said
    assert {path: path.read_bytes() for path in (mine / "demo").iterdir()} == before
