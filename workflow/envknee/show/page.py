"""Figures within pages of one file."""

import base64

from matplotlib.figure import Figure

from envknee.show.figures import canvas


def drawn(figure: Figure) -> dict[str, str]:
    """Return a figure's text for those who do not see it, and its file."""
    return {"finding": canvas.finding(figure), "data": base64.b64encode(canvas.saved(figure, "svg")).decode()}
