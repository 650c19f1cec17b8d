"""Write the licence of each package in lock files, as its author names it. `make locks` runs it.

Input: lock files. Output: CSV on standard output: package, version, licence, and the lists it is in. It asks the package index for
metadata alone, and installs nothing.

    python containers/licences.py containers/requirements.lock containers/requirements-cuda.lock
"""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sbom import licence, normal_name

OPTIONS = (
    "--dry-run", "--ignore-installed", "--ignore-requires-python", "--no-deps", "--quiet", "--disable-pip-version-check",
    "--report", "-",
)  # fmt: skip

COLUMNS = ("package", "version", "licence", "lists")


def metadata_in(lock: Path) -> Iterator[dict[str, Any]]:
    """Yield the metadata of each package of a lock file."""
    command = [sys.executable, "-m", "pip", "install", *OPTIONS, "-r", str(lock)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    for package in json.loads(done.stdout)["install"]:
        yield package["metadata"]


def licence_in(metadata: dict[str, Any]) -> str:
    """Return the licence in metadata as pip reports it, or where to read it."""
    named = licence(metadata.get("license_expression"), metadata.get("classifier", []), metadata.get("license"))
    if named:
        return named
    files = metadata.get("license_file", [])
    return f"names none; see {', '.join(files)} in the package" if files else "names none"


def main() -> None:
    """Write one line for each package, by name."""
    rows: dict[tuple[str, str], tuple[str, list[str]]] = {}
    for lock in map(Path, sys.argv[1:]):
        for metadata in metadata_in(lock):
            package = normal_name(metadata["name"]), metadata["version"]
            _, lists = rows.setdefault(package, (licence_in(metadata), []))
            lists.append(f"{lock.parent.name}/{lock.name}")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for (name, version), (named, lists) in sorted(rows.items()):
        out.writerow((name, version, named, " ".join(lists)))


if __name__ == "__main__":
    main()
