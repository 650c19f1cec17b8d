"""FPS of points that nobody measured, put together from parts of the same process's trials (`compose_horizons`). Pure.

Input: the records of throughput trials. Output: a record for each composed repeat, and the law's errors where it was tested.

Seconds per transition are those of collecting plus those of learning. Collecting takes as long as at the smallest horizon with the same
num_envs, learning as long as with the same rollout and batch size (`study.parts`):

    1 / FPS = 1 / FPS with inference (collects) + [1 / FPS - 1 / FPS with inference] (learns)

Some points are both measured and composed in one process. Their largest difference counts as what any composed FPS may be off by, in
either direction and however many repeats there are. Without such a test, or beyond `LARGEST_ERROR`, nothing is composed.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from envknee.record.schema import Record, Spread
from envknee.study.parts import parts_of
from envknee.study.space import Point

LARGEST_ERROR = 0.05
"""Difference of composed and measured FPS (as a logarithm) beyond which the law is not used."""


@dataclass(frozen=True)
class Composition:
    """What the trials of one arm tell about points that they did not measure."""

    records: Sequence[Record] = ()
    """Composed repeats: the record of the trial that learned, with the composed point and its FPS."""
    errors: Mapping[Point, float] = field(default_factory=dict)
    """Tested point -> ln(composed FPS / measured FPS) of the test with the largest difference."""

    @property
    def margin(self) -> float | None:
        """The largest difference, without its sign; None without a test."""
        return max(map(abs, self.errors.values()), default=None)

    @property
    def used(self) -> Sequence[Record]:
        """The composed repeats that count: all, or none if the law was not tested, or missed."""
        return self.records if self.margin is not None and self.margin <= LARGEST_ERROR else ()


NOTHING_COMPOSED = Composition()


def compose(records: Sequence[Record]) -> Composition:
    """Return what the throughput trials of one arm tell about other points; nothing unless they are for `compose_horizons`."""
    wanted = [record for record in records if record.request.compose_horizons]
    parts = parts_of(_every_point(wanted))
    processes: dict[int | None, dict[Point, Record]] = {}
    for record in wanted:
        if record.outcome.status == "ok" and record.fps_total and record.fps_env_step_inference:
            processes.setdefault(record.request.block, {})[_point(record)] = record
    composed: list[Record] = []
    errors: dict[Point, float] = {}
    for measured in processes.values():
        for point, (collects, learns) in parts.items():
            if collects not in measured or learns not in measured:
                continue
            repeat = _repeat(point, measured[collects], measured[learns])
            if point not in measured:
                composed.append(repeat)
                continue
            error = math.log(_median(repeat.fps_total) / _median(measured[point].fps_total))
            errors[point] = max(errors.get(point, 0.0), error, key=abs)
    return Composition(composed, errors)


def _every_point(records: Sequence[Record]) -> set[Point]:
    sizes, horizons, batch_sizes = (
        {getattr(record.request, axis) for record in records} for axis in ("num_envs", "horizon", "batch_size")
    )
    return set(itertools.starmap(Point, itertools.product(sizes, horizons, batch_sizes)))


def _point(record: Record) -> Point:
    return Point(record.request.num_envs, record.request.horizon, record.request.batch_size)


def _median(fps: Spread | None) -> float:
    assert fps is not None
    return fps.median


def _repeat(point: Point, collects: Record, learns: Record) -> Record:
    learning_s = 1.0 / _median(learns.fps_total) - 1.0 / _median(learns.fps_env_step_inference)
    fps = 1.0 / (1.0 / _median(collects.fps_env_step_inference) + learning_s)
    request = learns.request.model_copy(update={"num_envs": point.num_envs, "horizon": point.horizon})
    spread = Spread(median=fps, lower_quartile=fps, upper_quartile=fps, iterations=0)
    return learns.model_copy(update={"request": request, "fps_total": spread})
