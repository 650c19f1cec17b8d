"""Errors that the author of a training script can mend."""


class LeanError(Exception):
    """A task, an agent or a device that lean frames do not fit. The text states the value, what was expected, and what to do next."""
