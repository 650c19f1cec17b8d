"""Whether arms are shown to learn alike (`verdict.joint.alike`), where their true ratio of environment steps is known.

A row has settings with ratios, and seeds of both arms at each whose ln steps deviate normally. The comparison has the whole 5% here; in a
study it has a third of them.
"""

import math
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from envknee.base.point import Point
from envknee.verdict.joint.alike import MARGIN, likeness
from envknee.verdict.joint.prior import Array
from envknee.verdict.rule.doublings import Seeds

from benchmarks.joint.counts import Counting, Tally

ERROR = 0.05

LEVEL_SD = 0.2
"""By how much settings deviate in ln steps."""


@dataclass(frozen=True)
class Row:
    """Comparisons of two arms whose truth is known."""

    name: str
    ratios: Sequence[float]
    """At each setting, the first arm's steps over those of the other one."""
    sds: Sequence[float] = (0.29,)
    """Of ln steps between seeds, at each setting or at all."""
    seeds: int = 8
    budget: float = math.inf
    """Seeds that need more steps miss the target, in multiples of the other arm's steps at a middling setting."""

    @property
    def is_alike(self) -> bool:
        """Whether the arms truly learn alike: inside the margin, and not at its ends."""
        return all(abs(ratio - 1.0) < MARGIN - 1e-9 for ratio in self.ratios)

    def part(self, number: int, studies: int, seed: int) -> Tally:
        """Return the counts of a part; the same numbers for the same arguments, processor time apart."""
        generator = np.random.default_rng([seed, zlib.crc32(self.name.encode()), number])
        counting, start = Counting(), time.process_time()
        for _ in range(studies):
            state = self.compared(generator)
            counting.studies += 1
            counting.share("alike" if self.is_alike else "false alike", state == "shown")
            counting.share("varies", state == "varies")
            counting.share("missed", state == "seeds missed the target")
        return counting.tally(time.process_time() - start)

    def compared(self, generator: np.random.Generator) -> str:
        """Return what a comparison ends with."""
        levels = LEVEL_SD * generator.standard_normal(len(self.ratios))
        shifts = np.stack([levels + np.log(self.ratios), levels], axis=1)
        sds = np.broadcast_to(self.sds, len(self.ratios))[:, None, None]
        steps = np.exp(shifts[:, :, None] + sds * generator.standard_normal((len(self.ratios), 2, self.seeds)))
        settings = [Point(place + 1, 1, 1) for place in range(len(self.ratios))]
        return likeness("other", settings, [(self._cut(own), self._cut(other)) for own, other in steps], ERROR).state

    def _cut(self, steps: Array) -> Seeds:
        arrived = steps[steps < self.budget]
        return Seeds(tuple(arrived.tolist()), (self.budget,) * (len(steps) - len(arrived)))


ROWS: Mapping[str, Row] = {
    row.name: row
    for row in (
        Row("alike: ratio 1.15", [1.15] * 6),
        Row("alike: ratio 0.85", [0.85] * 6),
        Row("alike: ratio 1.15, seeds of 10%", [1.15] * 6, (0.1,)),
        Row("alike: ratio 1.15, 4 settings x 3 seeds of 5%", [1.15] * 4, (0.05,), seeds=3),
        Row("alike: ratio 1.15, seeds of 2% to 30%", [1.15] * 6, (0.02, 0.05, 0.1, 0.1, 0.2, 0.3)),
        Row("alike: ratio 1.15, a budget of 1.6 times", [1.15] * 6, (0.2,), budget=1.6),
        Row("alike: ratio 1.3 and 0.8, half each", [1.3] * 3 + [0.8] * 3),
        Row("alike: ratio 1.5 at one of six", [1.5] + [1.0] * 5, (0.16,)),
        Row("alike: ratio 1", [1.0] * 6),
        Row("alike: ratio 1, seeds of 16%", [1.0] * 6, (0.16,)),
    )
}
"""In the order of the table."""
