"""Isaac Lab's two frontends, PyTorch and Warp: hooks into the steps of both.

Warp's frontend captures each part of a step as a CUDA graph, in which no other code can run. So hooks go around whole parts.
Upstream: `WarpGraphCache` and `ManagerCallSwitch` of isaaclab_experimental, and DirectRLEnv, TerminationManager and ObservationManager
of Isaac Lab 3.0.0.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

from envknee.measure.phases import Timeline

DONES = ("end_pre", "TerminationManager_compute")
"""The part of a step that decides which episodes end, in direct and in manager-based environments. In direct ones it also resets."""

OBSERVATIONS = ("end_post", "ObservationManager_compute_update_history")
"""The part of a step that computes observations, in direct and in manager-based environments."""


def check_warp(task_id: str, env_cfg: Any) -> None:
    """Check that a task can run on Warp's frontend.

    Raises:
        UserError: when the frontend is not installed, the task or one of its terms has no Warp twin, or its physics is not Newton's.
    """
    # Late: leanframes imports kernels, and `envknee.tasks` sets first how those are compiled.
    from leanframes.isaaclab import frontend

    from envknee.tasks.lean_errors import asked_by

    with asked_by("frontend: warp", "frontend: torch"):
        frontend.check(task_id, env_cfg)


def is_warp(simulated: Any) -> bool:
    """Whether an environment runs on Warp's frontend."""
    return hasattr(_holder_of_graphs(simulated), "_graph_cache")


def before_dones(simulated: Any, call: Callable[[], None]) -> None:
    """Call `call` in every step after the physics, before episodes end."""
    if is_warp(simulated):
        around(*_parts(simulated), before=_in_part(DONES, call))
        return
    managed = getattr(simulated, "termination_manager", None)
    owner, method = (simulated, "_get_dones") if managed is None else (managed, "compute")
    around(owner, method, before=lambda *_, **__: call())


def after_resets(simulated: Any, call: Callable[[], None]) -> None:
    """Call `call` after environments were reset. A direct environment on Warp's frontend resets by a mask in every step."""
    if is_warp(simulated) and not _is_managed(simulated):
        around(*_parts(simulated), after=_in_part(DONES, call))
        around(simulated, "reset", after=lambda *_, **__: call())
    else:
        around(simulated, "_reset_idx", after=lambda *_, **__: call())


def mark_observation(simulated: Any, timeline: Timeline) -> None:
    """Time the computation of observations on `timeline`."""
    if is_warp(simulated):
        phase = ExitStack()
        begin = _in_part(OBSERVATIONS, lambda: phase.enter_context(timeline.phase("observation")))
        around(*_parts(simulated), before=begin, after=_in_part(OBSERVATIONS, phase.close))
    if not _is_managed(simulated):
        timeline.wrap(simulated, "_compute_observations", "observation")
    elif not is_warp(simulated):
        timeline.wrap(simulated.observation_manager, "compute", "observation")


def around(
    owner: Any, method: str, before: Callable[..., None] | None = None, after: Callable[..., None] | None = None
) -> None:
    """Make `owner.method` also call `before` and `after`, with the same arguments."""
    original: Callable[..., Any] = getattr(owner, method)

    @wraps(original)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        if before is not None:
            before(*arguments, **keywords)
        result = original(*arguments, **keywords)
        if after is not None:
            after(*arguments, **keywords)
        return result

    setattr(owner, method, wrapped)


def _in_part(parts: tuple[str, ...], call: Callable[[], None]) -> Callable[..., None]:
    """Return a function that takes the arguments of a part of a step on Warp's frontend, and calls `call` if it is one of `parts`."""
    return lambda stage, *_, **__: call() if stage in parts else None


def _parts(simulated: Any) -> tuple[Any, str]:
    """Return (owner, method name) of the method that runs each part of a step."""
    if _is_managed(simulated):
        return simulated._manager_call_switch, "call_stage"
    return simulated._graph_cache, "capture_or_replay"


def _holder_of_graphs(simulated: Any) -> Any:
    return getattr(simulated, "_manager_call_switch", simulated)


def _is_managed(simulated: Any) -> bool:
    return hasattr(simulated, "observation_manager")
