"""What is installed in this Python's environment, in the words of CycloneDX 1.5.

Input: a name for the whole. Output: JSON on standard output, the same for the same packages: no time, no random identity.

    python containers/sbom.py isaaclab
"""

import json
import re
import sys
from importlib.metadata import distributions


def bill(name: str) -> dict[str, object]:
    """Return the bill of materials of this environment; `name` is what it is called."""
    found = {(re.sub(r"[-_.]+", "-", item.name).lower(), item.version) for item in distributions()}
    python = {"type": "platform", "name": "cpython", "version": sys.version.split()[0]}
    packages = [
        {"type": "library", "name": package, "version": version, "purl": f"pkg:pypi/{package}@{version}"}
        for package, version in sorted(found)
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name}},
        "components": [python, *packages],
    }


if __name__ == "__main__":
    print(json.dumps(bill(sys.argv[1]), indent=1))
