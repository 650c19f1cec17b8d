"""The simulated tasks. Only this package and `trainers` import Isaac Lab.

Input: a task's name, asset and overrides. Output: its resolved configuration, and an environment.
"""

import contextlib
import importlib
import io
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import warp

from envknee.measure.meter import Meter
from envknee.measure.phases import Timeline
from envknee.study.errors import UserError, nearest
from envknee.study.overrides import apply_overrides
from envknee.study.value_types import Frontend, Observations, Overrides, OverrideValue
from envknee.tasks import assets, frontends, physics, spaces
from envknee.tasks.shipped import CARTPOLE_USD

# No simulation is differentiated here, and kernels compile in two thirds of the time without gradients. `isaaclab train` does the same
# (isaaclab/programs.py of Isaac Lab 3.0.0). It must happen before modules of kernels are imported.
warp.config.enable_backward = False

CARTPOLE_JOINTS = ("slider_to_cart", "cart_to_pole")

DUAL_CAMERA = "Envknee-Cartpole-Dual-Camera-Direct"
"""The cart-pole with a second camera on its cart: `task: cartpole_dual_camera`."""

gymnasium.register(
    id=DUAL_CAMERA,
    entry_point="envknee.tasks.dual_camera:DualCameraEnv",
    disable_env_checker=True,
    kwargs={
        "env_cfg_entry_point": "envknee.tasks.dual_camera:DualCameraEnvCfg",
        "rsl_rl_cfg_entry_point": "envknee.tasks.dual_camera:DualCameraPPORunnerCfg",
        "default_agent": "rsl_rl",
    },
)


AGENT = "_cfg_entry_point"
"""Suffix of the keys under which a task registers configurations: LIBRARY_cfg_entry_point, and env_cfg_entry_point for its own."""


def resolve(task_id: str, agent_entry_point: str | None, presets: OverrideValue = None) -> tuple[Any, Any]:
    """Return the (environment, agent) configurations of a registered task with all presets resolved.

    Upstream: isaaclab_tasks.utils.hydra.resolve_task_config of Isaac Lab 3.0.0, which `isaaclab train` uses too.

    Args:
        task_id: the task's name, with the module that registers it if needed, as in Gymnasium: `mylab.tasks:MyLab-Reach`
        agent_entry_point: the key of the agent's configuration; None: without an agent
        presets: variants of the task, as on Isaac Lab's command line, such as `newton_mjwarp`; None: the task's defaults

    Raises:
        UserError: when the task or preset does not exist, or the task has no configuration for the trainer.
    """
    from isaaclab_tasks.utils.hydra import resolve_task_config

    known = registration(task_id)
    if agent_entry_point is not None and agent_entry_point not in known:
        trainers = sorted(key.removesuffix(AGENT) for key in known if key.endswith(AGENT) and key != f"env{AGENT}")
        raise UserError(
            f"task.id: {task_id!r} registers no {agent_entry_point}, which the trainer starts from. It registers configurations for"
            f" {', '.join(trainers) or 'no trainer'}: use a trainer that has one, or another task, or add one to the kwargs of"
            " gymnasium.register (docs/extending.md)"
        )
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return resolve_task_config(
                task_id.rpartition(":")[2],
                agent_entry_point,
                overrides=[] if presets is None else [f"presets={presets}"],
            )
    except ValueError as error:
        raise UserError(f"task.id: {task_id!r} cannot be trained this way: {error}") from error
    except ImportError as error:
        raise UserError(
            f"task.id: {task_id!r} needs a package that is not installed: {error}. Install it where trials run, or take"
            " another task"
        ) from error


def registered() -> list[str]:
    """Return the names of Isaac Lab's tasks and envknee's own."""
    import isaaclab_tasks  # noqa: F401  registers the tasks

    return sorted(name for name in gymnasium.registry if name.startswith(("Isaac", "Envknee")))


