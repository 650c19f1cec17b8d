"""Import all that the image holds, step the camera cart-pole once, and normalize an image as `observations: lean` does.

Runs inside the image, which has nothing of the project but leanframes/kernels.py, as lean_kernels.py.

Building the image runs it to compile Warp's kernels into WARP_CACHE_PATH, and `%test` to see that it works. Kernels for
the CPU come with the step. With architectures they are compiled for those GPUs, too, and that needs no GPU: Warp's
wheel brings NVIDIA's compiler. Which kernels those are follows from the step on the CPU: the same ones, with as many
threads in a block as were asked for there; the one that Newton takes on a GPU alone is added.

    python /opt/envknee/step_once.py [ARCHITECTURE...]         such as 90 for sm_90
"""

import argparse
import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOCKS = ("requirements.lock", "requirements-cpu.lock", "requirements-trainers.lock")
MODULES = (
    "isaaclab", "isaaclab_tasks", "isaaclab_rl", "isaaclab_newton", "newton", "warp", "mujoco", "mujoco_warp", "pxr.Usd",
    "torch", "rsl_rl.runners", "tensordict", "gymnasium", "hydra", "omni.client", "pynvml", "psutil", "pydantic", "yaml",
    "rl_games.algos_torch.torch_ext", "skrl", "stable_baselines3", "torchrl",
)  # fmt: skip
"""What the packages that the lock files ask for by name are imported as."""


def main() -> None:
    """Check versions, import, step."""
    parser = argparse.ArgumentParser(description="Step the camera cart-pole once, and compile its kernels for GPUs.")
    parser.add_argument("architectures", nargs="*", type=int, metavar="ARCHITECTURE", help="such as 90 for sm_90")
    architectures = parser.parse_args().architectures
    locks = "".join((HERE / name).read_text(encoding="utf-8") for name in LOCKS)
    pins = re.findall(r"^([a-z0-9-]+)==(\S+)", locks, re.MULTILINE)
    # Of PyTorch either build may be here.
    wrong = [f"{name} {version(name)}" for name, pin in pins if version(name).split("+")[0] != pin.split("+")[0]]
    if wrong:
        raise SystemExit(f"the image holds other versions than its lock files: {', '.join(wrong)}")
    # As trials do (envknee.tasks), before modules of kernels are imported.
    importlib.import_module("warp").config.enable_backward = False
    for name in MODULES:
        importlib.import_module(name)
    with also_compiled_for(architectures) as compiled:
        reward = step()
        normalize_leanly()
    print(f"{len(pins)} packages; one step of Isaac-Cartpole-Camera-Direct: reward {reward}")
    if architectures:
        print(f"{len(compiled)} kernel modules for sm_{', sm_'.join(map(str, architectures))}")


def normalize_leanly() -> None:
    """Load the kernels of `observations: lean`, as trials will: Warp knows them by their module's name and text."""
    import numpy
    import warp

    spec = importlib.util.spec_from_file_location("leanframes.kernels", HERE / "lean_kernels.py")
    assert spec is not None and spec.loader is not None
    kernels = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernels)
    pixels, values = [0, 255, 0, 255], warp.zeros((1, 4), dtype=warp.float32, device="cpu")
    words = warp.array(numpy.array([pixels], dtype=numpy.uint8).view(numpy.uint32), dtype=warp.uint32, device="cpu")
    kernel = kernels.INTO[kernels.normalize_words, warp.float32]
    warp.launch(kernel, dim=(1, 1), inputs=[words, 255.0 * len(pixels), 1, values], device="cpu")
    if values.numpy().tolist() != [[-0.5, 0.5, -0.5, 0.5]]:
        raise SystemExit(f"the image's kernels normalize {pixels} to {values.numpy().tolist()}, expected -0.5 and 0.5")


def step() -> list[float]:
    """Return the rewards of one step of two environments."""
    import gymnasium
    import torch
    from isaaclab_tasks.utils import parse_env_cfg

    task = "Isaac-Cartpole-Camera-Direct"
    config = parse_env_cfg(task, device="cpu", num_envs=2)
    config.scene.cartpole.spawn.usd_path = str(HERE / "cartpole.usda")
    config.scene.tiled_camera.width = config.scene.tiled_camera.height = 24
    env = gymnasium.make(task, cfg=config)
    env.reset()
    _, reward, *_ = env.step(torch.zeros(2, 1))
    return [round(value, 3) for value in reward.tolist()]


@contextmanager
def also_compiled_for(architectures: list[int]) -> Iterator[set[str]]:
    """Compile each kernel that is loaded inside for the architectures, too; yields the names of those modules.

    Warp's own ahead-of-time compilation takes one block size per module, and its CPU knows only 1: what a launch asked
    for is noted before Warp replaces it. Modules are compiled when they are loaded, as a GPU would, since they may
    grow by further kernels later.
    """
    import warp
    from newton._src.sim import articulation, articulation_cuda
    from warp._src.context import Module, launch

    compiled: set[str] = set()
    load, launch_tiled, eval_fk = Module.load, warp.launch_tiled, articulation.eval_fk
    asked_for = 256

    def compile_for_all(module: Module, block_dim: int) -> None:
        name = module.get_module_identifier(block_dim)
        if name in compiled:
            return
        compiled.add(name)
        options = module.resolve_options(warp.config, block_dim=block_dim)
        # Threads are enough: the compiler runs outside of Python's lock.
        for done in [
            pool.submit(module._compile, output_arch=architecture, use_ptx=False, options=options)
            for architecture in architectures
        ]:
            done.result()

    def noting(function: Any) -> Any:
        def noted(*words: Any, block_dim: int = 256, **more: Any) -> Any:
            nonlocal asked_for
            asked_for = block_dim if block_dim > 0 else 256
            return function(*words, block_dim=block_dim, **more)

        return noted

    def loaded(module: Module, device: Any, block_dim: int | None = None, *words: Any, **more: Any) -> Any:
        compile_for_all(module, asked_for)
        return load(module, device, block_dim, *words, **more)

    def with_the_gpus_own(model: Any, *words: Any) -> Any:
        kernel = articulation_cuda.create_eval_articulation_fk_tile(
            model._fk_level_capacity, True, model._has_rod_joints
        )
        compile_for_all(kernel.module, articulation_cuda.TILE_BLOCK_DIM)
        return eval_fk(model, *words)

    replaced = [
        (warp, "launch", noting(launch)),
        (warp, "launch_tiled", noting(launch_tiled)),
        (Module, "load", loaded),
        (importlib.import_module("isaaclab_newton.physics.newton_manager"), "eval_fk", with_the_gpus_own),
    ]
    if not architectures:
        yield compiled
        return
    before = [getattr(owner, name) for owner, name, _ in replaced]
    with ThreadPoolExecutor() as pool:
        for owner, name, instead in replaced:
            setattr(owner, name, instead)
        try:
            yield compiled
        finally:
            for (owner, name, _), one in zip(replaced, before, strict=True):
                setattr(owner, name, one)


if __name__ == "__main__":
    main()
    # Isaac Lab's and Warp's own shutdown may hang or crash after all is done: leave without it.
    import os

    sys.stdout.flush()
    os._exit(0)
