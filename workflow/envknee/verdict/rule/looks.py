"""Looks: after which repeats a study may be decided, and what each of them costs. Pure.

A study that stops as soon as it is decided, or goes on because it is not, looks at its records more than once. Each look is a chance of
error: with looks after 3, 5, 8 and 13 repeats at full confidence, 9 to 13% of studies at the cut-off said "reached". So a p-value counts
times a factor, and the smallest product over all looks is the one that decides (`union`):

    after every repeat   q = min over k of k p_k / 0.8, k whole repeats, from the third on. For a study that may stop, or go on, at any one
    as planned           q = p / 0.8 after the number of repeats that was fixed beforehand. Further ones (`more_repeats`) count after 5, 8,
                         13, 21, ... repeats, at a fifth of the share each: 0.16, 0.032, ...
    once                 q = p, after all there is: the number of repeats was fixed, and nobody goes on

The rule after every repeat is calibrated by simulation, for near-normal independent repeats and up to 200 looks (`make prove`). It is not
proven: the shares 0.8 / k add up to more than 1, and what keeps the error is that successive looks hardly differ.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from envknee.verdict.rule.contrasts import Contrast
from envknee.verdict.rule.schedule import ONCE, Schedule


@dataclass(frozen=True)
class Look:
    """A doubling as it was seen at one look."""

    contrast: Contrast
    factor: float
    """What a p-value counts times there; a share of the chance of error is divided by it."""


@dataclass(frozen=True)
class Looked:
    """A doubling, with all looks at it."""

    latest: Contrast
    """As the last look saw it; as all repeats show it where there was none."""
    looks: tuple[Look, ...]

    @property
    def num_envs(self) -> int:
        """The smaller end."""
        return self.latest.num_envs


def once(contrasts: Sequence[Contrast]) -> list[Looked]:
    """Return doublings that are looked at once."""
    return [Looked(contrast, (Look(contrast, 1.0),)) for contrast in contrasts]


def looked_at(
    schedule: Schedule,
    repeats: Mapping[int, Collection[int]],
    contrasts_before: Callable[[float], Sequence[Contrast]],
) -> list[Looked]:
    """Return each doubling, by ascending num_envs, with the looks that a schedule has.

    `repeats` has the numbers of the repeats that each num_envs was measured in, from 0 on. `contrasts_before` returns the contrasts of the
    repeats before a number. A repeat in which either end is missing is no look after every repeat, and what it has counts at the next one.
    A look as planned needs no whole repeat: what was lost there is lost for good.
    """
    everything = contrasts_before(math.inf)
    if schedule == ONCE:
        return once(everything)
    looks: dict[int, list[Look]] = {contrast.num_envs: [] for contrast in everything}
    whole = Counter[int]()
    for number in sorted(set[int]().union(*repeats.values())):
        for contrast in contrasts_before(number + 1):
            size = contrast.num_envs
            is_whole = number in repeats[size] and number in repeats[2 * size]
            whole[size] += is_whole
            of_whole = whole[size] if is_whole else 0
            factor = schedule.factor(number + 1 if schedule.when == "as planned" else of_whole)
            if not math.isinf(factor):
                looks[size].append(Look(contrast, factor))
    return [_looked(contrast, looks[contrast.num_envs]) for contrast in everything]


def _looked(everything: Contrast, looks: Sequence[Look]) -> Looked:
    return Looked(looks[-1].contrast if looks else everything, tuple(looks))