def registration(task_id: str) -> dict[str, Any]:
    """Return the kwargs with which a task is registered, after importing its module if `task_id` names one.

    Raises:
        UserError: when the task or its module does not exist.
    """
    import isaaclab_tasks  # noqa: F401  before the module, which may need its tasks

    module, _, name = task_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise UserError(
            f"task.id: module {module!r} does not import: there is no module {error.name!r}. Expected MODULE:TASK, where Python finds"
            " the module and all that it imports (installed where trials run, or their folder in a .pth file there), or the name of"
            " a registered task alone"
        ) from error
    known = registered()
    if name not in (gymnasium.registry if module else known):
        cameras = ", ".join(name for name in known if "Camera" in name)
        raise UserError(
            f"task.id: {task_id!r} is not a registered Isaac Lab task{nearest(task_id, known)}. Camera tasks: {cameras}"
        )
    return gymnasium.registry[name].kwargs


def configure(
    env_cfg: Any,
    asset: str,
    overrides: Overrides,
    num_envs: int,
    seed: int,
    device: str,
    asset_root: str | None = None,
) -> None:
    """Complete an environment's configuration in place: asset, overrides, size, seed and device ('cpu' or 'cuda:0').

    With `asset_root`, files of NVIDIA's asset server are read from that folder, and nothing is downloaded.

    Raises:
        UserError: when the asset is missing or broken, an override names an unknown field or one that the study decides, a file of
            the scene is not on this machine, or the configured task needs Isaac Sim.
    """
    env_cfg.scene.num_envs = num_envs
    env_cfg.seed = seed
    env_cfg.sim.device = device
    use_local_files(env_cfg, asset, asset_root)
    apply_overrides(env_cfg, overrides, "env", decided=("scene.num_envs", "seed", "sim.device"))
    physics.check(env_cfg)
    assets.check(env_cfg, may_fetch=asset == "nucleus" and asset_root is None)


def use_local_files(env_cfg: Any, asset: str, asset_root: str | None = None) -> None:
    """Make a task's scene use local files: envknee's own or the cart-pole `asset`, then files of the folder `asset_root`.

    With asset: nucleus, only files of `asset_root` are used.

    Raises:
        UserError: when the asset is missing or broken, the scene has no cart-pole for it, or `asset_root` does not exist.
    """
    if asset != "nucleus":
        spawns: list[Any] = [getattr(item, "spawn", None) for item in vars(env_cfg.scene).values()]
        # NVIDIA's cart-pole in a task as registered.
        carts = [spawn for spawn in spawns if Path(str(getattr(spawn, "usd_path", ""))).name == "cartpole.usd"]
        if not carts and asset != "local":
            raise UserError(
                f"task.asset: {asset!r} is a cart-pole, and this task's scene has none. Set asset: nucleus; or set asset: local and name"
                " files of other robots under task.overrides (env.scene.robot.spawn.usd_path), or their folder as task.asset_root"
            )
        for spawn in carts:
            spawn.usd_path = str(checked_asset(asset))
        assets.use_local(env_cfg)
    if asset_root is not None:
        assets.use_root(env_cfg, asset_root)


def checked_asset(asset: str) -> Path:
    """Return the path of the USD file `asset` ('local' or a path), after opening it.

    Raises:
        UserError: when the file is missing, is not USD, or lacks the cart-pole's articulation or a joint.
    """
    from pxr import Tf, Usd, UsdPhysics

    path = CARTPOLE_USD if asset == "local" else Path(asset).expanduser().resolve()
    remedy = (
        "Use asset: local (ships with envknee), nucleus (NVIDIA's server), or the path of a USD file of the cart-pole."
    )
    if not path.is_file():
        raise UserError(f"task.asset: {path} does not exist. {remedy}")
    try:
        stage: Any = Usd.Stage.Open(str(path))
    except Tf.ErrorException as error:
        raise UserError(f"task.asset: {path} is not a USD file that opens: {str(error).strip()}. {remedy}") from error
    root = stage.GetDefaultPrim()
    if not root or not any(prim.HasAPI(UsdPhysics.ArticulationRootAPI) for prim in Usd.PrimRange(root)):
        raise UserError(f"task.asset: {path} has no default prim with an articulation. {remedy}")
    joints = {prim.GetName() for prim in Usd.PrimRange(root) if prim.IsA(UsdPhysics.Joint)}
    missing = [joint for joint in CARTPOLE_JOINTS if joint not in joints]
    if missing:
        raise UserError(
            f"task.asset: {path} lacks the joint {missing[0]!r} (it has {', '.join(sorted(joints)) or 'none'}). {remedy}"
        )
    return path


