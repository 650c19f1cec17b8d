"""Only the trials that decide the verdict, the most informative first.

Series (horizon, batch_size) are searched for their thresholds one after the other (`envknee.ask.search`). A later series starts
where the one before ended. Points beyond the threshold are never run, and the verdict says nothing about them.
"""

import math
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

from envknee.ask.question import Choice, Question
from envknee.ask.search import Rule, Tried, next_step
from envknee.base.point import Point
from envknee.record.reasons import Searched, SearchedSeries
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.verdict import learning_cost, throughput
from envknee.verdict.statistical_blocks import blocks_of

CLOSE = 1.05
"""The memory limit is known well enough when a num_envs that fits and one that does not are at most this factor apart."""


def choose(question: Question) -> Choice:
    """Return the next trial, or why no further one is needed."""
    sweep, records = question.sweep, question.records
    rule = Rule(question.slot.kind, sweep.adaptive, sweep.repeats, in_lanes=question.slot.lane is not None)
    asked = [request for request in question.requests if request.skip is None]
    ends: list[SearchedSeries] = []
    waiting: Choice | None = None
    focus: int | None = None
    for (horizon, batch_size), series in _by_series(question.points).items():
        of_series = _asked_of((horizon, batch_size), asked)
        sizes = [point.num_envs for point in _that_fit(series, of_series, question)]
        tried = {size: Tried() for size in sizes}
        for request in of_series:
            if request.num_envs in tried:
                _note(tried[request.num_envs], request, records.get(request.number))
        if question.slot.lane is not None:
            _note_lanes(tried, of_series, question)
        step = next_step(sizes, tried, rule, focus)
        focus = step.focus or focus
        size = step.num_envs
        if size is None:
            assert step.end is not None, "a series ends for a reason"
            ends.append(SearchedSeries(horizon=horizon, batch_size=batch_size, **step.end._asdict()))
            continue
        repeat = tried[size].asked + tried[size].confirming
        choice = Choice(Point(size, horizon, batch_size), repeat, None, confirms=step.confirms)
        if not step.waits:
            return choice
        waiting = waiting or choice
    if waiting is None and (probe := _probe(question, asked)) is not None:
        return Choice(probe, 0, None)
    return waiting or Choice(min(question.points), 0, Searched(series=tuple(ends)))


def _by_series(points: Sequence[Point]) -> dict[tuple[int, int | None], list[Point]]:
    """Return (horizon, batch_size) -> its points by num_envs, all in ascending order."""
    ordered = sorted(points, key=lambda point: (point.horizon, point.batch_size or 0, point.num_envs))
    return {series: list(own) for series, own in groupby(ordered, attrgetter("horizon", "batch_size"))}


def _asked_of(series: tuple[int, int | None], asked: Sequence[Request]) -> list[Request]:
    return [r for r in asked if (r.point.horizon, r.point.batch_size) == series]


def _probe(question: Question, asked: Sequence[Request]) -> Point | None:
    """Return a point between the largest num_envs that fitted and the smallest that did not; None if none is needed.

    The first two lie 5% below and above the limit that the memory model predicts; others halve the rest.
    """
    sweep, records, memory = question.sweep, question.records, question.memory
    axis = set(space.axes(sweep)[0])
    for series, own in _by_series(question.points).items():
        of_series = _asked_of(series, asked)
        probes = [r for r in of_series if r.num_envs not in axis]
        known = {r.num_envs: records[r.number].outcome.status for r in of_series if r.number in records}
        fitted = max((size for size, status in known.items() if status != "oom"), default=None)
        if fitted is None or len(probes) >= sweep.adaptive.probes:
            continue
        refused = [p.num_envs for p in own if p.num_envs > fitted and memory.refusal(p) is not None]
        failed = min([*refused, *(size for size, status in known.items() if status == "oom")], default=None)
        if failed is None or failed <= CLOSE * fitted:
            continue
        wanted = [(fitted + failed) // 2]
        predicted = memory.prediction(Point(fitted, *series))
        if predicted is not None and (wall := predicted.largest_num_envs) is not None:
            wanted = [int(0.95 * wall), int(1.05 * wall), *wanted]
        step = min(axis)  # multiples of it are whole warps and divide into the listed batches
        for size in (place // step * step for place in wanted):
            probe = Point(size, *series)
            asked_for = any(request.num_envs == size for request in of_series)
            if fitted < size < failed and not asked_for and space.is_legal(probe, question.study.world_sizes):
                return probe
    return None


def _that_fit(series: Sequence[Point], asked: Sequence[Request], question: Question) -> list[Point]:
    """Return the points that may fit: below the first that ran out of memory, not refused, and not crashed.

    In an ascending search a size that crashed once is no reason to leave it out: one without a measurement ends the sizes (`search`).
    """
    records, memory = question.records, question.memory
    ended = [
        (request.num_envs, records[request.number].outcome.status) for request in asked if request.number in records
    ]
    wall = min((num_envs for num_envs, status in ended if status == "oom"), default=math.inf)
    crashed = {num_envs for num_envs, status in ended if status == "crashed"}
    if question.sweep.adaptive.ascending:
        crashed = set[int]()
    return [
        point
        for point in series
        if point.num_envs < wall and point.num_envs not in crashed and memory.refusal(point) is None
    ]


def _note_lanes(tried: dict[int, Tried], of_series: Sequence[Request], question: Question) -> None:
    """Note what the lane of the next trial has measured, and on which device each trial ran."""
    window, here = question.study.window, question.slot.lane
    timed: dict[int, list[Record]] = {}
    for request in of_series:
        size = request.num_envs
        if size not in tried:
            continue
        is_here = request.number % window == here
        if request.confirms:
            tried[size].confirming_here += is_here
            continue
        tried[size].asked_here += is_here
        record = question.records.get(request.number)
        if record is not None and throughput.measured_fps([record]):
            timed.setdefault(size, []).append(record)
    for size, blocks in blocks_of(timed).items():
        tried[size].blocks = blocks


def _note(tried: Tried, request: Request, record: Record | None) -> None:
    if request.confirms:
        tried.confirming += 1
        return
    tried.asked += 1
    if record is None:
        tried.under_way += 1
    elif request.kind == "throughput":
        tried.fps += throughput.measured_fps([record])
    else:
        seeds = learning_cost.seconds_of([record])
        tried.seeds += [(seconds, True) for seconds in seeds.reached] + [(seconds, False) for seconds in seeds.censored]
