"""Where the files beside the package lie: the Snakefile, its rules and captions. In a checkout beside it; in a wheel inside it."""

from pathlib import Path

_PACKAGE = Path(__file__).parents[1]

ROOT = _PACKAGE.parents[1] if (_PACKAGE.parents[1] / "Snakefile").is_file() else _PACKAGE / "project"
"""The folder with the Snakefile, `workflow/rules`, `workflow/report` and `workflow/profiles`."""
