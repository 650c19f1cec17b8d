"""The folder of the Snakefile, its rules and captions: beside the package in a checkout, inside it in a wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]

ROOT = _PACKAGE.parents[1] if (_PACKAGE.parents[1] / "Snakefile").is_file() else _PACKAGE / "project"
"""The folder with the Snakefile, `workflow/rules`, `workflow/report` and `workflow/profiles`."""
