"""The simulated task and, for drills, what breaks in it on purpose."""

from typing import Any, Literal

from envknee.base.fields import newer
from envknee.study.value_types import NotNegative, Overrides, Positive, Strict


class Inject(Strict):
    """A drill: the simulation breaks on purpose, to test the diagnosis. Its trials are no results."""

    kind: Literal["huge_actions", "invalid_reset"]
    """'huge_actions': actions far beyond the limits of the robot's joints; 'invalid_reset': an episode that restarts with NaN joint
    positions."""
    at_step: NotNegative = 0
    """Environment step of the training, counted from 0."""
    envs: Positive = 1
    """Number of environments; they are 0, 1, ..."""

    @property
    def warning(self) -> str:
        """The warning before everything that such a trial or study shows."""
        what = f"{self.kind} at step {self.at_step} in {self.envs} environment{'s' if self.envs > 1 else ''}"
        return f"DRILL, NO RESULT ({what}, on purpose)"


class Task(Strict):
    """The simulated task."""

    id: str = "Isaac-Cartpole-Camera-Direct"
    """A registered Isaac Lab task, with cameras or without, that runs without Isaac Sim: `envknee tasks` lists them."""
    asset: str = "local"
    """'local': only files of this machine: envknee's own cart-pole and ground, and files named in overrides
    (env.scene.robot.spawn.usd_path); a path: another USD file of the cart-pole; 'nucleus': the task's own files, from NVIDIA's server."""
    asset_root: str | None = newer(None)
    """A copy of NVIDIA's asset server (Isaac/IsaacLab/Robots/...). The task's files come from this folder, and none is downloaded. With
    'asset: nucleus' this includes the cart-pole and the ground."""
    overrides: Overrides = {}
    """Fields of the environment (env.*) or agent (agent.*) to set, and `presets`."""
    inject: Inject | None = newer(None)
    """Break the simulation on purpose, to test the diagnosis. Its trials are no results."""


SHORT_TASKS = {"cartpole_dual_camera": "Envknee-Cartpole-Dual-Camera-Direct"}
"""Short names of envknee's own tasks."""


def task_of(value: Any) -> Any:
    """Read `task: NAME` as `task: {id: NAME}`, and a short name as the registered one."""
    plain = {"id": value} if isinstance(value, str) else value
    if isinstance(plain, dict) and isinstance(plain.get("id"), str):
        plain = plain | {"id": SHORT_TASKS.get(plain["id"], plain["id"])}
    return plain
