"""A real sweep on a terminal: the live view beside its trials, the report that is refreshed, and Ctrl-C."""

import os
import re
import signal
import sys

from envknee.record.read import load_records
from foreign_commands import an_arm
from running import processes_that, trial_processes
from terminal import on_terminal
from workspaces import Workspace


def test_a_sweep_shows_itself_refreshes_its_report_and_stops_at_ctrl_c(workspace: Workspace):
    sweep = {"num_envs": [1, 2], "horizon": 2, "batch_size": 2, "repeats": 9, "iterations": 30}
    study = workspace.study(arms={"fake": an_arm()}, task=None, learning=None, throughput=sweep)
    folder, pressed = workspace.prepared(), list[str]()

    def press_ctrl_c(printed: str, group: int) -> None:
        if not pressed and folder.report.exists():
            pressed.append(folder.report.read_text(encoding="utf-8"))
            os.killpg(group, signal.SIGINT)

    command = [sys.executable, "-m", "envknee", "sweep", study]
    status, printed = on_terminal(command, workspace.folder, workspace.environment, press_ctrl_c)
    assert status != 0 and pressed, printed
    records = load_records(folder)
    assert 1 <= len(records) < 18 and {record.outcome.status for record in records} == {"ok"}

    assert "Snakemake's lines go to results/tiny/logs/sweep.log" in printed
    assert "of 18 done, 1 running" in printed and re.search(r"^[12]  (■ )*▶( ·)+$", printed, re.MULTILINE)
    last = printed[printed.rindex("tiny: ") :]
    assert f"tiny: {len(records)} of 18 done, {18 - len(records)} waiting" in last, "nothing runs any more"
    assert "stopped. The same command goes on from here." in printed and "Traceback" not in last
    assert "[1/18]" not in printed and "[ 1/18]" in (folder.root / "logs/sweep.log").read_text(encoding="utf-8")

    assert "of 18 trials done" in pressed[0] and "While the sweep runs, it writes this page again" in pressed[0]
    assert not folder.verdict.exists() and not trial_processes(workspace.folder)
    assert not processes_that(
        lambda one: "envknee.show.watch.beside" in one.cmdline() and one.cwd() == str(workspace.folder)
    )
