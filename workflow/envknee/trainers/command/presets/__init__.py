"""Programs whose flags and logs are known: a YAML file each. `envknee.study.presets` reads them."""

from pathlib import Path

FOLDER = Path(__file__).parent


def names() -> list[str]:
    """Return the names of envknee's own presets."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))
