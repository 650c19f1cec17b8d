"""Writes hashes.lock anew after a change of the other lock files: which files a package index may serve for each pin.

Input: the lock files beside this program; `uv` on PATH, whose own settings name the index. Output: hashes.lock, a line
`NAME==VERSION SHA256 FILE` for each wheel that runs on Linux x86-64 with CPython 3.11 or 3.12, and for the source of what has none.
Lines of files that the index does not list, such as PyTorch's CPU builds, stay while their version is pinned.

    python containers/hashes.py
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).parent
HASHES = HERE / "hashes.lock"
LOCKS = (*sorted(HERE.glob("requirements*.lock")), HERE.parent / "workflow/requirements.lock")
PIN = re.compile(r"^([a-z0-9-]+)==([^ \n]+)", re.MULTILINE)
PYTHONS = ("3.11", "3.12")
NEEDS_312 = "isaaclab"
"""Declares Python 3.12 alone, and runs on 3.11 (install.sh)."""


def runs_here(file: str) -> bool:
    """Tell whether a wheel runs on Linux x86-64 with CPython 3.11 or 3.12."""
    python, abi, platform = file.removesuffix(".whl").split("-")[-3:]
    fits_python = {"py3", "py311", "py312", "cp311", "cp312"} & set(python.split(".")) or abi == "abi3"
    fits_platform = platform == "any" or ("x86_64" in platform and "linux" in platform and "musl" not in platform)
    return bool(fits_python) and fits_platform and not abi.endswith("t")


def listed(python: str, pins: dict[str, str]) -> set[tuple[str, str, str]]:
    """Return (pin, sha256, file) of all that the index lists for `pins`, as uv reads it for one Python."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder, "wanted.in"), Path(folder, "pylock.toml")
        wanted.write_text("".join(f"{name}=={version}\n" for name, version in pins.items()), encoding="utf-8")
        words = ["uv", "pip", "compile", "--quiet", "--no-deps", "--universal", "--format", "pylock.toml"]
        subprocess.run([*words, "--python-version", python, str(wanted), "-o", str(found)], check=True)
        packages = tomllib.loads(found.read_text(encoding="utf-8"))["packages"]
    rows = set()
    for package in packages:
        pin = f"{package['name']}=={pins[package['name']]}"
        wheels = [file for file in package.get("wheels", []) if runs_here(file_name(file))]
        for file in wheels or [package["sdist"]]:
            rows.add((pin, file["hashes"]["sha256"], file_name(file)))
    return rows


def file_name(file: dict[str, str]) -> str:
    """Return what a file of pylock.toml is called (PEP 751)."""
    return unquote(urlsplit(file["url"]).path.rpartition("/")[2])


def main() -> None:
    """Write hashes.lock."""
    pins = {name: version for lock in LOCKS for name, version in PIN.findall(lock.read_text(encoding="utf-8"))}
    rows: set[tuple[str, str, str]] = set()
    if HASHES.exists():
        pinned = {f"{name}=={version}" for name, version in pins.items()}
        for line in HASHES.read_text(encoding="utf-8").splitlines():
            if not line.startswith("#"):
                pin, digest, file = line.split(" ")
                if "+" in file and pin in pinned:
                    rows.add((pin, digest, file))
    for python in PYTHONS:
        here = {name: version for name, version in pins.items() if python == PYTHONS[-1] or name != NEEDS_312}
        rows |= listed(python, here)
    missing = pins.keys() - {pin.partition("==")[0] for pin, _, _ in rows}
    if missing:
        sys.exit(f"no file for {', '.join(sorted(missing))}: hashes.lock is as it was")
    lines = [" ".join(row) for row in sorted(rows, key=lambda row: (row[0], row[2]))]
    HASHES.write_text(
        "# What a package index may serve for each pin of the lock files: NAME==VERSION SHA256 FILE. Written by hashes.py.\n"
        + "\n".join(lines)
        + "\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    main()
