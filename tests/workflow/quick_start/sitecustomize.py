"""With this folder on PYTHONPATH Snakemake and MLflow's server start in two thirds of the CPU time: tests start them 200 times.

Python looks less often for garbage among what is imported and stays, and pandas is imported when something of it is used: the SLURM
plug-in imports it for a report that nobody asks for.
"""

import gc
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any


class Later(ModuleType):
    """A module that is imported with the first look at it."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


if {"snakemake", "mlflow", "uvicorn"} & {Path(word).name for word in sys.orig_argv[:3]}:
    gc.set_threshold(100_000)
    if (spec := find_spec("pandas")) is not None:
        sys.modules["pandas"] = pandas = Later("pandas")
        pandas.__spec__ = spec
