"""Two ordinary users of one machine with one GPU, whose stand-in is its lock: they take turns, and neither can harm the other's."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from environment import ENVIRONMENT
from envknee.machine import gpus
from programs import refused, succeeded
from records import known

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two ordinary users")

ALICE, BOB = 64_101, 64_102

BECOME = """
import os, sys, time
from pathlib import Path
from envknee.machine import gpus
from envknee.run import claim
from envknee.slurm import job_logs
from envknee.study.errors import run_command
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
os.setgroups([]), os.setgid(int(sys.argv[1])), os.setuid(int(sys.argv[1])), os.umask(0o077)
"""
"""Imports come first: an ordinary user may not reach where this checkout lies."""

MEASURE = """
def main():
    with gpus.reserved(1, ["GPU-a"]):
        print("measures", flush=True)
        sys.stdin.read()
run_command(main)
"""

LOCK = "envknee-GPU-a.lock"


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder like /tmp, which all may write to, and where nobody removes another one's files."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o1777)
        yield Path(name)


class User:
    """Runs Python code as an ordinary user."""

    def __init__(self, number: int, locks: Path) -> None:
        self.number, self.environment = number, ENVIRONMENT | {gpus.OTHER_LOCKS: str(locks)}

    def begin(self, code: str) -> "subprocess.Popen[str]":
        command, pipe = [sys.executable, "-c", BECOME + code, str(self.number)], subprocess.PIPE
        return subprocess.Popen(command, env=self.environment, text=True, stdin=pipe, stdout=pipe, stderr=pipe)

    def run(self, code: str) -> "subprocess.CompletedProcess[str]":
        process = self.begin(code)
        output, errors = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def first_line(process: "subprocess.Popen[str]") -> str:
    return known(process.stdout).readline()


def test_two_users_take_turns_and_the_one_who_waits_is_told_for_whom(shared: Path) -> None:
    alice, bob = (User(number, shared) for number in (ALICE, BOB))
    with alice.begin(MEASURE) as first:
        assert first_line(first) == "measures\n"
        status = (shared / LOCK).stat()
        assert (status.st_uid, stat.S_IMODE(status.st_mode)) == (ALICE, 0o444)
        with bob.begin(MEASURE) as second:
            said = known(second.stderr).readline()
            assert f"{shared / LOCK}: process {first.pid} of user {ALICE}" in said and "waiting for 1 of 1" in said
            assert second.poll() is None
            first.communicate(timeout=30)
            assert first_line(second) == "measures\n"  # with Alice's file, which Bob can only read
            # It is Bob's turn, whoever made the file: Alice waits for him.
            with alice.begin(MEASURE) as third:
                assert f"process {second.pid} of user {BOB}" in known(third.stderr).readline()
                second.kill()  # a lock ends with its process
                assert first_line(third) == "measures\n"
                third.communicate(timeout=30)


def test_neither_removes_writes_or_redirects_the_others_lock(shared: Path) -> None:
    alice, bob = (User(number, shared) for number in (ALICE, BOB))
    with alice.begin(MEASURE) as first:
        assert first_line(first) == "measures\n"
        for act in (f"Path({LOCK!r}).unlink()", f"Path({LOCK!r}).write_text('x')", f"Path({LOCK!r}).chmod(0o600)"):
            done = bob.run(f"os.chdir({str(shared)!r})\n{act}")
            assert done.returncode and "not permitted" in done.stderr or "denied" in done.stderr, done.stderr
        first.communicate(timeout=30)
    (shared / LOCK).unlink()
    # A link to a file of Bob's, where Bob's lock will be.
    succeeded(bob.run(f"os.chdir({str(shared)!r}); Path('mine').write_text('as it was')"))
    succeeded(alice.run(f"os.chdir({str(shared)!r}); os.symlink('mine', {LOCK!r})"))
    refused(bob.run(MEASURE), "cannot be opened", f"it belongs to user {ALICE}", status=2)
    assert (shared / "mine").read_text() == "as it was"


def test_a_study_of_another_user_is_not_swept(shared: Path) -> None:
    alice, bob = (User(number, shared) for number in (ALICE, BOB))
    folder = shared / "demo"
    succeeded(alice.run(f"os.umask(0o022); Path({str(folder)!r}).mkdir()"))
    check = f"run_command(lambda: claim.check(None, StudyFolder(Path({str(folder)!r}))))"
    refused(bob.run(check), f"{folder} cannot be written to", f"belongs to another user ({ALICE})", status=2)
    take = f"run_command(lambda: claim.make_folder(Path({str(folder / 'new')!r})))"
    refused(bob.run(take), f"{folder} cannot be written to", status=2)


def test_logs_that_another_user_keeps_are_told_before_jobs_are_submitted(shared: Path) -> None:
    alice, bob = (User(number, shared) for number in (ALICE, BOB))
    folder = shared / "demo"
    rule = folder / "logs/slurm/rule_trial"
    make = f"os.umask(0); Path({str(rule.parent)!r}).mkdir(parents=True); Path({str(rule)!r}).mkdir(mode=0o755)"
    succeeded(alice.run(make))
    prepare = f"job_logs.prepare(StudyFolder(Path({str(folder)!r})))"
    succeeded(alice.run(prepare))
    refused(
        bob.run(f"run_command(lambda: {prepare} and 0)"),
        f"{rule} cannot be written to",
        f"belongs to another user ({ALICE})",
        status=2,
    )
