"""What choosing trials saves: a recorded grid asked again by other samplers, each answered with what was measured then.

Input: the folder of a study whose grid is complete, with at least two repeats. Output: a table in the terminal: trials,
device time and verdict of `grid`, `tpe` and `adaptive`. Nothing is run.

    python -m envknee economy-replay results-published/<study>
    python -m envknee economy-replay results-published/<study> --repeats 5      as if each point had five

A sampler that cannot stop by itself is given the time after which its verdict stayed what it was in the end: less than it
would really spend, because nothing tells it to stop there.
"""

import argparse
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from envknee.ask import ask
from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.decide.read import load_study
from envknee.record.packed import study_folder
from envknee.record.read import load_records, without_skipped
from envknee.record.schema import Record
from envknee.study import space
from envknee.study.errors import UserError, run_command
from envknee.study.model import Study
from envknee.study.value_types import ASK_VERSION
from envknee.verdict import learning, throughput
from envknee.verdict.measurements import measurements_of
from envknee.verdict.rule.schedule import LEAST_REPEATS
from envknee.verdict.series import Series
from envknee.words.series import series_words
from rich.console import Console
from rich.table import Table

SAMPLERS = ("grid", "tpe", "adaptive")

Answers = Mapping[tuple[str, Point], Sequence[Record]]
"""(arm, point) -> its records, one per repeat."""

Thresholds = dict[Series, tuple[str, int | None]]
"""Series -> state and threshold."""


@dataclass(frozen=True)
class Replay:
    """What one sampler took."""

    sampler: str
    trials: int
    device_s: float
    """Seconds of all its trials, start and end included, times the devices of each."""
    settled_s: float
    """The same up to the trial after which its thresholds no longer changed."""
    thresholds: Thresholds


def replay(study: Study, kind: Kind, answers: Answers, sampler: str) -> Replay:
    """Ask for every trial of one kind by another sampler, and answer with what was measured."""
    repeats = min(map(len, answers.values()))
    sweep = study.sections[kind]
    changes: dict[str, Any] = {"sampler": sampler, "repeats": repeats, "points": None}
    if sampler == "adaptive":
        every = repeats * space.points_asked(sweep, study.world_sizes)
        changes["adaptive"] = sweep.adaptive.model_copy(update={"trials": every, "confirm": 0})
    other: Kind = "learning" if kind == "throughput" else "throughput"
    sections = {kind: sweep.model_copy(update=changes), other: None}
    asked_by = study.model_copy(update=sections | {"ask_version": ASK_VERSION})
    requests, known = [], {}
    for slot in space.plan(asked_by):
        request = ask.ask(asked_by, slot.number, requests, known)
        requests.append(request)
        # Of one that is skipped only that is ever read.
        of_point = next(iter(answers.values())) if request.skip else answers[request.arm, request.point]
        known[slot.number] = of_point[0 if request.skip else request.repeat].model_copy(update={"request": request})
    ran = [record for record in known.values() if record.request.skip is None]
    seconds = [record.outcome.total_s * record.world_size for record in ran]
    final = thresholds(ran, study)
    settled = len(ran)
    while settled and thresholds(ran[: settled - 1], study) == final:
        settled -= 1
    return Replay(sampler, len(ran), sum(seconds), sum(seconds[:settled]), final)


def answers_of(study: Study, kind: Kind, records: Iterable[Record]) -> Answers:
    """Return the recorded trials of every legal point.

    Raises:
        UserError: when a point was measured less than twice.
    """
    sweep = study.sections.get(kind)
    if sweep is None:
        raise UserError(f"study {study.study} has no {kind} trials. Name another --kind or study")
    ordered = sorted(without_skipped(records), key=lambda record: record.request.number)
    answers: dict[tuple[str, Point], list[Record]] = {
        (arm, point): [] for arm in study.arms for point in space.legal_points(sweep, study.world_sizes)
    }
    for record in ordered:
        if record.request.kind == kind:
            answers[record.request.arm, record.request.point].append(record)
    fewest = min(answers, key=lambda place: len(answers[place]))
    if len(answers[fewest]) < 2:
        arm, point = fewest
        raise UserError(
            f"{arm}: {point} has {len(answers[fewest])} record(s), and a whole grid with at least 2 of each point is needed"
            " to ask it again in another order. Finish the study first, or name one that has sampler: grid"
        )
    return answers


