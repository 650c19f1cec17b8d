"""Names the stage that a trial is in, times the stages of its start, and reports progress to the launcher."""

import time

from envknee.machine.processes import age_s
from envknee.measure.ranks import Heart, Ranks
from envknee.record.schema import StartUp


class Stages:
    """The stages of a trial: those of `StartUp`, then `rollout` and `learning` in turns."""

    def __init__(self, ranks: Ranks, began_s: float | None) -> None:
        """Begin the stage `imports` at `began_s` on the monotonic clock; None: at the start of this process."""
        self.current = "imports"
        """An out-of-memory outcome names it."""
        self._began_s = time.monotonic() - age_s() if began_s is None else began_s
        self._startup_s: dict[str, float] = {}
        self._heart = Heart(ranks)

    def begin(self, stage: str) -> None:
        """End the current stage of the start, and begin `stage`."""
        now = time.monotonic()
        self._startup_s[self.current] = now - self._began_s
        self.current, self._began_s = stage, now
        self.beat()

    def enter(self, stage: str) -> None:
        """Name the stage of an iteration: `rollout` or `learning`. Their time is not taken here."""
        self.current = stage

    def beat(self) -> None:
        """Report that this rank made progress."""
        self._heart.beat(self.current)

    @property
    def startup_s(self) -> StartUp | None:
        """Seconds of each stage until the first environment step; None before that step."""
        return StartUp.model_validate(self._startup_s) if set(self._startup_s) == set(StartUp.model_fields) else None
