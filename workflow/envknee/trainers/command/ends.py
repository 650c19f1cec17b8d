"""Recognizes out of memory, NaN, divergence and an invalid simulation in the output of a foreign command. Pure."""

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from envknee.measure import validity
from envknee.measure.out_of_memory import TEXTS
from envknee.measure.rows import TrialDone
from envknee.record.schema import Failure
from envknee.trainers.command import bounded
from envknee.trainers.command.scan import Scan

OUT_OF_MEMORY = (
    *map(re.escape, TEXTS),
    r"OutOfMemoryError",
    r"RESOURCE_EXHAUSTED",
    r"ERROR_OUT_OF_DEVICE_MEMORY",
    r"PxgCudaDeviceMemoryAllocator",
    r"\bMemoryError\b",
    r"std::bad_alloc",
)
"""Patterns of messages of PyTorch, Warp, CUDA, JAX (XLA), Vulkan, PhysX, Python and C++."""

NOT_A_NUMBER = re.compile(
    r"(?:NaN|inf(?:inite)?) (?:values? )?(?:detected|found|encountered)|(?:loss|value|action)s? (?:is|are|contains?|became) (?:nan|inf)"
    r"|expects all elements of std >= 0\.0|satisfy the constraint .* but found invalid values|invalid values:\s*tensor\(.*nan",
    re.IGNORECASE | re.DOTALL,
)
"""Messages of the guards in Isaac Lab, RSL-RL and mjlab, and of PyTorch's distributions when a policy has become NaN."""

DIVERGED_ABOVE = 1e10
"""Training does not recover from a loss of this size. The limit is higher than for envknee's own trainers (1e6): a value loss is a squared
return, and many programs do not scale returns, which reach thousands."""

Needles = Mapping[str, Sequence[str]]

NEEDLES_OF_MEMORY: Needles = {
    "memory": (
        "out of memory", "outofmemory", "out_of_device_memory", "devicememoryallocator", "memoryerror", "memoryallocation",
        "allocate memory",
    ),
    "alloc": ("failed to allocate", "alloc_failed", "bad_alloc"),
    "exhausted": ("resource_exhausted",),
}  # fmt: skip
NEEDLES_OF_NAN: Needles = {
    **{
        verb: tuple(
            f"{figure} {values}{verb}" for figure in ("nan", "inf", "infinite") for values in ("", "value ", "values ")
        )
        for verb in ("detected", "found", "encountered")
    },
    **{
        figure: tuple(f"{verb} {figure}" for verb in ("is", "are", "contain", "contains", "became"))
        for figure in ("nan", "inf")
    },
    "elements of std": ("elements of std",),
    "invalid values": ("found invalid values", "invalid values:"),
}
NEEDLES_OF_SIMULATION: Needles = {
    "overflow": ("please increase", "max overflow", "buffer overflow"),
    "exceeded": ("capacity exceeded",),
    "collisionstacksize": ("collisionstacksize",),
    "memoryconfig": ("memoryconfig",),
}
"""Lower-case texts: a line that a pattern of ours matches has a key and one of its texts. Looking for them in a block of lines is far
faster than the patterns are. Programs print some of the keys all the time, and hardly ever one of the texts."""

NEWEST_LINES = 200


class Output:
    """The lines of a program's output that matter."""

    def __init__(self, oom: Sequence[str], invalid: Mapping[str, str]) -> None:
        """Begin with no lines; `oom` and `invalid` are a study's own patterns."""
        self._oom = re.compile("|".join([*OUT_OF_MEMORY, *oom]), re.IGNORECASE)
        self._invalid = validity.patterns(invalid)
        self._of_study = Scan([re.compile(text, re.IGNORECASE) for text in (*oom, *invalid)])
        self._newest = deque[str](maxlen=NEWEST_LINES)
        self.oom_line: str | None = None
        self.nan_line: str | None = None
        self.invalid_lines: dict[str, str] = {}
        """Kinds of invalid simulation, each with the first line that reports it."""

    def take(self, lines: str) -> None:
        """Add lines, with line feeds between them."""
        newest = lines.rsplit("\n", NEWEST_LINES)[-NEWEST_LINES:]
        self._newest.extend(line for line in newest if line.strip())
        for line in self._of_study.matching(lines):
            for judge, _ in self._judges():
                judge(line)
        lower = lines.lower()
        judges = [(judge, needles) for judge, needles in self._judges() if _has(lower, needles)]
        if not judges:
            return
        for line in lines.split("\n"):
            lower = line.lower()
            for judge, needles in judges:
                if _has(lower, needles):
                    judge(line)

    def _judges(self) -> list[tuple[Callable[[str], None], Needles]]:
        """Return what is still to be found, with the texts that each kind of line has."""
        judges: list[tuple[Callable[[str], None], Needles]] = [(self._judge_simulation, NEEDLES_OF_SIMULATION)]
        if self.oom_line is None:
            judges.append((self._judge_memory, NEEDLES_OF_MEMORY))
        if self.nan_line is None:
            judges.append((self._judge_nan, NEEDLES_OF_NAN))
        return judges

    def _judge_memory(self, line: str) -> None:
        if self.oom_line is None and self._oom.search(line):
            self.oom_line = bounded.shown(line)

    def _judge_nan(self, line: str) -> None:
        if self.nan_line is None and NOT_A_NUMBER.search(line):
            self.nan_line = bounded.shown(line)

    def _judge_simulation(self, line: str) -> None:
        unseen = {pattern: meaning for pattern, meaning in self._invalid.items() if meaning not in self.invalid_lines}
        for meaning, first in validity.matches([line], unseen).items():
            self.invalid_lines = self.invalid_lines | {meaning: bounded.shown(first)}

    def last_error(self) -> str:
        """Return the newest line that names an error, else the newest line."""
        newest = list(self._newest)
        errors = [
            line
            for line in newest
            if re.match(r"\s*[\w.]*(?:Error|Exception|error:|fatal)\b", line[: bounded.MOST_SHOWN])
        ]
        return bounded.shown((errors or newest or ["it printed nothing"])[-1])


def _has(lower: str, needles: Needles) -> bool:
    """Tell whether a text has one of the needles."""
    return any(key in lower and any(text in lower for text in texts) for key, texts in needles.items())


def check_figures(figures: Mapping[str, float | None], iteration: int) -> None:
    """Raise a TrialDone for the first of `rewards` and `losses/NAME` that is not finite or diverged in this iteration."""
    for name, value in figures.items():
        name = bounded.shown(name)
        if value is not None and not math.isfinite(value):
            raise TrialDone("nan", f"{name} became {value}", Failure(iteration=iteration, tensor=name))
        if value is not None and name.startswith("losses/") and abs(value) > DIVERGED_ABOVE:
            reason = f"{name} grew to {value:.3g}, past {DIVERGED_ABOVE:.0e}"
            raise TrialDone("diverged", reason, Failure(iteration=iteration, tensor=name))
