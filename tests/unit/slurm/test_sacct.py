"""The sacct that sweeps put before the cluster's own: which questions it repeats, and what it answers itself.

What the programs print is what those of SLURM 22.05 with slurmdbd print.
"""

import os
import time
from pathlib import Path

import pytest
from places import ROOT
from programs import a_program, ran

SACCT = ROOT / "workflow/profiles/slurm/bin/sacct"

STATES = ("-X", "--parsable2", "--noheader", "--format=JobIdRaw,State", "--name", "envknee_1")
"""How the executor plugin asks for the states of its jobs."""

ACCOUNT = ("-nu", "someone", "-o", "Account%256", "|", "tail", "-1")
"""How it asks for an account: the pipe and `tail` are words for sacct, which refuses them."""


def asked(folder: Path, words: tuple[str, ...], storage: str = "slurmdbd", **programs: str) -> tuple[int, str, float]:
    """Return exit status, output and seconds of a question on a cluster with these programs."""
    a_program(folder, "scontrol", f"echo 'AccountingStorageType   = accounting_storage/{storage}'")
    for name, body in programs.items():
        a_program(folder, name, body)
    began_s = time.monotonic()
    done = ran([SACCT, *words], env=os.environ | {"PATH": f"{SACCT.parent}:{folder}:{os.environ['PATH']}"})
    return done.returncode, done.stdout, time.monotonic() - began_s


def test_the_plugins_question_for_an_account_is_answered_at_once_with_the_users_default_one(tmp_path: Path):
    refusing = "echo \"sacct: invalid option -- '1'\" >&2; exit 1"
    status, said, seconds = asked(tmp_path, ACCOUNT, sacct=refusing, sacctmgr="echo vision")
    assert (status, said) == (0, "vision\n") and seconds < 10


def test_where_no_accounts_are_kept_there_is_none(tmp_path: Path):
    broken = "echo 'sacct: error: Slurm accounting storage is disabled' >&2; exit 1"
    assert asked(tmp_path, ACCOUNT, "none", sacct=broken, sacctmgr=broken)[:2] == (0, "")


@pytest.mark.parametrize(("words", "times"), [(STATES, 2), (("-j", "7.0", "--format=Reason", "--noheader"), 1)])
def test_only_states_are_asked_for_again_when_an_answer_fails(tmp_path: Path, words: tuple[str, ...], times: int):
    away_once = f'echo x >> {tmp_path}/asked; [ "$(wc -l < {tmp_path}/asked)" = 2 ] && echo "7|RUNNING"'
    status, said, _ = asked(tmp_path, words, sacct=away_once)
    assert (tmp_path / "asked").read_text().count("x") == times
    assert (status, said) == ((0, "7|RUNNING\n") if times == 2 else (1, ""))
