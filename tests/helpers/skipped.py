"""Prints the tests that a run skipped, a line each, as pytest takes them.

    pytest --junitxml=FILE -o junit_family=xunit1
    python tests/helpers/skipped.py FILE >LIST
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
        skipped.append(_name_of(case))
    return skipped


def _name_of(case: ElementTree.Element) -> str:
    """Return what pytest calls a test, which `side_by_side.py` notes, or the file of a module that was skipped as a whole."""
    names = [note.attrib["value"] for note in case.iter("property") if note.attrib["name"] == "test"]
    return names[0] if names else case.attrib["file"]


if __name__ == "__main__":
    for test in skipped_in(Path(sys.argv[1])):
        print(test)
