"""Prints how deterministic Warp makes each module of kernels that a trial with `deterministic: true` has on a GPU; needs none."""

import importlib

import warp
from envknee.tasks.kernels import MODULES
from envknee.trainers.common import determinism
from warp._src.context import ModuleBuilder

determinism.require("cuda:0")
from newton._src.solvers.mujoco.solver_mujoco import SolverMuJoCo  # noqa: E402  it reads what determinism has set

modules = [importlib.import_module(name) for name in MODULES]
solver = object.__new__(SolverMuJoCo)  # its model would need a GPU
solver._module_options, solver._deterministic, solver._deterministic_max_records = {}, warp.config.deterministic, 8
solver._set_mujoco_warp_module_options()
for name in MODULES:
    module = warp.get_module(name)
    ModuleBuilder(module, module.resolve_options(warp.config)).codegen("cuda")
    print(name, module.options["deterministic"].name)
