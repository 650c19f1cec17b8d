"""Notices that this process was stopped and went on: by `scontrol suspend`, a scheduler that takes turns, or `kill -STOP`.

What was timed meanwhile is wrong, and nothing else shows it: the clocks run on, and the program knows nothing of it. The kernel tells a
process alone that goes on (SIGCONT, signal(7)). A pause without signals, as of `docker pause` or a virtual machine, is not seen here.
"""

import signal
import time

_went_on_s: list[float] = []
"""When this process went on (monotonic)."""


def watch() -> None:
    """Note pauses from now on. Call it in the main thread."""
    signal.signal(signal.SIGCONT, lambda *_: _went_on_s.append(time.monotonic()))


def since(began_s: float) -> bool:
    """Tell whether this process went on after a pause since `began_s` (monotonic)."""
    return any(went_on_s >= began_s for went_on_s in _went_on_s)
