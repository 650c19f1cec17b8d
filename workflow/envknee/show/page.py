"""What pages of one file share: the place that they are written to, and figures within them."""

import base64
from pathlib import Path

from matplotlib.figure import Figure

from envknee.show.figures import canvas
from envknee.study.errors import UserError


def check_place(path: Path) -> None:
    """Check, before anything is computed, that a page can be written.

    Raises:
        UserError: when `path` is a folder, or lies in a folder that does not exist.
    """
    if path.is_dir():
        raise UserError(f"--html {path} is a folder. Name a file in it: --html {path / 'found.html'}")
    if not path.parent.is_dir():
        raise UserError(
            f"--html {path}: the folder {path.parent} does not exist. Make it (mkdir -p), or name another file"
        )


def drawn(figure: Figure) -> dict[str, str]:
    """Return a figure's text for those who do not see it, and its file."""
    return {"finding": canvas.finding(figure), "data": base64.b64encode(canvas.saved(figure, "svg")).decode()}
