"""Simulated studies that are asked, measured and decided by the code of real ones: `envknee.ask.answer`, records, `envknee.decide`.

Input: a study file's throughput section, true FPS and noise. Output: the verdict's limit, and what was asked. Pure.

`make prove` has rows of them. Its other rows look at plain numbers, which is a hundred times as quick, and say the same
(tests/unit/project/test_prove.py).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from envknee.ask import clear, enough
from envknee.ask.ask import answer
from envknee.ask.history import History
from envknee.decide.settings import schedule_of
from envknee.record.packed import study_folder
from envknee.record.read import load_records
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.verdict import throughput
from envknee.verdict.measurements import measurements_of
from envknee.verdict.rule import affine
from envknee.verdict.schema.throughput import ThroughputLimit

TRIAL_S = 10.0
"""What each simulated trial takes, for `time_limit_s`."""

LogFps = Callable[[int, int], float]
"""(repeat, num_envs) -> ln FPS of the next trial there."""


@dataclass(frozen=True)
class Played:
    """A study that has ended."""

    limit: ThroughputLimit
    records: Sequence[Record]
    """Of trials that ran."""


@cache
def template() -> Record:
    """Return the record of a published trial, in whose place simulated ones stand."""
    published = load_records(study_folder(Path(__file__).parents[1] / "results-published/quick-fps"))
    return next(record for record in published if record.outcome.status == "ok" and record.fps_total)


def study_of(sizes: Sequence[int], **section: Any) -> Study:
    """Return a study of one arm on a GPU, asked by the newest rules."""
    fixed = {"num_envs": [*sizes], "horizon": 16, "batch_size": "library"}
    return parse_study({"study": "played", "ask_version": 2, "window": 1, "throughput": fixed | section})


@contextmanager
def quickly() -> Iterator[None]:
    """Answer what depends on the same records once, and leave out the draws of laws, which decide nothing."""
    decided_at, clear_points, resamples = enough.decided_at, clear.clear_points, affine.RESAMPLES
    known: dict[tuple[str, tuple[tuple[int, float], ...]], Any] = {}

    def remembered(name: str, records: Sequence[Record], ask: Callable[[], Any]) -> Any:
        key = (
            name,
            tuple((record.request.number, record.fps_total.median if record.fps_total else 0.0) for record in records),
        )
        if key not in known:
            known[key] = ask()
        return known[key]

    enough.decided_at = lambda records, *given: remembered("decided", records, lambda: decided_at(records, *given))
    clear.clear_points = lambda records, rule: remembered("clear", records, lambda: clear_points(records, rule))
    affine.RESAMPLES = 4
    try:
        yield
    finally:
        enough.decided_at, clear.clear_points, affine.RESAMPLES = decided_at, clear_points, resamples


def play(study: Study, log_fps: LogFps) -> Played:
    """Ask, measure and decide a study whose every trial ends well. Trials of a block know nothing of each other."""
    requests: list[Request] = []
    records: dict[int, Record] = {}
    for slot in space.plan(study):
        request = answer(study, slot, History.of(requests, records))
        requests.append(request)
        records[request.number] = _measured(request, log_fps)
    ran = [record for record in records.values() if record.outcome.status == "ok"]
    sweep = study.sections["throughput"]
    [limit] = throughput.analyse(measurements_of(ran), study.decide, schedule_of(sweep))
    return Played(limit, ran)


def _measured(request: Request, log_fps: LogFps) -> Record:
    """Return the record of a request: skipped as it says, else timed."""
    own = template()
    if request.skip is not None:
        outcome = own.outcome.model_copy(update={"status": "skipped", "total_s": 0.0})
        return own.model_copy(update={"request": request, "outcome": outcome, "fps_total": None})
    assert own.fps_total is not None
    spread = own.fps_total.model_copy(update={"median": math.exp(log_fps(request.repeat, request.num_envs))})
    outcome = own.outcome.model_copy(update={"total_s": TRIAL_S})
    return own.model_copy(update={"request": request, "outcome": outcome, "fps_total": spread, "metrics": {}})


def repeats_of(played: Played) -> Mapping[int, int]:
    """Return how many different repeats each num_envs was measured in."""
    by_size: dict[int, set[int]] = {}
    for record in played.records:
        by_size.setdefault(record.request.num_envs, set()).add(record.request.repeat)
    return {size: len(repeats) for size, repeats in sorted(by_size.items())}
