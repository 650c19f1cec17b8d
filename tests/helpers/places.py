"""Where the parts of the project lie that tests read and start."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests/programs"
