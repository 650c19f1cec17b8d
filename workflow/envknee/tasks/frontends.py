"""The two ways in which Isaac Lab steps an environment, PyTorch's and Warp's, and where each can be looked at.

Input: a task, or an environment as Isaac Lab made it. Output: an environment of Warp's frontend; calls around the parts of a step.
Warp's frontend captures its parts as CUDA graphs: inside one nothing else may run, so calls go around a whole part.
Upstream: `WarpFrontend`, `WarpGraphCache` and `ManagerCallSwitch` of isaaclab_experimental, and DirectRLEnv, TerminationManager and
ObservationManager of Isaac Lab 3.0.0.
"""

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any

import gymnasium

from envknee.measure.phases import Timeline
from envknee.study.errors import UserError

TWINS = {"Isaac-Cartpole-Camera-Direct": "envknee.tasks.warp_cartpole:CartpoleCameraWarpEnv"}
"""Twins that Isaac Lab has not, by task. A task of one's own names its twin as `warp_entry_point` in gymnasium.register's kwargs."""

TWIN = "warp_entry_point"

DONES = ("end_pre", "TerminationManager_compute")
"""The part of a step of a direct environment, and of a manager-based one, that decides which episodes end. The direct one resets, too."""

OBSERVATIONS = ("end_post", "ObservationManager_compute_update_history")


def check_warp(task_id: str, env_cfg: Any) -> None:
    """Make sure that Warp's frontend takes a task.

    Raises:
        UserError: says what has no twin.
    """
    _declare_twins()
    try:
        from isaaclab_experimental.envs.frontend import FrontendIncompatibleError, WarpFrontend, Workflow
    except ImportError as error:
        raise UserError(
            f"frontend: warp needs isaaclab_experimental, which does not import here: {error}. Use frontend: torch"
        ) from error

    try:
        if WarpFrontend._detect_workflow(env_cfg) is Workflow.MANAGER_BASED:
            WarpFrontend.adapt_cfg(copy.deepcopy(env_cfg))  # changes what it is given
        elif WarpFrontend._resolve_direct_warp_class(_name(task_id), env_cfg) is None:
            WarpFrontend._assert_direct_warp_registration(_name(task_id))
    except FrontendIncompatibleError as error:
        raise _no_twin(task_id, error) from error


def make_warp(task_id: str, env_cfg: Any) -> gymnasium.Env:
    """Create a task's environment on Warp's frontend; on a CPU, where no graph can be captured, its parts are plain calls.

    Raises:
        UserError: when the task has no twin.
    """
    from isaaclab_experimental.envs.frontend import FrontendIncompatibleError, WarpFrontend

    _declare_twins()
    try:
        env: Any = WarpFrontend.build_env(env_cfg, _name(task_id))
    except FrontendIncompatibleError as error:
        raise _no_twin(task_id, error) from error
    simulated = env.unwrapped
    if "cuda" not in str(simulated.device):
        _holder_of_graphs(simulated)._graph_cache = Uncaptured()
    step = simulated.step

    @wraps(step)
    def step_and_keep(actions: Any) -> Any:
        # Warp writes each step's results where the last one's were; what a trainer keeps must stay.
        observations, rewards, terminated, truncated, extras = step(actions)
        return observations, rewards.clone(), terminated.clone(), truncated.clone(), extras

    simulated.step = step_and_keep
    return env


class Uncaptured:
    """Calls what `WarpGraphCache` would capture and replay."""

    def capture_or_replay(
        self, stage: str, fn: Callable[..., Any], args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Call `fn`."""
        return fn(*args, **(kwargs or {}))

    def invalidate(self, stage: str | None = None) -> None:
        """Forget nothing: nothing was captured."""


def is_warp(simulated: Any) -> bool:
    """Whether an environment is one of Warp's frontend."""
    return hasattr(_holder_of_graphs(simulated), "_graph_cache")


def before_dones(simulated: Any, call: Callable[[], None]) -> None:
    """Let `call` come after the physics of every step, before episodes end."""
    if is_warp(simulated):
        _around_part(simulated, DONES, before=call)
        return
    managed = getattr(simulated, "termination_manager", None)
    owner, method = (simulated, "_get_dones") if managed is None else (managed, "compute")
    around(owner, method, before=lambda *_: call())


def after_resets(simulated: Any, call: Callable[[], None]) -> None:
    """Let `call` come after some environments were reset. A direct environment of Warp's resets by a mask: in every step."""
    if is_warp(simulated) and not _is_managed(simulated):
        _around_part(simulated, DONES, after=call)
        around(simulated, "reset", after=lambda *_: call())
        return
    around(simulated, "_reset_idx", after=lambda *_: call())


def mark_observation(simulated: Any, timeline: Timeline) -> None:
    """Tell `timeline` when a step computes observations."""
    if is_warp(simulated):
        owner, method = _parts(simulated)
        whole = getattr(owner, method)

        @wraps(whole)
        def timed(*arguments: Any, **keywords: Any) -> Any:
            if _part_of(arguments, keywords) not in OBSERVATIONS:
                return whole(*arguments, **keywords)
            with timeline.phase("observation"):
                return whole(*arguments, **keywords)

        setattr(owner, method, timed)
    if not _is_managed(simulated):
        timeline.wrap(simulated, "_compute_observations", "observation")
    elif not is_warp(simulated):
        timeline.wrap(simulated.observation_manager, "compute", "observation")


def around(
    owner: Any, method: str, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
) -> None:
    """Let each call of `owner.method` call `before` and `after`, too, with the same positional arguments."""
    original: Callable[..., Any] = getattr(owner, method)

    @wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        if before is not None:
            before(*arguments)
        result = original(*arguments, **keywords)
        if after is not None:
            after(*arguments)
        return result

    setattr(owner, method, wrapped)


def _around_part(
    simulated: Any,
    parts: tuple[str, ...],
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
) -> None:
    """Let `before` and `after` be called around a part of each step of Warp's frontend."""
    owner, method = _parts(simulated)
    whole = getattr(owner, method)

    @wraps(whole)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        is_meant = _part_of(arguments, keywords) in parts
        if is_meant and before is not None:
            before()
        result = whole(*arguments, **keywords)
        if is_meant and after is not None:
            after()
        return result

    setattr(owner, method, wrapped)


def _parts(simulated: Any) -> tuple[Any, str]:
    """Return whose method does each part of a step, captured or not."""
    if _is_managed(simulated):
        return simulated._manager_call_switch, "call_stage"
    return simulated._graph_cache, "capture_or_replay"


def _part_of(arguments: tuple, keywords: dict[str, Any]) -> str:
    return keywords["stage"] if "stage" in keywords else arguments[0]


def _holder_of_graphs(simulated: Any) -> Any:
    return getattr(simulated, "_manager_call_switch", simulated)


def _is_managed(simulated: Any) -> bool:
    return hasattr(simulated, "observation_manager")


def _declare_twins() -> None:
    """Name the twins where `WarpFrontend` looks for them."""
    for task, twin in TWINS.items():
        gymnasium.registry[task].kwargs.setdefault(TWIN, twin)


def _name(task_id: str) -> str:
    """Return a task's name without the module that registers it."""
    return task_id.rpartition(":")[2]


def _no_twin(task_id: str, error: Exception) -> UserError:
    return UserError(
        f"frontend: warp is for tasks with a Warp twin, and {task_id!r} has none: {error}. Use frontend: torch, or name a twin as"
        f" {TWIN} in the kwargs of gymnasium.register (docs/lean.md)"
    )
