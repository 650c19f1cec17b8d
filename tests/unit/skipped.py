"""Prints the tests that a run skipped, a line each, as pytest takes them.

    pytest --junitxml=FILE -o junit_family=xunit1
    python tests/unit/skipped.py FILE >LIST
    pytest @LIST

A module that was skipped as a whole is named by its file.
"""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def skipped_in(report: Path) -> list[str]:
    """Return the skipped tests of a report in pytest's format xunit1, which names their files, in its order."""
    skipped = []
    for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314  pytest wrote this file a moment ago
        reason = case.find("skipped")
        if reason is None or reason.get("type") == "pytest.xfail":
            continue
        file, name = case.attrib["file"], case.attrib["name"]
        is_whole_module = name == file.removesuffix(".py").replace("/", ".")
        skipped.append(file if is_whole_module else f"{file}::{name}")
    return skipped


if __name__ == "__main__":
    for test in skipped_in(Path(sys.argv[1])):
        print(test)
