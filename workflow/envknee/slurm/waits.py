"""Why jobs wait, told once and when it changes.

Input: what squeue says of a sweep's jobs. Output: sentences.
"""

import getpass
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from envknee.slurm import facts
from envknee.study.errors import UserError, printable

FIRST_S, LONGER_S, MOST_S = 5.0, 10.0, 120.0
"""Seconds before the first look, how much later each look without news comes, and at most: a controller has many users."""

STARTED = "None"
"""The reason of a job that SLURM has not looked at yet."""

BEHIND = "Priority"
"""The reason of a job that comes after others, which may be the sweep's own."""

MEANINGS = {
    "Resources": "the nodes that fit are in use",
    BEHIND: "other jobs come first",
    "Nodes required for job are DOWN": "the nodes that fit are down, drained or reserved",
    "ReqNodeNotAvail": "the nodes that fit are down, drained or reserved",
    "Reservation": "the reservation has not begun",
    "BeginTime": "not before a given time, as after a preemption",
    "Licenses": "licenses are in use",
    "PartitionDown": "the partition starts no jobs now",
    "PartitionInactive": "the partition starts no jobs now",
    "PartitionNodeLimit": "more than the partition allows",
    "PartitionTimeLimit": "more than the partition allows",
    "QOS": "a limit of your quality of service",
    "Assoc": "a limit of your account",
    "MaxGRESPerAccount": "a limit of your account",
    "JobHeld": "held until `scontrol release`",
    "launch failed requeued held": "a node could not start it; held until `scontrol release`",
}
"""Beginnings of SLURM's reasons (squeue 22.05, %r), and what they mean for one who waits."""


def sentence(lines: Sequence[str]) -> str | None:
    """Return why jobs wait, from lines REASON|EXPECTED START; None if none waits, or SLURM has not looked at them yet. Pure."""
    jobs = [line.rpartition("|")[::2] for line in lines]
    reasons = [reason for reason, _ in jobs if reason != STARTED]
    if not reasons:
        return None
    named = list(dict.fromkeys(reason for reason in reasons if reason != BEHIND)) or [BEHIND]
    starts = sorted(start for _, start in jobs if start[:1].isdigit())
    count = "1 job waits" if len(reasons) == 1 else f"{len(reasons)} jobs wait"
    expected = f". SLURM expects a start by {starts[0][:16].replace('T', ' ')}" if starts else ""
    return f"{count}: {'; '.join(map(_explained, named))}{expected}"


def reasons_in(lines: Sequence[str]) -> frozenset[str]:
    """Return the reasons that are worth a new sentence if they change. Pure."""
    reasons = frozenset(line.rpartition("|")[0] for line in lines) - {STARTED}
    return reasons - {BEHIND} or reasons


def _explained(reason: str) -> str:
    meaning = next((meaning for start, meaning in MEANINGS.items() if reason.startswith(start)), None)
    said = printable(reason)
    return f"{meaning} ({said})" if meaning else said


class Watch:
    """Looks at a sweep's waiting jobs now and then, in a thread that ends with the process."""

    def __init__(self, run: str, tell: Callable[[str], None]) -> None:
        """Watch jobs of the name `run`; `tell` prints a line."""
        self._run, self._tell = run, tell
        self._told: frozenset[str] = frozenset()
        self._ends = threading.Event()

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._keep_looking, name="waits", daemon=True).start()

    def stop(self) -> None:
        """End: what is cancelled waits no more."""
        self._ends.set()

    def _keep_looking(self) -> None:
        pause_s = FIRST_S
        while not self._ends.wait(pause_s):
            pause_s = FIRST_S if self.look() else min(pause_s + LONGER_S, MOST_S)

    def look(self) -> bool:
        """Tell why jobs wait if that is news, and return whether it was."""
        with suppress(UserError):  # a controller that is away is waited for, and has no news
            lines = self._waiting()
            reasons = reasons_in(lines)
            if reasons and reasons != self._told and (said := sentence(lines)):
                self._told = reasons
                self._tell(said)
                return True
            if not lines:
                self._told = frozenset()
        return False

    def _waiting(self) -> list[str]:
        words = ["squeue", "--noheader", f"--user={getpass.getuser()}", f"--name={self._run}", "--states=PENDING"]
        return facts.ask([*words, "--format=%r|%S"]).splitlines()
