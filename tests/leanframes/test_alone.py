"""leanframes installed by itself from its own wheel: PyTorch is all that it needs, and its numbers are those with Warp."""

import ast
import shutil
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from installed import environment_with, wheel_of
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from places import PROGRAMS, ROOT
from programs import ran, succeeded

PACKAGE = ROOT / "workflow/leanframes"

NOT_THERE = (
    "envknee", "gymnasium", "isaaclab", "leanframes", "mujoco", "newton", "rsl_rl", "tensordict", "torchrl", "triton", "warp",
)  # fmt: skip
"""Beginnings of the names of packages that an environment with PyTorch alone does not have."""

IMPORTED = """
import importlib, sys
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
        print(name)
    except ModuleNotFoundError as error:
        print(name, "needs", error.name)
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of an environment with leanframes and PyTorch."""
    root = tmp_path_factory.mktemp("alone")
    source = shutil.copytree(PACKAGE, root / "leanframes", ignore=shutil.ignore_patterns("__pycache__", "build"))
    return environment_with(wheel_of(source, root / "wheel"), root, NOT_THERE)


def run(python: Path | str, *words: Path | str, **variables: str) -> str:
    return succeeded(ran([python, *words], env=variables, timeout=300))


def test_frames_need_pytorch_alone_and_are_the_same_to_the_bit(alone: Path):
    has_warp, has_envknee, numbers = run(alone, PROGRAMS / "hash_frames.py").split()
    assert (has_warp, has_envknee) == ("False", "False")
    # Where it is installed, Warp prints what it found when it starts.
    here = run(sys.executable, PROGRAMS / "hash_frames.py", PYTHONPATH=str(PACKAGE.parent)).splitlines()[-1]
    assert here == f"True True {numbers}"


def test_what_is_not_there_is_missed_by_its_own_modules_alone(alone: Path):
    modules = sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__")
    printed = run(alone, "-c", IMPORTED, *(f"leanframes.{name}" for name in [*modules, "rsl_rl", "isaaclab"]))
    missing = dict(line.split(" needs ") for line in printed.splitlines() if " needs " in line)
    assert missing == {
        "leanframes.clipped_adam": "warp", "leanframes.fused": "triton", "leanframes.fused_kernels": "triton",
        "leanframes.kernels": "warp",
        "leanframes.policy_loss": "warp", "leanframes.rsl_rl": "rsl_rl", "leanframes.isaaclab": "gymnasium",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("folder", "extras"),
    [("", ["warp"]), ("rsl_rl", ["rsl-rl"]), ("isaaclab", ["isaaclab"])],
    ids=["base", "rsl_rl", "isaaclab"],
)
def test_each_folder_imports_what_its_extra_declares(folder: str, extras: list[str]):
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *(text for extra in extras for text in project["optional-dependencies"][extra])]
    declared = {canonicalize_name(Requirement(text).name) for text in texts}
    distributions = packages_distributions()
    imported = set()
    for source in (PACKAGE / folder).glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            imported |= {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"leanframes"}
    owners = {canonicalize_name(owner) for name in imported for owner in distributions.get(name, [name])}
    assert owners and owners <= declared
