"""What a registered task brings by itself: agents, presets, files, and the values that a user changes first.

Input: a task's name. Output: `OwnSettings`. Nothing is simulated or downloaded.
"""

import textwrap
from dataclasses import dataclass
from typing import Any

from envknee import tasks
from envknee.study.errors import UserError, nearest
from envknee.study.first_sizes import OwnSettings
from envknee.study.overrides import apply_overrides, split_by_root
from envknee.study.task import SHORT_TASKS, Task, task_of
from envknee.study.value_types import OverrideValue
from envknee.tasks import table


@dataclass(frozen=True)
class AgentFields:
    """Where a library's agent configuration has what a user changes first."""

    horizon: str
    """Environment steps per rollout. A study sets it by its own key."""
    others: tuple[str, ...]


AGENTS = {
    "rsl_rl": AgentFields("num_steps_per_env", ("algorithm.learning_rate",)),
    "skrl": AgentFields("agent.rollouts", ("agent.learning_rate",)),
    "rl_games": AgentFields("params.config.horizon_length", ("params.config.learning_rate",)),
    "sb3": AgentFields("n_steps", ("learning_rate",)),
}
"""By trainer, in the order in which one is chosen. docs/trainers.md has all fields."""

UNKNOWN_HORIZON = 32
"""For an agent that names no horizon."""


def own_settings(name: str) -> OwnSettings:
    """Return what a task brings.

    Args:
        name: a registered task, MODULE:TASK, or a short name of envknee's own tasks

    Raises:
        UserError: when there is no such task, it needs Isaac Sim, or it registers no agent that a trainer starts from. Names all tasks
            if there is none of this name.
    """
    task = Task.model_validate(task_of(name))
    _check_name(task.id)
    listed = table.inspect_task(task.id)
    presets = _presets(listed, name)
    trainer = _trainer(listed, name)
    env_cfg, agent_cfg = tasks.resolve(task.id, f"{trainer}{tasks.AGENT}", presets)
    split = split_by_root(task.overrides, ("env", "agent"))
    apply_overrides(env_cfg, split["env"], "env")
    apply_overrides(agent_cfg, split["agent"], "agent")
    agent = AGENTS[trainer]
    horizon = value_at(agent_cfg, agent.horizon)
    return OwnSettings(
        task=name,
        trainer=trainer,
        trainers=listed.trainers,
        presets=presets,
        files=listed.files,
        num_envs=env_cfg.scene.num_envs,
        horizon=horizon if isinstance(horizon, int) else UNKNOWN_HORIZON,
        fields=_fields(env_cfg, agent_cfg, agent),
        frame_pixels=_frame_pixels(env_cfg),
    )


def _check_name(task_id: str) -> None:
    """Raise a UserError that lists every registered task if this is none, and names no module that could register it."""
    known = tasks.registered()
    if ":" in task_id or task_id in known:
        return
    names = textwrap.fill(", ".join(known), width=100, break_on_hyphens=False, break_long_words=False)
    raise UserError(
        f"--task {task_id}: no such task is registered{nearest(task_id, [*known, *SHORT_TASKS])}. Name one of those below, or MODULE:TASK"
        f" for a task of your own (docs/extending.md). `envknee tasks` says which of them run without Isaac Sim.\n{names}"
    )


def _presets(listed: table.TaskRow, name: str) -> str | None:
    """Return the presets of the first physics engine with which a task runs; None: its default."""
    for simulator in table.CHOICES:
        if simulator in listed.how:
            return listed.how[simulator]
    raise UserError(
        f"--task {name}: this task {listed.why_not}, and envknee measures what runs without Isaac Sim. `envknee tasks` lists those"
        " tasks. A script of your own may run in Isaac Sim: `envknee knee` measures it (docs/commands.md)"
    )


def _trainer(listed: table.TaskRow, name: str) -> str:
    for trainer in AGENTS:
        if trainer in listed.trainers:
            return trainer
    raise UserError(
        f"--task {name}: this task registers no agent for {', '.join(AGENTS)}, and a trial trains one. Take another task (`envknee tasks`"
        " lists their trainers), or add an agent to the kwargs of gymnasium.register (docs/extending.md)"
    )


def _fields(env_cfg: Any, agent_cfg: Any, agent: AgentFields) -> dict[str, OverrideValue]:
    """Return the values that a user changes first, by the names under which overrides change them."""
    fields: dict[str, OverrideValue] = {"env.episode_length_s": getattr(env_cfg, "episode_length_s", None)}
    for name, camera in _cameras(env_cfg).items():
        fields |= {f"env.scene.{name}.width": camera.width, f"env.scene.{name}.height": camera.height}
    fields |= {f"agent.{field}": value_at(agent_cfg, field) for field in agent.others}
    return {field: value for field, value in fields.items() if value is not None}


def _cameras(env_cfg: Any) -> dict[str, Any]:
    """Return the cameras of a scene whose size is set, by their names in the scene."""
    from isaaclab.sensors import CameraCfg

    return {
        name: sensor
        for name, sensor in vars(env_cfg.scene).items()
        if isinstance(sensor, CameraCfg) and sensor.width and sensor.height
    }


def _frame_pixels(env_cfg: Any) -> int:
    """Return the pixels of one environment's observation. Direct camera tasks stack `frame_stack` frames."""
    frames = getattr(env_cfg, "frame_stack", 1)
    stacked = max(frames, 1) if isinstance(frames, int) else 1
    return stacked * sum(camera.width * camera.height for camera in _cameras(env_cfg).values())


def value_at(config: Any, path: str) -> Any:
    """Return a field of nested objects and mappings, such as `algorithm.learning_rate`; None if it is not there."""
    for key in path.split("."):
        config = config.get(key) if isinstance(config, dict) else getattr(config, key, None)
    return config
