"""Checks that a task's physics and renderers run without Isaac Sim: Newton's do, and PhysX as OvPhysX."""

import ctypes
import importlib.util
from functools import wraps
from typing import Any, Literal

from envknee.study.errors import UserError

OVPHYSX: Literal["ovphysx"] = "ovphysx"
"""Name of the preset, and of the package, of PhysX without Isaac Sim."""

WHEELS = (OVPHYSX, "ovstage")
"""Packages that OvPhysX needs; containers/requirements-ovphysx.lock pins them."""

LIBRARIES = {
    "libGL.so.1": "libgl1",
    "libGLX.so.0": "libglx0",
    "libGLdispatch.so.0": "libglvnd0",
    "libOpenGL.so.0": "libopengl0",
    "libX11.so.6": "libx11-6",
    "libXt.so.6": "libxt6",
    "libhwloc.so.15": "libhwloc15",
}
"""System libraries that these packages load, with their Debian packages. Without them PhysX only says
`ovstage_create_instance failed (code 99)`."""

REMEDY = (
    "Where the task has such variants, set task.overrides `presets: newton_mjwarp`, `presets: ovphysx` (PhysX without Isaac Sim)"
    " or `presets: newton_renderer`"
)


def check(env_cfg: Any) -> None:
    """Check that the physics and cameras of a configured task run here.

    Raises:
        UserError: names the part that does not run and an alternative, or the missing packages.
    """
    if backend(env_cfg) != OVPHYSX:
        return
    missing = [name for name in WHEELS if importlib.util.find_spec(name) is None]
    if missing:
        raise UserError(
            f"presets: {OVPHYSX}: PhysX without Isaac Sim needs {' and '.join(missing)}, which is not installed here. Install with"
            " `make setup PHYSICS=ovphysx`, or `pip install --no-deps -r containers/requirements-ovphysx.lock` where trials run"
        )
    absent = missing_libraries()
    if absent:
        raise UserError(
            f"presets: {OVPHYSX}: PhysX without Isaac Sim needs libraries of the system that are missing here. Install with"
            f" `apt-get install {' '.join(absent)}`, or unpack these packages and name their folder in LD_LIBRARY_PATH"
        )


def missing_libraries() -> list[str]:
    """Return the Debian packages of the system's libraries that OvPhysX needs and this machine lacks."""
    return [package for library, package in LIBRARIES.items() if not _loads(library)]


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def backend(env_cfg: Any) -> Literal["newton", "ovphysx"]:
    """Return the physics engine of a configured task, installed or not.

    Upstream: PhysxAutoCfg becomes OvPhysX when Isaac Sim is not running (SimulationContext of Isaac Lab 3.0.0).

    Raises:
        UserError: when its physics or a camera's renderer needs Isaac Sim, or is not supported by envknee.
    """
    from isaaclab.physics import PhysxAutoCfg
    from isaaclab.sensors import CameraCfg

    physics = getattr(env_cfg.sim, "physics", None)
    if isinstance(physics, PhysxAutoCfg):
        physics = physics.ovphysx or physics.isaacsim_physx
    if not type(physics).__module__.startswith(("isaaclab_newton.", "isaaclab_ov.")):
        kind = "PhysX, Isaac Lab's default" if physics is None else type(physics).__name__
        raise UserError(f"task.id: its physics ({kind}) needs Isaac Sim, and envknee runs without it. {REMEDY}")
    for name, camera in vars(env_cfg.scene).items():
        if isinstance(camera, CameraCfg):
            reason = _why_not_rendered(camera.renderer_cfg)
            if reason:
                kind = type(camera.renderer_cfg).__name__
                raise UserError(f"task.id: its camera {name!r} is rendered by {kind}, which {reason}. {REMEDY}")
    return "newton" if type(physics).__module__.startswith("isaaclab_newton.") else OVPHYSX


def _why_not_rendered(renderer: Any) -> str | None:
    """Return why a renderer does not run here; None if it does."""
    if type(renderer).__module__.startswith("isaaclab_newton."):
        return None
    if renderer.renderer_type in ("ovrtx", "auto_rtx"):  # without Isaac Sim the automatic choice is OVRTX
        return (
            "is OVRTX without Isaac Sim, which envknee does not support: it must be started before the scene is built"
            " (isaaclab.app.launch_simulation), and could not be tested (it needs the package ovrtx and a GPU that traces rays)"
        )
    return "needs Isaac Sim, and envknee runs without it"


def use_without_gpu() -> None:
    """Make Isaac Lab's OvPhysX assets run on a machine without a GPU: Warp then allocates pageable memory.

    The assets always request pinned host memory, which Warp lacks without CUDA. Upstream:
    isaaclab_ov.assets.articulation.articulation of Isaac Lab 3.0.0.
    """
    import warp

    if warp.is_cuda_available():
        return
    for name in ("zeros", "empty"):
        original = getattr(warp, name)
        if not hasattr(original, "__wrapped__"):
            setattr(warp, name, _pageable(original))


def _pageable(original: Any) -> Any:
    @wraps(original)
    def allocate(*arguments: Any, **keywords: Any) -> Any:
        return original(*arguments, **(keywords | {"pinned": False}))

    return allocate
