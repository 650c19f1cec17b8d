"""Which image this process runs in, as its launcher said: from inside it cannot be read."""

from collections.abc import Mapping

from envknee.record.schema import Image

TOLD = "ENVKNEE_IMAGE"
"""Tells a trial's process what the image is that it runs in: from inside it cannot be read."""


def told(variables: Mapping[str, str]) -> Image | None:
    """Return the image that this process runs in, as its launcher said, or None on the host. Pure."""
    text = variables.get(TOLD)
    return Image.model_validate_json(text) if text else None
