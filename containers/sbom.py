"""What is installed in this Python's environment, with the licence that each package names, in the words of CycloneDX 1.5.

Input: a name for the whole. Output: JSON on standard output, the same for the same packages: no time, no random identity.

    python containers/sbom.py isaaclab
"""

import json
import re
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions

OF_CLASSIFIER = "License :: "


def licence(expression: str | None, classifiers: Sequence[str], text: str | None) -> str:
    """Return the licence that the metadata of a package names (PEP 639's expression first); "" if it names none.

    Args:
        expression: `License-Expression`, an SPDX expression
        classifiers: `Classifier`, such as `License :: OSI Approved :: MIT License`
        text: `License`: a name, or the whole text, of which the first line is taken
    """
    if expression:
        return expression
    named = [classifier.rpartition(" :: ")[2] for classifier in classifiers if classifier.startswith(OF_CLASSIFIER)]
    if named := [name for name in named if name != "OSI Approved"]:  # which one, it does not say
        return " and ".join(named)
    return (text or "").strip().partition("\n")[0].strip()


def component(found: Distribution) -> dict[str, object]:
    """Return a package as a component, with its licence if it names one."""
    package = normal_name(found.name)
    named = licence(
        found.metadata.get("License-Expression"),
        found.metadata.get_all("Classifier", []),
        found.metadata.get("License"),
    )
    said = {"licenses": [{"license": {"name": named}}]} if named else {}
    purl = f"pkg:pypi/{package}@{found.version}"
    return {"type": "library", "name": package, "version": found.version, "purl": purl} | said


def normal_name(package: str) -> str:
    """Return the one way to write a package's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", package).lower()


def bill(name: str) -> dict[str, object]:
    """Return the bill of materials of this environment; `name` is what it is called."""
    python = {"type": "platform", "name": "cpython", "version": sys.version.split()[0]}
    packages = {str(item["purl"]): item for item in map(component, distributions())}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name}},
        "components": [python, *(packages[purl] for purl in sorted(packages))],
    }


if __name__ == "__main__":
    print(json.dumps(bill(sys.argv[1]), indent=1))
