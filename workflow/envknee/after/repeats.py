"""Compares two runs of the same trials bit for bit.

Input: two folders of results, such as a study and its replay. Output: a line for each arm and kind of trial. Exit 1 if they differ.

Trials are paired by point, repeat and seed. The comparison covers learning (rewards, episodes, losses, learning rate, action noise,
gradients; with `deterministic: true` also the final parameters) and the status, but not speed. If a clock ended one run early, only
common iterations are compared.
"""

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from envknee.decide.read import load_measured
from envknee.record.packed import study_folder
from envknee.record.read import read_rows, without_skipped
from envknee.record.schema import Record, Row
from envknee.study.errors import UserError
from envknee.study.paths import StudyFolder

LEARNED = ("frames", "reward_mean", "episode_length_mean", "episodes", "learning_rate", "action_std")
"""Fields of a row that follow from request and seed alone, besides `losses` and `gradients`."""


@dataclass(frozen=True)
class Repeat:
    """Two runs of one trial."""

    arm: str
    kind: str
    number: int
    """The trial's number in the first study."""
    iterations: int
    """Common iterations."""
    first_different: int | None
    """The first iteration that differs; None if all are the same."""
    quantity: str | None
    """The quantity that differs most there, such as `losses/value`."""
    by: float
    """Its difference, as a share of its size."""
    reward_by: float | None
    """Difference of the mean rewards in the last common iteration, as a share; None if one has none."""
    same_parameters: bool | None
    """None if unknown: not deterministic, or different numbers of iterations."""
    ends: str | None = None
    """Both ends, if they differ and no clock was the cause, such as `ok after 8 iterations, then nan after 2`."""

    @property
    def is_same(self) -> bool:
        """Whether no difference is known."""
        return self.first_different is None and self.same_parameters is not False and self.ends is None


def compare_rows(a: Sequence[Row], b: Sequence[Row]) -> tuple[int | None, str | None, float]:
    """Return the first iteration that differs, the quantity that differs most, and its share; (None, None, 0) if none. Pure."""
    for row, other in zip(a, b, strict=False):
        of_a, of_b = dict(_learned(row)), dict(_learned(other))
        apart = {
            name: _share(of_a.get(name), of_b.get(name))
            for name in {**of_a, **of_b}
            if of_a.get(name) != of_b.get(name)
        }
        if apart:
            name = max(apart, key=lambda name: (apart[name], name))
            return row.iteration, name, apart[name]
    return None, None, 0.0


def _learned(row: Row) -> Iterator[tuple[str, float | None]]:
    yield from ((name, getattr(row, name)) for name in LEARNED)
    yield from ((f"losses/{name}", value) for name, value in row.losses.items())
    if row.gradients is not None:
        yield from ((f"gradients/{name}", getattr(row.gradients, name)) for name in ("rank_mean", "shared"))


def _share(a: float | None, b: float | None) -> float:
    if a is None or b is None:
        return math.inf
    return abs(a - b) / max(abs(a), abs(b))


def _reward_by(row: Row, other: Row) -> float | None:
    """Return by which share the rewards of two rows differ; None where either has none."""
    rewards = (row.reward_mean, other.reward_mean)
    if None in rewards:
        return None
    return 0.0 if rewards[0] == rewards[1] else _share(*rewards)


def ends_apart(this: tuple[str, int], other: tuple[str, int]) -> str | None:
    """Return how two trials ended, from (status, iterations) of each; None if they ended alike or a clock cut one short. Pure."""
    shorter, longer = sorted((this, other), key=lambda end: end[1])
    if this == other or (shorter[0] == "timeout" and shorter[1] < longer[1]):
        return None
    return ", then ".join(f"{status} after {count} iteration{'s' * (count != 1)}" for status, count in (this, other))


def compare(a: StudyFolder, b: StudyFolder) -> list[Repeat]:
    """Compare every common trial of two studies.

    Raises:
        UserError: when a folder holds no study or no record, a file was changed, or there is no common trial.
    """
    of_a, of_b = _by_trial(a), _by_trial(b)
    common = sorted(of_a.keys() & of_b.keys(), key=lambda key: of_a[key].request.number)
    if not common:
        raise UserError(
            f"{a.root} and {b.root} have no trial in common: the same point, repeat and seed. `make replay STUDY={a.root}` makes one"
        )
    compared = []
    for key in common:
        record, other = of_a[key], of_b[key]
        rows, others = read_rows(a.trial(record.request.number)), read_rows(b.trial(other.request.number))
        first, quantity, by = compare_rows(rows, others)
        last = min(len(rows), len(others)) - 1
        digests = {record.outcome.parameters_sha256, other.outcome.parameters_sha256}
        known = None not in digests and len(rows) == len(others)
        compared.append(
            Repeat(
                **record.request.model_dump(include={"arm", "kind", "number"}),
                iterations=last + 1,
                first_different=first,
                quantity=quantity,
                by=by,
                reward_by=_reward_by(rows[last], others[last]) if last >= 0 else None,
                same_parameters=len(digests) == 1 if known else None,
                ends=ends_apart((record.outcome.status, len(rows)), (other.outcome.status, len(others))),
            )
        )
    return compared


def _by_trial(folder: StudyFolder) -> Mapping[tuple[object, ...], Record]:
    _, records = load_measured(folder)
    trial = attrgetter("arm", "kind", "num_envs", "horizon", "batch_size", "repeat", "seed")
    return {trial(record.request): record for record in without_skipped(records)}


def lines(compared: Sequence[Repeat]) -> list[str]:
    """Return the findings, a sentence for each arm and kind of trial."""
    group = attrgetter("arm", "kind")
    groups = groupby(sorted(compared, key=group), key=group)
    return [f"{arm}, {kind}: {_sentence(list(own))}" for (arm, kind), own in groups]


def _sentence(own: Sequence[Repeat]) -> str:
    same = sum(repeat.is_same for repeat in own)
    iterations = sum(repeat.iterations for repeat in own)
    hashed = sum(repeat.same_parameters is True for repeat in own)
    parts = [
        f"{same} of {len(own)} trials the same bit for bit ({iterations:,} iterations"
        + (f"; in {hashed} also every parameter in the end)" if hashed else ")")
    ]
    apart = [repeat for repeat in own if repeat.first_different is not None]
    if apart:
        first = min(apart, key=lambda repeat: (repeat.first_different or 0, repeat.number))
        parts.append(
            f"the earliest difference is in iteration {first.first_different} of trial {first.number:04d}: {first.quantity} by"
            + (f" {first.by:.1e} of its size" if math.isfinite(first.by) else " whether there is one")
        )
        rewards = [repeat.reward_by for repeat in apart if repeat.reward_by is not None]
        if rewards:
            parts.append(f"rewards end up to {max(rewards):.1%} apart")
    elif any(repeat.same_parameters is False for repeat in own):
        parts.append("all rows are the same, and parameters in the end are not")
    parts += [f"trial {repeat.number:04d} ended as {repeat.ends}" for repeat in own if repeat.ends is not None]
    return "; ".join(parts)


def main() -> int:
    """Say whether two runs of the same trials learned the same, bit for bit."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("a", type=Path, help="the folder of a study")
    parser.add_argument("b", type=Path, help="the folder of the same study run again")
    given = parser.parse_args()
    compared = compare(study_folder(given.a), study_folder(given.b))
    print("\n".join(lines(compared)))
    return 0 if all(repeat.is_same for repeat in compared) else 1
