"""What the output of a foreign command says of its end: lack of memory, NaN, divergence, a simulation that is fast but wrong. Pure.

Input: lines and rows. Output: what they mean.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envknee.measure import validity
from envknee.measure.out_of_memory import TEXTS

OUT_OF_MEMORY = re.compile(
    "|".join(
        [
            *map(re.escape, TEXTS),
            r"OutOfMemoryError",
            r"RESOURCE_EXHAUSTED",
            r"ERROR_OUT_OF_DEVICE_MEMORY",
            r"PxgCudaDeviceMemoryAllocator",
            r"\bMemoryError\b",
            r"std::bad_alloc",
        ]
    ),
    re.IGNORECASE,
)
"""PyTorch, Warp, CUDA, JAX (XLA), Vulkan, PhysX, Python, C++."""

NOT_A_NUMBER = re.compile(
    r"(?:NaN|inf(?:inite)?) (?:values? )?(?:detected|found|encountered)|(?:loss|value|action)s? (?:is|are|contains?|became) (?:nan|inf)"
    r"|expects all elements of std >= 0\.0|satisfy the constraint .* but found invalid values|invalid values:\s*tensor\(.*nan",
    re.IGNORECASE | re.DOTALL,
)
"""Isaac Lab, RSL-RL and mjlab's guards; PyTorch's distributions when a policy has become NaN."""

DIVERGED_ABOVE = 1e10
"""A loss of this size never comes back. Larger than for envknee's own trainers (1e6): a value loss is the square of returns, and many
programs leave those as they are, in the thousands."""

KEPT_LINES = 200


@dataclass
class Said:
    """What was printed, as far as it matters."""

    oom: re.Pattern[str]
    invalid: Mapping[re.Pattern[str], str]
    lines: list[str] = field(default_factory=list)
    """The newest ones."""
    oom_line: str | None = None
    nan_line: str | None = None
    invalid_lines: dict[str, str] = field(default_factory=dict)
    """What is invalid, and the first line that says so."""

    @staticmethod
    def by(oom: Sequence[str], invalid: Mapping[str, str]) -> "Said":
        """Return a reader with a study's own patterns besides those of every program."""
        own = "|".join([OUT_OF_MEMORY.pattern, *oom])
        return Said(re.compile(own, re.IGNORECASE), validity.patterns(invalid))

    def take(self, line: str) -> None:
        """Take a line."""
        line = line.rstrip()
        if not line:
            return
        self.lines = [*self.lines[-KEPT_LINES + 1 :], line]
        if self.oom_line is None and self.oom.search(line):
            self.oom_line = line.strip()
        if self.nan_line is None and NOT_A_NUMBER.search(line):
            self.nan_line = line.strip()
        self.invalid_lines = validity.matches([line], self.invalid) | self.invalid_lines

    def last_error(self) -> str:
        """Return the line that says best why a program ended: the newest that names an error, else the newest."""
        errors = [line for line in self.lines if re.match(r"\s*[\w.]*(?:Error|Exception|error:|fatal)\b", line)]
        return (errors or self.lines or ["it printed nothing"])[-1].strip()


def broken(figures: Mapping[str, float | None]) -> tuple[str, str, str] | None:
    """Return (status, name, reason) of the first figure of a row that training does not go on from; None where all are sound.

    Args:
        figures: `rewards`, and `losses/NAME`, in the words of a `Failure`
    """
    for name, value in figures.items():
        if value is not None and not math.isfinite(value):
            return "nan", name, f"{name} became {value}"
        if value is not None and name.startswith("losses/") and abs(value) > DIVERGED_ABOVE:
            return "diverged", name, f"{name} grew to {value:.3g}, past {DIVERGED_ABOVE:.0e}"
    return None
