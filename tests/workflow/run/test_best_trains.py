"""What `envknee best` prints is what Isaac Lab's own train takes: the line of docs/best.md, in a shell."""

from pathlib import Path

from environment import ENVIRONMENT, NO_GRADIENTS
from envknee.decide.study import decide
from envknee.study.files import canonical_json
from places import ROOT
from programs import ran, succeeded
from records import PLATEAU, a_study, fps_trials, records_of, write_study

TASK = "Isaac-Cartpole-Direct"
LINE = "isaaclab train --rl_library rsl_rl --task {} --num_envs $(envknee best results/x --only num_envs)"


def test_isaac_labs_train_takes_what_best_prints(tmp_path: Path):
    page = (ROOT / "docs/best.md").read_text(encoding="utf-8")
    assert LINE.format("Isaac-Ant") in page and "$(envknee best results/x)" in page
    study, trials = a_study(), fps_trials(PLATEAU)
    folder = write_study(tmp_path / "results/x", study, trials)
    folder.verdict.write_text(canonical_json(decide(records_of(trials), study)), encoding="utf-8")
    assets = {"cartpole": "cartpole.usda", "ground": "ground.usda"}
    tasks = ROOT / "workflow/envknee/tasks"
    files = " ".join(f"env.scene.{part}.spawn.usd_path={tasks / file}" for part, file in assets.items())
    whole = f"{LINE.format(TASK)} $(envknee best results/x) --device cpu agent.device=cpu --max_iterations 1 {files}"
    variables = ENVIRONMENT | {"PYTHONPATH": f"{NO_GRADIENTS}:{ENVIRONMENT['PYTHONPATH']}"}
    said = succeeded(ran(["sh", "-c", whole], cwd=tmp_path, env=variables, timeout=600))
    (agent,) = tmp_path.glob("logs/**/agent.yaml")
    text = agent.read_text(encoding="utf-8")
    assert "num_steps_per_env: 8" in text and "num_mini_batches: 2" in text
    assert "256" in said, "32 environments make 8 steps each"
