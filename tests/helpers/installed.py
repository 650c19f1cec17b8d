"""A project's wheel, and environments that hold it: every other package is borrowed from this environment, or is not there."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from programs import python, succeeded


def wheel_of(project: Path, folder: Path) -> Path:
    """Build a project's wheel in `folder`."""
    words = ["wheel", project, "--no-deps", "--no-build-isolation", "-w", folder]
    succeeded(python("-m", "pip", *words, timeout=300))
    (wheel,) = folder.glob("*.whl")
    return wheel


def environment_with(wheel: Path, root: Path, not_there: Sequence[str]) -> Path:
    """Return the Python of a new environment in `root` with a wheel in it.

    `not_there` are beginnings of the names of packages that it does not borrow.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "venv")], check=True, timeout=120)
    program = root / "venv/bin/python"
    succeeded(python("-m", "pip", "--python", program, "install", "--no-deps", "--no-index", wheel, timeout=120))
    borrowed = root / "borrowed"
    borrowed.mkdir()
    (site,) = (root / "venv").glob("lib/python3*/site-packages")
    (ours,) = Path(sys.prefix).glob("lib/python3*/site-packages")
    for entry in ours.iterdir():
        if not entry.name.lower().startswith(tuple(not_there)):
            (borrowed / entry.name).symlink_to(entry)
    (site / "borrowed.pth").write_text(f"{borrowed}\n", encoding="utf-8")
    return program
