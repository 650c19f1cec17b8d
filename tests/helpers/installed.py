"""A project's wheel, and environments that hold it: other packages are borrowed from this environment, or are not there."""

import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
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
    return _environment(wheel, root, lambda name: not name.lower().startswith(tuple(not_there)))


def environment_as_declared(wheel: Path, root: Path) -> Path:
    """Return the Python of a new environment in `root` as `pip install` of a wheel makes it: with what it declares, and nothing else."""
    return _environment(wheel, root, _installed_for(wheel).__contains__)


def _environment(wheel: Path, root: Path, is_borrowed: Callable[[str], bool]) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "venv")], check=True, timeout=120)
    program = root / "venv/bin/python"
    succeeded(python("-m", "pip", "--python", program, "install", "--no-deps", "--no-index", wheel, timeout=120))
    borrowed = root / "borrowed"
    borrowed.mkdir()
    (site,) = (root / "venv").glob("lib/python3*/site-packages")
    (ours,) = Path(sys.prefix).glob("lib/python3*/site-packages")
    for entry in ours.iterdir():
        if is_borrowed(entry.name):
            (borrowed / entry.name).symlink_to(entry)
    (site / "borrowed.pth").write_text(f"{borrowed}\n", encoding="utf-8")
    return program


def _installed_for(wheel: Path) -> set[str]:
    """Return the entries of this environment's site-packages that belong to what a wheel needs without extras, and to what that needs."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        declared = re.findall(r"^Requires-Dist: (.*)$", archive.read(metadata).decode(), re.MULTILINE)
    entries: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(Requirement(text), frozenset({""})) for text in declared]
    while waiting:
        requirement, extras = waiting.pop()
        needed = canonicalize_name(requirement.name), frozenset(requirement.extras | {""})
        applies = requirement.marker is None or any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
        if not applies or needed in seen:
            continue
        seen.add(needed)
        package = distribution(requirement.name)
        entries |= {file.parts[0] for file in package.files or []}
        waiting += [(Requirement(text), needed[1]) for text in package.requires or []]
    return entries
