"""Environments on Isaac Lab's Warp frontend, which resets by a mask and captures each part of a step as a CUDA graph.

Input: a registered task and its configuration, whose physics is Newton's. Output: an environment with the calls of the torch frontend's.
Upstream: `WarpFrontend` and `WarpGraphCache` of isaaclab_experimental (Isaac Lab 3.0.0).
"""

import copy
from functools import wraps
from typing import Any

import gymnasium
import torch

from leanframes.errors import LeanError

TWINS = {"Isaac-Cartpole-Camera-Direct": "leanframes.isaaclab.warp_cartpole:CartpoleCameraWarpEnv"}
"""Warp environments that Isaac Lab lacks, by task. Your own task names its twin as `warp_entry_point` in gymnasium.register's kwargs."""

TWIN = "warp_entry_point"


def register_twins() -> None:
    """Declare `TWINS` where Isaac Lab's `WarpFrontend` looks for them."""
    import isaaclab_tasks  # noqa: F401  registers the tasks

    for task, twin in TWINS.items():
        gymnasium.registry[task].kwargs.setdefault(TWIN, twin)


def check(task_id: str, env_cfg: Any) -> None:
    """Check that a task can run on Warp's frontend.

    Raises:
        LeanError: when the frontend is not installed, the task or one of its terms has no Warp twin, or its physics is not Newton's.
    """
    register_twins()
    try:
        from isaaclab_experimental.envs.frontend import FrontendIncompatibleError, WarpFrontend, Workflow
    except ImportError as error:
        raise LeanError(
            f"Isaac Lab's Warp frontend needs isaaclab_experimental, which does not import here: {error}"
        ) from error

    try:
        if WarpFrontend._detect_workflow(env_cfg) is Workflow.MANAGER_BASED:
            WarpFrontend.adapt_cfg(copy.deepcopy(env_cfg))  # changes what it is given
        elif WarpFrontend._resolve_direct_warp_class(_name(task_id), env_cfg) is None:
            WarpFrontend._assert_direct_warp_registration(_name(task_id))
        else:
            WarpFrontend._require_newton_physics(env_cfg, type(env_cfg).__name__)
    except FrontendIncompatibleError as error:
        raise LeanError(
            f"Isaac Lab's Warp frontend is for tasks with a Warp twin, and {task_id!r} has none: {error}. Name a twin as {TWIN} in"
            " the kwargs of gymnasium.register (docs/leanframes.md)"
        ) from error


def make(task_id: str, env_cfg: Any) -> gymnasium.Env:
    """Create the environment of a task that `check` took. On a CPU its parts are called without CUDA graphs.

    Rewards and episode ends of a step are new tensors, as with the torch frontend: Warp overwrites its own in the next step.
    """
    from isaaclab_experimental.envs.frontend import WarpFrontend

    register_twins()
    env: Any = WarpFrontend.build_env(env_cfg, _name(task_id))
    simulated = env.unwrapped
    if "cuda" not in str(simulated.device):
        graphs = getattr(simulated, "_manager_call_switch", simulated)._graph_cache
        graphs.capture_or_replay = lambda stage, fn, args=(), kwargs=None: fn(*args, **(kwargs or {}))
    step = simulated.step

    @wraps(step)
    def step_and_keep(actions: Any) -> Any:
        observations, rewards, terminated, truncated, extras = step(actions)
        return observations, rewards.clone(), *torch.stack([terminated, truncated]), extras

    simulated.step = step_and_keep
    return env


def _name(task_id: str) -> str:
    """Return a task's name without the module that registers it."""
    return task_id.rpartition(":")[2]
