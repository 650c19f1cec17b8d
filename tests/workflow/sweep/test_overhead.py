"""Isaac Lab's own command and trials run the same training; what is compared is the host's clock around all."""

import json
import os
import re

import pytest
from environment import NO_GRADIENTS
from envknee.base.point import Point
from envknee.study.errors import run_command
from envknee.study.load import read_study
from programs import run_main, succeeded
from workspaces import Workspace

from benchmarks import overhead


def test_all_sides_run_and_are_compared(workspace: Workspace):
    path = os.pathsep.join([NO_GRADIENTS, workspace.environment["PYTHONPATH"]])
    workspace.environment = workspace.environment | {"PYTHONPATH": path}
    study = workspace.study(learning=None)
    options = "--pairs 1 --warmup 1 --iterations 2 --output overhead"
    result = succeeded(workspace.module("overhead", str(study), *options.split(), timeout_s=480))
    (path,) = workspace.folder.glob("overhead/*/overhead.json")
    overhead_json = json.loads(path.read_text(encoding="utf-8"))
    (stock,), (trial,) = overhead_json["fps"]["isaaclab train"], overhead_json["fps"]["trial"]
    assert overhead_json["ratios"]["trial / isaaclab train"] == [trial / stock]
    (unresolved,) = overhead_json["fps"]["trial with phases: off"]
    assert overhead_json["ratios"]["phases: sampled / off"] == [trial / unresolved]
    assert f"trial / isaaclab train: median {trial / stock:.3f}" in result
    # The same training: RSL-RL's own log of it names as many steps and optimizer passes as the trial's request.
    log = (path.parent / "isaaclab-train-0.log").read_text(encoding="utf-8")
    request = overhead_json["request"]
    assert re.findall(r"Total steps: (\d+)", log)[-1] == str(3 * request["num_envs"] * request["horizon"])


def test_an_arm_that_isaac_lab_has_not_runs_in_a_bare_loop(workspace: Workspace):
    study = workspace.study(learning=None, arms={"lean": {"gpus": 0, "observations": "lean", "frontend": "warp"}})
    request = overhead.request_at(read_study(study), "lean", Point(4, 4, 16), warmup=1, iterations=2)
    assert (request.observations, request.frontend) == ("lean", "warp")
    seconds = overhead.iterations_of_bare_loop(request, workspace.folder / "bare")
    assert len(seconds) == 2 and min(seconds) > 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--horizon", "3"], "does not divide"),
        (["--arm", "lean"], "the study has no arm 'lean'; it has stock"),
        (["--pairs", "0"], "must be at least 1"),
        (["--num-envs", "0"], "--num-envs must be at least 1, and 0 was given"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
):
    with pytest.raises(SystemExit) as end:
        run_main(lambda: run_command(overhead.main), workspace.study(learning=None), *arguments)
    assert end.value.code == 2 and words in capsys.readouterr().err