def with_drawn(answers: Answers, repeats: int, seed: int) -> Answers:
    """Return as many throughput records of each point, those beyond the measured ones drawn.

    A drawn one is a measured one of its point, whose FPS are the point's geometric mean times what some repeat differed by from
    the mean of its own point. Differences are pooled over all points, and widened by sqrt(n / (n - 1)), for a mean of n values lies
    nearer to them than the true one.
    """
    means, differences = {}, []
    for place, records in answers.items():
        logs = [math.log(record.fps_total.median) for record in records if record.fps_total is not None]
        if logs:
            means[place] = statistics.fmean(logs)
        if len(logs) >= 2:
            wider = math.sqrt(len(logs) / (len(logs) - 1))
            differences += [wider * (value - means[place]) for value in logs]
    draw = numpy.random.default_rng(seed)
    drawn = {}
    for place, records in answers.items():
        drawn[place] = list(records[:repeats])
        for number in range(len(records), repeats):
            source = records[number % len(records)]
            fps = source.fps_total
            if fps is not None:
                ratio = math.exp(means[place] + draw.choice(differences)) / fps.median
                scaled = {name: ratio * getattr(fps, name) for name in ("median", "lower_quartile", "upper_quartile")}
                fps = fps.model_copy(update=scaled)
            drawn[place].append(source.model_copy(update={"fps_total": fps}))
    return drawn


def thresholds(records: Sequence[Record], study: Study) -> Thresholds:
    """Return state and threshold of each series of either kind."""
    measured = measurements_of(records)
    limits = [*throughput.analyse(measured, study.decide), *learning.analyse(measured, study.decide)]
    return {limit.series: (limit.state, limit.threshold_num_envs) for limit in limits}


def main() -> None:
    """Ask a recorded grid again by other samplers, and say what each would have taken."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("results", type=Path, help="the folder of a study with a whole grid")
    parser.add_argument("--kind", choices=("throughput", "learning"), default="throughput")
    parser.add_argument(
        "--repeats", type=int, help="of each point; those beyond the measured ones are drawn from their noise"
    )
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: %(default)s)")
    arguments = parser.parse_args()
    folder = study_folder(arguments.results)
    study, records = load_study(folder), load_records(folder)
    answers, caption = answers_of(study, arguments.kind, records), "device seconds; share of the whole grid"
    if arguments.repeats is not None:
        if arguments.kind != "throughput":
            raise UserError(f"--repeats draws throughput trials, and --kind is {arguments.kind}: leave one of them out")
        if arguments.repeats < 2:
            raise UserError(f"--repeats {arguments.repeats}: expected 2 or more, for a verdict needs two of a point")
        caption += f"\n{min(map(len, answers.values()))} repeats of each point or more are measured, the rest drawn"
        answers = with_drawn(answers, arguments.repeats, arguments.seed)
    fewest = min(map(len, answers.values()))
    if fewest < LEAST_REPEATS:
        drawn = ", or draw the rest with --repeats 5" if arguments.kind == "throughput" else ""
        raise UserError(
            f"{study.study} has {fewest} repeats of a point, and sampler: adaptive decides nothing before {LEAST_REPEATS}. Measure more"
            f" (more_repeats){drawn}"
        )
    replays = [replay(study, arguments.kind, answers, sampler) for sampler in SAMPLERS]
    grid = replays[0]
    table = Table(title=f"{study.study}: {arguments.kind}", caption=caption)
    for heading in ("sampler", "trials", "all", "until settled"):
        table.add_column(heading, justify="left" if heading == "sampler" else "right")
    for series in grid.thresholds:
        table.add_column(f"{series.arm}\n{series_words(series)}" if len(study.arms) > 1 else series_words(series))
    for replayed in replays:
        times = replayed.device_s, replayed.settled_s
        spent = [f"{seconds:,.0f} s ({seconds / grid.device_s:.0%})" for seconds in times]
        said = [_said(replayed.thresholds.get(series)) for series in grid.thresholds]
        table.add_row(replayed.sampler, str(replayed.trials), *spent, *said)
    Console().print(table)


def _said(answer: tuple[str, int | None] | None) -> str:
    if answer is None:
        return "not measured"
    state, threshold = answer
    return state if threshold is None else f"{threshold:,}"


if __name__ == "__main__":
    run_command(main)
