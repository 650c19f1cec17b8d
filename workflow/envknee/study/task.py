"""The simulated task and, for drills, what breaks in it on purpose."""

from typing import Any, Literal, NamedTuple

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


class ShortTask(NamedTuple):
    """What a short name stands for."""

    id: str
    """The registered task."""
    settings: Overrides = {}
    """Its overrides."""


TOY_SETTINGS: Overrides = {
    "env.scene.tiled_camera.width": 28,
    "env.scene.tiled_camera.height": 28,
    "env.episode_length_s": 0.75,
    "agent.algorithm.learning_rate": 3.0e-3,
}
"""The camera cart-pole as a rehearsal for a CPU, which renders slowly: frames of 28 x 28 pixels instead of 96 x 96, episodes of 45 steps
instead of 300, and ten times the learning rate of RSL-RL's agent, so that half a minute of training has an effect."""

SHORT_TASKS: dict[str, ShortTask] = {
    "cartpole_dual_camera": ShortTask("Envknee-Cartpole-Dual-Camera-Direct"),
    "cartpole_toy": ShortTask("Isaac-Cartpole-Camera-Direct", TOY_SETTINGS),
}
"""Short names of envknee's own tasks. Toy settings belong to a name: who changes the task leaves them behind."""


def task_of(value: Any) -> Any:
    """Read `task: NAME` as `task: {id: NAME}`, and a short name as the registered task with that name's settings.

    Overrides that the study states replace those settings, field by field.
    """
    plain = {"id": value} if isinstance(value, str) else value
    if not isinstance(plain, dict) or not isinstance(plain.get("id"), str) or plain["id"] not in SHORT_TASKS:
        return plain
    short = SHORT_TASKS[plain["id"]]
    stated = plain.get("overrides", {})
    if not isinstance(stated, dict):
        return plain | {"id": short.id}  # what is wrong with them is said where they are validated
    return plain | {"id": short.id, "overrides": short.settings | stated}
