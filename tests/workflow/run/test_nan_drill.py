"""A simulation that is broken on purpose in real Isaac Lab: what broke first is found, and nobody takes it for a result."""

import json
import re

import numpy
import pytest
import quick
from camera_trials import a_trial, by_hand
from envknee.decide.study import decide
from envknee.measure.diagnosis import GUIDE
from envknee.show.report import page
from envknee.show.terminal import print_summary
from envknee.study.paths import StudyFolder
from records import known
from rich.console import Console


def drilled(folder, kind, **changes):
    inject = {"kind": kind, "at_step": 5, "envs": 2}
    trial = a_trial(folder, num_envs=4, horizon=4, batch_size=16, iterations=3, inject=inject, **changes)
    return trial, quick.launch(trial)


@pytest.mark.parametrize("frontend", ["torch", "warp"])
@pytest.mark.parametrize(
    ("kind", "tensor"),
    [("huge_actions", "joint_state/cartpole"), ("invalid_reset", "joint_state_after_reset/cartpole")],
)
def test_the_cause_is_found_with_its_place_and_the_state_before_it(tmp_path, kind, tensor, frontend):
    # The policy sees images alone: they never are NaN, and the robots are long gone when a loss is.
    trial, record = drilled(tmp_path / "drill", kind, frontend=frontend)
    outcome, failure = record.outcome, known(record.outcome.failure)
    assert outcome.status == "nan"
    assert (failure.tensor, failure.iteration, failure.step, failure.env_indices) == (tensor, 1, 1, [0, 1])
    assert known(outcome.reason).startswith(f"DRILL, NO RESULT ({kind} at step 5 in 2 environments")
    assert GUIDE in failure.hints
    assert json.loads(trial.record.read_text(encoding="utf-8"))["request"]["inject"]["kind"] == kind
    with numpy.load(trial.root / failure.dump, allow_pickle=False) as dump:
        joints, poses = dump["last_good/joint_state/cartpole"], dump["last_good/body_pose/cartpole"]
        assert joints.shape == (2, 4) and poses.shape == (2, 3, 7)
        assert numpy.isfinite(joints).all() and numpy.isfinite(poses).all()
        assert (numpy.abs(joints[:, 0]) < 4).all()  # on its rail
        assert (dump["actions"] > 1e6).all() == (kind == "huge_actions")


def test_a_study_that_is_a_drill_says_so_wherever_one_looks(tmp_path, capsys):
    _, record = drilled(tmp_path / "drill", "huge_actions", task_id="Isaac-Cartpole-Direct", overrides={})
    task = {"id": "Isaac-Cartpole-Direct", "inject": {"kind": "huge_actions", "at_step": 5, "envs": 2}}
    decided = decide([record], by_hand(task=task))
    (broken,) = decided.broken
    assert (broken.tensor, broken.trials, broken.dump) == ("joint_state/cartpole", [0], "trials/0000/nan_dump.npz")
    print_summary(decided, StudyFolder(tmp_path), Console(width=100))
    shown = capsys.readouterr().out
    report = page(decided, [(record, {})], {})
    assert shown.startswith("DRILL, NO RESULT")
    assert re.search(r'<div class="warning"[^>]*><p><strong>DRILL, NO RESULT', report)
    assert GUIDE.split()[-1] in report
    assert all(hint in " ".join(shown.split()).replace(" may help ", " ") for hint in broken.hints)