def make(
    task_id: str, env_cfg: Any, observations: Observations = "stock", frontend: Frontend = "torch"
) -> gymnasium.Env:
    """Start the simulation and return its environment, with an arm's handling of camera frames.

    Raises:
        UserError: when `observations` needs camera frames that the task lacks, or a download of a scene file failed.
    """
    # Late: they import Isaac Lab.
    from leanframes.isaaclab import frontend as warp_frontend

    from envknee.tasks import frames

    physics.use_without_gpu()
    # On a CPU the host's memory is what is measured, so there it stays as Isaac Lab has it.
    if str(env_cfg.sim.device).startswith("cuda"):
        spaces.repeat_without_copies()
    try:
        env = warp_frontend.make(task_id, env_cfg) if frontend == "warp" else gymnasium.make(task_id, cfg=env_cfg)
    except FileNotFoundError as error:
        raise UserError(
            f"task.asset: this task could not be built: {error}. It downloads:\n{assets.listed(assets.fetched(env_cfg))}, or try again"
            " where the server can be reached"
        ) from error
    frames.use(observations, env)
    return env


def start(task_id: str, env_cfg: Any, meter: Meter) -> gymnasium.Env:
    """`make` the environment of a trial's request, with its drill (`inject`); report phases, actions and states to `meter`."""
    from envknee.tasks import drill, states

    env = make(task_id, env_cfg, meter.request.observations, meter.request.frontend)
    meter.close_at_release(partial(_close, env))
    mark_phases(env, meter.timeline)
    inject = meter.request.inject
    if inject is not None and inject.kind == "invalid_reset":
        drill.invalid_reset(env, inject)
    states.watch(env, meter.watch)
    if inject is not None and inject.kind == "huge_actions":
        drill.huge_actions(env, inject)  # after `watch`, so that the watch sees the huge actions
    return env


def _close(env: gymnasium.Env) -> None:
    """Close an environment, and forget its model, which Newton 1.6.1 keeps in a cache: 3 KB of arrays for each environment."""
    from newton.selection import ArticulationView

    env.close()
    ArticulationView._get_attribute_array.cache_clear()


def mark_phases(env: gymnasium.Env, timeline: Timeline) -> None:
    """Time the phases of each environment step on `timeline`: physics, render, observation.

    Upstream (Isaac Lab 3.0.0): SimulationContext.step steps Newton and PhysX, SensorBase._update_outdated_buffers renders a camera
    when its data are read, SensorBase._process_batch renders all cameras at once.
    """
    from isaaclab.sensors import Camera, SensorBase

    simulated: Any = env.unwrapped
    # The camera cart-pole on Warp's frontend captures all physics steps of an environment step as one graph.
    owner, method = (simulated, "step_physics") if hasattr(simulated, "step_physics") else (simulated.sim, "step")
    timeline.wrap(owner, method, "physics")
    for sensor in simulated.scene.sensors.values():
        if isinstance(sensor, Camera):
            timeline.wrap(sensor, "_update_outdated_buffers", "render")
    # Used instead with `lazy_sensor_update: false`.
    timeline.wrap(SensorBase, "_process_batch", "render")
    frontends.mark_observation(simulated, timeline)
