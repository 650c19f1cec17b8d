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
from programs import ran, succeeded

PACKAGE = Path(__file__).parents[2] / "workflow/leanframes"

NOT_THERE = (
    "envknee", "gymnasium", "isaaclab", "leanframes", "mujoco", "newton", "rsl_rl", "tensordict", "torchrl", "triton", "warp",
)  # fmt: skip
"""Beginnings of the names of packages that an environment with PyTorch alone does not have."""

FRAMES = """
import hashlib, importlib.util, sys
import torch
from leanframes import LeanFrameStack, gather_normalized, normalized
from leanframes.launch import HAS_WARP
from leanframes.operations import copy_newest

random, hashed = torch.Generator().manual_seed(1), hashlib.sha256()
for height, width in ((8, 8), (7, 5)):
    stack = LeanFrameStack(num_envs=4, frames=3, device="cpu")
    frames, sums = torch.zeros(8, 4, 3, height, width, dtype=torch.uint8), torch.zeros(8, 4, 3, dtype=torch.int64)
    for step in range(8):
        images = torch.randint(0, 256, (4, height, width, 4), dtype=torch.uint8, generator=random)
        stack.reset(torch.rand(4, generator=random) < 0.3)
        stacked = stack(images[..., :3])
        copy_newest(stacked, frames[step], sums[step])
        hashed.update(stacked.numpy().tobytes() + normalized(stacked).numpy().tobytes())
    history, places = torch.randint(0, 3, (6, 4), dtype=torch.uint8, generator=random), torch.randperm(24, generator=random)
    gathered = gather_normalized(frames, sums, history, places, 3)
    hashed.update(gathered.numpy().tobytes() + sums.numpy().tobytes())
print(HAS_WARP, importlib.util.find_spec("envknee") is not None, hashed.hexdigest())
"""
"""Stacks, normalizes and gathers; prints whether Warp and envknee are there, and a hash of all numbers."""

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


def run(program: Path | str, code: str, *words: str, **variables: str) -> str:
    return succeeded(ran([program, "-c", code, *words], env=variables, timeout=300))


def test_frames_need_pytorch_alone_and_are_the_same_to_the_bit(alone: Path):
    has_warp, has_envknee, numbers = run(alone, FRAMES).split()
    assert (has_warp, has_envknee) == ("False", "False")
    # Where it is installed, Warp prints what it found when it starts.
    here = run(sys.executable, FRAMES, PYTHONPATH=str(PACKAGE.parent)).splitlines()[-1]
    assert here == f"True True {numbers}"


def test_what_is_not_there_is_missed_by_its_own_modules_alone(alone: Path):
    modules = sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__")
    printed = run(alone, IMPORTED, *(f"leanframes.{name}" for name in [*modules, "rsl_rl", "isaaclab"]))
    missing = dict(line.split(" needs ") for line in printed.splitlines() if " needs " in line)
    assert missing == {
        "leanframes.fused": "triton", "leanframes.fused_kernels": "triton", "leanframes.kernels": "warp",
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
