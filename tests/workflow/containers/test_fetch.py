"""containers/fetch.sh: Ctrl-C ends it, though pip catches the signal and ends as if the index had no such build."""

import os
import signal
import subprocess
from pathlib import Path

from places import ROOT
from programs import a_program
from waiting import wait_for

PYTHON = """\
case "$*" in
  *version_info*) echo 3.12 ;;
  *requirements-cpu.lock*) trap 'exit 1' INT; touch reached; while :; do sleep 0.1; done ;;
  *) touch went-on ;;
esac"""


def test_ctrl_c_while_the_cpu_build_is_fetched_fetches_no_other_build(tmp_path: Path):
    a_program(tmp_path, "python", PYTHON)
    command = ["bash", str(ROOT / "containers/fetch.sh"), str(tmp_path / "python"), "wheels", "3.12"]
    fetching = subprocess.Popen(command, cwd=tmp_path, env=os.environ | {"TORCH": "cpu"}, start_new_session=True)
    wait_for((tmp_path / "reached").exists)
    os.killpg(fetching.pid, signal.SIGINT)
    assert fetching.wait(60) == 130
    assert not (tmp_path / "went-on").exists()
