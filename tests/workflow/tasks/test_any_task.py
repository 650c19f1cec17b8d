"""Tasks that the project never saw, on the CPU: with a camera and without, with the project's files and others' of this machine."""

from functools import partial
from http.server import SimpleHTTPRequestHandler
from typing import Any

import pytest
import quick
from camera_trials import a_trial, by_hand
from envknee.decide.study import decide
from envknee.run import launch
from envknee.show.evidence import Evidence
from envknee.show.figures.phases import draw_phases
from loopback import serving
from matplotlib.legend import Legend
from programs import told
from records import known

ANT = {"env.scene.robot.spawn.usd_path": "package:newton/examples/assets/ant.usda"}
SMALL = {"num_envs": 8, "horizon": 4, "batch_size": 16, "iterations": 2, "warmup_iterations": 1}


@pytest.mark.parametrize(
    ("task_id", "overrides"),
    [
        ("Isaac-Cartpole-Direct", {}),  # a ground from NVIDIA's server, as a spawner
        ("Isaac-Ant-Direct", ANT),  # ... as a terrain, and a robot that another package ships
    ],
)
def test_a_task_without_cameras_has_no_rendering_and_no_pictures(tmp_path, task_id, overrides):
    trial = a_trial(tmp_path / "trial", task_id=task_id, overrides=overrides, **SMALL)
    record = quick.launch(trial)
    outcome, phases_s = record.outcome, known(record.phases_s)
    assert outcome.status == "ok" and None not in (outcome.memory_map, outcome.startup_s), outcome.reason
    assert None not in (record.fps_total, record.memory_peak_gb, record.rollout_gb)
    assert phases_s["render"].median == 0 < phases_s["observation"].median
    assert not trial.frames.exists()
    # A figure of its study has no bars, and so no word, for what is never done.
    decided = decide([record], by_hand(task={"id": task_id}))
    figure = draw_phases(Evidence(decided, [record], lambda _: []))
    legends: list[Any] = figure.findobj(Legend)
    words = [text.get_text() for legend in legends for text in legend.get_texts()]
    assert "physics" in words and "render" not in words


def test_files_that_a_server_does_not_give_are_listed_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    nothing = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "empty"))
    with serving(nothing) as root:
        monkeypatch.setenv("ISAACSIM_ASSET_ROOT", root)
        trial = a_trial(tmp_path / "trial", task_id="Isaac-Ant-Direct", asset="nucleus", overrides={})
        words = ("Unable to find the file", f"env.scene.robot.spawn.usd_path: {root}/", "ant_instanceable.usd")
        told(lambda: launch.launch(trial), *words, "task.overrides", "try again where the server can be reached")


def test_a_simulation_that_drops_contacts_is_no_result(tmp_path):
    few = ANT | {"env.sim.physics.solver_cfg.njmax": 5, "env.sim.physics.solver_cfg.nconmax": 1}
    record = quick.launch(a_trial(tmp_path / "trial", task_id="Isaac-Ant-Direct", num_envs=8, overrides=few))
    assert record.outcome.status == "invalid"
    assert "MuJoCo-Warp dropped contacts or constraints" in (record.outcome.reason or "")
