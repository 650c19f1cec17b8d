"""`deterministic: true`: the same request gives the same training, bit for bit, on the same kind of machine.

On a CPU, these settings, seeds and a single thread (`run.resources`) are enough. Warp runs a kernel there as one loop with its
atomics in order (Warp 1.17, codegen.py: `for (size_t task_index = 0; ...)`), and Isaac Lab seeds every generator from the trial's seed.
The single thread is for PyTorch, which splits sums over threads.

On a GPU, Warp sorts the additions of its atomics (DeterministicMode.RUN_TO_RUN, which Newton passes on to MuJoCo-Warp), and cuBLAS gets a
fixed workspace. PyTorch uses deterministic kernels, and warns in the trial's log if it has none. `envknee repeats` measures
the differences that remain.

Another kind of CPU or GPU, or other versions, round differently. A trial that the clock ends (`budget_s`) may have more or fewer
iterations; those that two trials share are equal.
"""

import hashlib
import importlib
import sys
from collections.abc import Mapping
from typing import Any

import torch
import warp

SENSORS = "mujoco_warp._src.sensor"
"""MuJoCo's own sensors, whose values no step of Isaac Lab reads. Warp refuses to make them deterministic, and with them every simulation:
their kernels add to an array and take its maximum (google-deepmind/mujoco_warp issue 1590; MuJoCo-Warp 3.12.0, Warp 1.17)."""


def require(device: str) -> None:
    """Make PyTorch and Warp deterministic; `device` is 'cpu' or 'cuda:0'.

    Call this before Warp's modules are loaded, and again after seeding: that of Isaac Lab turns cuDNN's benchmark on
    (isaaclab.utils.seed.configure_seed, 3.0.0), as skrl's and RL-Games do. It times kernels and may choose others in the next run.
    """
    # Without a deterministic kernel, a trial on a CPU fails, because the promise is strict there. On a GPU it only warns.
    torch.use_deterministic_algorithms(True, warn_only=device != "cpu")
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    if device != "cpu":  # on a CPU it would change nothing and recompile every kernel
        warp.config.deterministic = warp.DeterministicMode.RUN_TO_RUN
        from newton._src.solvers.mujoco import solver_mujoco

        solver_mujoco._mujoco_warp_deterministic_modules = _without_sensors
        sensors = importlib.import_module(SENSORS)
        warp.set_module_options({"deterministic": warp.DeterministicMode.NOT_GUARANTEED}, module=sensors)


def _without_sensors() -> list[Any]:
    """Return the loaded modules of MuJoCo-Warp that Newton makes deterministic, in place of Newton's own function (1.6.1)."""
    return [module for name, module in sys.modules.items() if name.startswith("mujoco_warp._src.") and name != SENSORS]


def digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return a SHA-256 of the tensors' names, types, shapes and bits."""
    sha256 = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        on_host = tensor.detach().cpu().contiguous()
        sha256.update(f"{name} {on_host.dtype} {tuple(on_host.shape)}\n".encode())
        sha256.update(on_host.reshape(-1).view(torch.uint8).numpy().tobytes())
    return sha256.hexdigest()
