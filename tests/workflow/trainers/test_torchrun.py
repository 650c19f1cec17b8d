"""The preset `torchrun`: two real ranks on the CPU, whose frames are counted once."""

import re
import sys
from pathlib import Path

import pytest
from envknee.record.read import read_rows
from foreign_commands import a_request, measured
from places import PROGRAMS
from records import known


def test_frames_of_two_ranks_are_counted_once(tmp_path: Path):
    torchrun = str(Path(sys.executable).with_name("torchrun"))
    command = {"preset": "torchrun", "ranks": 2, "argv": [torchrun, str(PROGRAMS / "torchrun_trainer.py")]}
    arm = {"trainer": "command", "gpus": 0, "command": command}
    record, trial = measured(tmp_path, a_request(arm))
    assert (record.outcome.status, record.world_size, record.num_envs_total) == ("ok", 2, 128)
    rows, rollout = read_rows(trial), 64 * 4 * 2
    assert [row.frames for row in rows] == [rollout * number for number in range(1, 6)]
    # The program's own count, which each of the ranks prints.
    printed = re.findall(r"rank (\d), iteration 4: (\d+) transitions", trial.log.read_text(encoding="utf-8"))
    assert sorted(printed) == [("0", str(rows[4].frames)), ("1", str(rows[4].frames))]
    assert known(rows[2].fps_total) == pytest.approx(rollout / known(rows[2].iteration_s))
    assert not any("FPS" in warning for warning in record.outcome.warnings), "the program's FPS are the same"
