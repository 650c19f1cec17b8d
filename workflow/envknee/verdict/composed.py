"""FPS of points that nobody measured, put together from parts of the same process's trials (`compose_horizons`). Pure.

Input: the records of throughput trials. Output: a record for each composed repeat, and the law's errors where it was tested.

An iteration's seconds are those of collecting plus those of learning. A step takes as long as at the smallest horizon with the same
num_envs. Learning takes as long as there with the same rollout, or what a line through two rollouts says (`base.parts`):

    t(N, T) = N T / FPS with inference (N, smallest T) + sum of w_i [N_i T_i / FPS - N_i T_i / FPS with inference] (points that learn)

A rollout must have been measured once, so that it is known to fit the memory. Some points are both measured and composed in one process.
The largest difference, at least `LEAST_MARGIN`, counts as what any composed FPS may be off by, in either direction and however many
repeats there are. A single test has the noise of its trials, so a point beyond `DOUBTED` is tested in later repeats, too, and the median
of its differences counts. Without a test, or beyond `LARGEST_ERROR`, nothing is composed. Beyond it in two tests, the law does not hold.
"""

import itertools
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from envknee.base.parts import Parts, parts_of
from envknee.base.point import Point
from envknee.record.schema import Record, Spread
from envknee.verdict.schema.throughput import ComposedFps, CompositionTest

LEAST_MARGIN = 0.02
"""What any composed FPS may be off by at the least (as a logarithm).

`make prove`: with a law that is 2% off, promises hold with this margin, and are missed without it.
"""

DOUBTED = 0.03
"""Difference of composed and measured FPS beyond which a point is tested again, which takes as long as measuring it."""

LARGEST_ERROR = 0.05
"""Difference of composed and measured FPS (as a logarithm) beyond which the law is not used."""


@dataclass(frozen=True)
class Composition:
    """What the trials of one arm tell about points that they did not measure."""

    records: Sequence[Record] = ()
    """Composed repeats: the record of the trial with as many environments, with the composed point and its FPS."""
    tests: Mapping[Point, Sequence[float]] = field(default_factory=dict)
    """Tested point -> ln(composed FPS / measured FPS) in each process that tells both."""
    horizon: int = 0
    """The smallest horizon, whose times tell of the others."""

    @property
    def error(self) -> float | None:
        """The largest median difference of a point, without its sign; None without a test."""
        return max(self._errors().values(), default=None)

    @property
    def margin(self) -> float:
        """What any composed FPS may be off by, as a logarithm."""
        return max(LEAST_MARGIN, self.error or 0.0)

    @property
    def missed(self) -> bool:
        """Whether the law does not hold: after two tests or more a point is beyond `LARGEST_ERROR`."""
        return any(error > LARGEST_ERROR and len(self.tests[point]) > 1 for point, error in self._errors().items())

    @property
    def doubted(self) -> set[Point]:
        """Points to be tested again: their difference is beyond `DOUBTED`."""
        return {point for point, error in self._errors().items() if error > DOUBTED}

    @property
    def used(self) -> Sequence[Record]:
        """The composed repeats that count: all, or none if the law was not tested, or missed."""
        return self.records if self.error is not None and self.error <= LARGEST_ERROR else ()

    def at(self, sizes: Collection[int]) -> ComposedFps | None:
        """Return what the composed FPS at `sizes`, which are some num_envs of a series, rest on; None without sizes."""
        if not sizes:
            return None
        tests = [
            CompositionTest(
                num_envs=point.num_envs, horizon=point.horizon, batch_size=point.batch_size, processes=len(differences)
            )
            for point, differences in sorted(self.tests.items(), key=lambda test: test[0])
        ]
        return ComposedFps(
            num_envs=sorted(sizes),
            horizon=self.horizon,
            used=bool(self.used),
            error=None if self.error is None else math.expm1(self.error),
            margin=math.expm1(self.margin),
            tests=tests,
        )

    def _errors(self) -> dict[Point, float]:
        return {point: abs(statistics.median(tests)) for point, tests in self.tests.items()}


def compose(records: Sequence[Record]) -> Composition:
    """Return what the throughput trials of one arm tell about other points; nothing unless they are for `compose_horizons`."""
    wanted = [record for record in records if record.request.compose_horizons]
    if not wanted:
        return Composition()
    parts = parts_of(_every_point(wanted))
    processes: dict[int | None, dict[Point, Record]] = {}
    for record in wanted:
        if record.outcome.status == "ok" and record.fps_total and record.fps_env_step_inference:
            processes.setdefault(record.request.block, {})[record.request.point] = record
    fits = {(point.rollout, point.batch_size) for measured in processes.values() for point in measured}
    composed: list[Record] = []
    tests: dict[Point, list[float]] = {}
    for measured in processes.values():
        for point, needed in parts.items():
            if not needed.points <= measured.keys() or (point.rollout, point.batch_size) not in fits:
                continue
            repeat = _repeat(point, needed, measured)
            if point not in measured:
                composed.append(repeat)
                continue
            tests.setdefault(point, []).append(math.log(_median(repeat.fps_total) / _median(measured[point].fps_total)))
    return Composition(composed, tests, min(record.request.horizon for record in wanted))


def _every_point(records: Sequence[Record]) -> set[Point]:
    sizes, horizons, batch_sizes = (
        {getattr(record.request, axis) for record in records} for axis in ("num_envs", "horizon", "batch_size")
    )
    return set(itertools.starmap(Point, itertools.product(sizes, horizons, batch_sizes)))


def _median(fps: Spread | None) -> float:
    assert fps is not None
    return fps.median


def _repeat(point: Point, parts: Parts, measured: Mapping[Point, Record]) -> Record:
    """Return the record of the trial with as many environments, with the composed point and its FPS."""
    collects = measured[parts.collects]
    learning_s = sum(weight * _learning_s(part, measured[part]) for part, weight in parts.learns.items())
    fps = point.rollout / (point.rollout / _median(collects.fps_env_step_inference) + learning_s)
    request = collects.request.model_copy(update={"horizon": point.horizon})
    spread = Spread(median=fps, lower_quartile=fps, upper_quartile=fps, iterations=0)
    return collects.model_copy(update={"request": request, "fps_total": spread})


def _learning_s(point: Point, record: Record) -> float:
    """Return an iteration's seconds of learning, divided by the number of ranks: FPS are of all, the rollout is of one."""
    return point.rollout * (1.0 / _median(record.fps_total) - 1.0 / _median(record.fps_env_step_inference))
