"""Parts that not every machine has: how tests find each of them, and what installs it. Run, it prints those that are missing.

A test that lacks a part skips, and its reason says how to install the part. Whoever has just installed parts names them in
`ENVKNEE_INSTALLED`, as `.ci/run` does: there a test that lacks one of them fails.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

INSTALLED = "ENVKNEE_INSTALLED"

SLURM_PROGRAMS = ("munged", "slurmctld", "slurmd", "sinfo", "scontrol", "srun", "sbatch", "sstat")


def system_path() -> str:
    """Return PATH with the folders of daemons, which are not on an ordinary user's."""
    return os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])


def chromium() -> str | None:
    """Return the path of a Chromium."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def weed() -> str | None:
    """Return the path of SeaweedFS, which pip installs beside Python."""
    return shutil.which("weed", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


def postgresql() -> Path | None:
    """Return the folder with the programs of the newest PostgreSQL: Debian puts few of them on PATH."""
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


def _module(*names: str) -> bool:
    return all(importlib.util.find_spec(name) for name in names)


def _programs(*names: str) -> bool:
    return all(shutil.which(name, path=system_path()) for name in names)


def _libraries_of_ovphysx() -> bool:
    from envknee.tasks import physics  # its table is the one that users are shown

    return not physics.missing_libraries()


@dataclass(frozen=True)
class Part:
    """A part that a test may need."""

    is_here: Callable[[], bool]
    install: str
    """A command, in words for a person."""


PARTS = {
    "rsl_rl": Part(lambda: _module("rsl_rl"), "make setup"),
    "rl_games": Part(lambda: _module("rl_games"), "make setup TRAINERS=all"),
    "skrl": Part(lambda: _module("skrl"), "make setup TRAINERS=all"),
    "sb3": Part(lambda: _module("stable_baselines3"), "make setup TRAINERS=all"),
    "torchrl": Part(lambda: _module("torchrl"), "make setup TRAINERS=all"),
    "ray": Part(lambda: _module("ray"), "make setup TRAINERS=ray"),
    "ovphysx": Part(lambda: _module("ovphysx"), "make setup PHYSICS=ovphysx"),
    "ovphysx-libraries": Part(
        _libraries_of_ovphysx, "apt-get install libgl1 libglx0 libglvnd0 libopengl0 libx11-6 libxt6 libhwloc15"
    ),
    "mkdocs": Part(lambda: _module("mkdocs", "material"), "make setup"),
    "seaweedfs": Part(lambda: weed() is not None, "make setup, on Linux x86-64"),
    "chromium": Part(lambda: chromium() is not None, "apt-get install chromium"),
    "postgresql": Part(lambda: postgresql() is not None, "apt-get install postgresql"),
    "slurm": Part(lambda: _programs(*SLURM_PROGRAMS), "apt-get install slurmctld slurmd slurm-client munge"),
    "podman": Part(lambda: _programs("podman"), "apt-get install podman runc"),
    "strace": Part(lambda: _programs("strace"), "apt-get install strace"),
    "apptainer": Part(lambda: _programs("apptainer"), "on Debian 12, as root: containers/install-apptainer.sh"),
    "debootstrap": Part(lambda: _programs("debootstrap"), "apt-get install debootstrap"),
    "newuidmap": Part(lambda: _programs("newuidmap"), "apt-get install uidmap"),
}
"""By name. A trainer's is what a study calls it."""


def need(*names: str) -> None:
    """Skip the test, or the module, that lacks one of these parts; fail where that part was just installed."""
    __tracebackhide__ = (
        True  # the reason stands at the test: pytest-xdist passes on one module for each place and reason
    )
    installed = os.environ.get(INSTALLED, "").split()
    unknown = [name for name in installed if name not in PARTS]
    assert not unknown, f"{INSTALLED} names {' '.join(unknown)}: expected some of {' '.join(PARTS)}"
    for name in names:
        part = PARTS[name]
        if part.is_here():
            continue
        if name in installed:
            pytest.fail(f"{name} was installed ({part.install}), and it is not found here")
        pytest.skip(f"needs {name}: {part.install}", allow_module_level=True)


if __name__ == "__main__":
    for name, part in PARTS.items():
        if not part.is_here():
            print(name)
