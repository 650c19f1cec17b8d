"""Compiles the kernels of Newton and Isaac Lab in parallel, before a first simulation would compile them one by one.

Warp 1.17 compiles a module on one core when one of its kernels is first launched (`Module.load`). `warp.force_load` compiles several
modules in as many threads.
"""

import importlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import warp

MODULES = (
    "isaaclab.actuators.actuator_kernels",
    "isaaclab.sensors.camera.camera",
    "isaaclab.sensors.kernels",
    "isaaclab.utils.images",
    "isaaclab_newton.assets.articulation.kernels",
    "isaaclab_newton.assets.kernels",
    "isaaclab_newton.physics.newton_manager",
    "isaaclab_newton.renderers.newton_warp_renderer",
    "isaaclab_newton.sim.views.newton_site_frame_view",
    "mujoco_warp._src.constraint",
    "mujoco_warp._src.derivative",
    "mujoco_warp._src.forward",
    "mujoco_warp._src.io",
    "mujoco_warp._src.passive",
    "mujoco_warp._src.sensor",
    "mujoco_warp._src.smooth",
    "mujoco_warp._src.solver",
    "mujoco_warp._src.support",
    "newton._src.geometry.bvh",
    "newton._src.sim.articulation",
    "newton._src.utils.selection",
)
"""Modules that a camera task on Newton's MuJoCo solver loads (Isaac Lab 3.0.0, Newton 1.6.1). Modules with kernels generated at run time
cannot be listed. Modules that another version lacks are skipped."""

BLOCK_DIM = {"cpu": 1, "cuda": 256}
"""Warp's default threads per block, by kind of device. Warp compiles a module for each block size."""

MOST_THREADS = 16
"""Each thread takes some hundred MB of memory."""


def imported(env_cfg: Any) -> list[Any]:
    """Import the modules with an environment's kernels on Newton, and return Warp's modules of them; none for other physics engines."""
    if not type(env_cfg.sim.physics).__module__.startswith("isaaclab_newton"):
        return []
    modules = []
    for name in MODULES:
        with suppress(ImportError):
            importlib.import_module(name)
            modules.append(warp.get_module(name))
    return modules


def compile_side_by_side(modules: list[Any], device: str) -> None:
    """Compile the kernels of Warp's modules for a device, on all cores."""
    threads = min(MOST_THREADS, len(os.sched_getaffinity(0)))
    warp.force_load(device, modules, BLOCK_DIM[device.partition(":")[0]], threads)


def file_of_lean_kernels() -> Path:
    """Return the file with the kernels of lean frames, which a trial with `observations: lean` compiles, too."""
    from leanframes import kernels

    return Path(str(kernels.__file__))
