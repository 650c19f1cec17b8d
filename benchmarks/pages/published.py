"""What was measured on GPUs (results-published), read once: records, verdicts as they are decided today, ratios of arms."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from envknee.after.compare.ratios import compare
from envknee.after.compare.sides import Side, sides
from envknee.base.fields import Kind
from envknee.decide.study import decide
from envknee.record.packed import study_folder
from envknee.record.read import load_records
from envknee.record.schema import Phase, Record
from envknee.study.load import read_study
from envknee.verdict.schema.comparison import MeasureName, Ratio
from envknee.verdict.schema.learning import LearningLimit, LearningPoint
from envknee.verdict.schema.limit import Gain
from envknee.verdict.schema.memory import CardPrediction
from envknee.verdict.schema.phases import PhaseLaws
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.words.cards import fitting

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = {
    path.parent.name: study_folder(path.parent) for path in sorted((ROOT / "results-published").glob("*/study.json"))
}
"""The studies by name. results-published/atlas is no study: it holds one for each task."""


@cache
def records_of(study: str) -> list[Record]:
    """Return the records of a published study."""
    return load_records(PUBLISHED[study])


@cache
def verdict_of(study: str) -> Verdict:
    """Return the verdict of a published study, decided now."""
    return decide(records_of(study), read_study(PUBLISHED[study].study))


def arm_of(study: str, name: str) -> ArmVerdict:
    """Return what is decided about an arm."""
    return next(arm for arm in verdict_of(study).arms if arm.arm == name)


def throughput_of(study: str, arm: str, horizon: int) -> ThroughputLimit:
    """Return an arm's throughput limit at a horizon; there must be one."""
    (limit,) = [limit for limit in arm_of(study, arm).throughput if limit.horizon == horizon]
    return limit


def gain_from(limit: ThroughputLimit | LearningLimit, num_envs: int) -> Gain:
    """Return the gain of doubling `num_envs`, which must have been measured."""
    return next(gain for gain in limit.gains if gain.num_envs == num_envs)


def learning_point(limit: LearningLimit, num_envs: int) -> LearningPoint:
    """Return a learning limit's point, which must have been measured."""
    return next(point for point in limit.points if point.num_envs == num_envs)


def phases_of(study: str, arm: str, horizon: int) -> PhaseLaws:
    """Return the phase laws of an arm at a horizon; there must be some."""
    (laws,) = [laws for laws in arm_of(study, arm).phases if laws.horizon == horizon]
    return laws


def card_of(study: str, arm: str, card: str, horizon: int = 32) -> CardPrediction:
    """Return the prediction of what fits a card, such as `24 GB`; there must be one."""
    limit = arm_of(study, arm).memory
    assert limit is not None
    (found,) = [own for own in limit.cards if own.card.partition(" (")[0] == card and own.horizon == horizon]
    return found


def fits(study: str, arm: str, card: str, horizon: int = 32) -> str:
    """Return how many environments are predicted to fit a card: `788 (721 to 843)`."""
    return fitting(card_of(study, arm, card, horizon))


def uuid_of(record: Record) -> str | None:
    """Return the UUID of the GPU that measured a trial; None if it is not known."""
    return record.outcome.environment.device.uuid if record.outcome.environment else None


def both_sides(study: str, left: str, right: str) -> tuple[Side, Side]:
    """Return two arms of a study, with what they have in common."""
    (pair,) = sides(*(f"{PUBLISHED[study].root}:{name}" for name in (left, right)))
    return pair


def only(pair: Iterable[Side], is_meant: Callable[[Record], bool]) -> list[Side]:
    """Return both sides with some of their trials."""
    return [replace(side, records=[*filter(is_meant, side.records)]) for side in pair]


def ratio_of(pair: Iterable[Side], measure: MeasureName) -> Ratio:
    """Return the right side's measure over the left one's."""
    comparison = compare(*pair, confidence=0.95, margin=0.05)
    return next(ratio for ratio in comparison.overall if ratio.measure == measure)


@cache
def fps_ratio(study: str, arm: str, num_envs: int, to: str = "stock") -> Ratio:
    """Return an arm's FPS at a size over those of the arm `to`."""
    return ratio_of(only(both_sides(study, to, arm), lambda record: record.request.num_envs == num_envs), "fps_total")


@cache
def learning_ratio(study: str, arm: str, measure: MeasureName, to: str = "stock") -> Ratio:
    """Return the seconds or the environment steps to the target of an arm over those of the arm `to`."""
    return ratio_of(both_sides(study, to, arm), measure)


def peak_gb(study: str, arm: str, num_envs: int) -> float:
    """Return the most memory of an arm's trials at a size; one that comes again in its process does not count."""
    return max(
        record.memory_peak_gb or 0.0
        for record in records_of(study)
        if (record.request.arm, record.request.num_envs) == (arm, num_envs) and not record.request.again
    )


def timed_records(
    study: str, arm: str, num_envs: int, horizon: int | None = None, kind: Kind = "throughput"
) -> list[Record]:
    """Return an arm's trials of one kind at a size that were timed to their end."""
    return [
        record
        for record in records_of(study)
        if (record.request.kind, record.request.arm, record.request.num_envs) == (kind, arm, num_envs)
        and horizon in (None, record.request.horizon)
        and record.fps_total is not None
    ]


def learning_records(study: str, arm: str, num_envs: int | None = None) -> list[Record]:
    """Return an arm's learning trials; with `num_envs` those at that size."""
    return [
        record
        for record in records_of(study)
        if (record.request.kind, record.request.arm) == ("learning", arm)
        and num_envs in (None, record.request.num_envs)
    ]


def median_fps(study: str, arm: str, num_envs: int, horizon: int = 32, kind: Kind = "throughput") -> float:
    """Return the median over an arm's trials of one kind of their FPS at a size."""
    timed = timed_records(study, arm, num_envs, horizon, kind)
    return median(record.fps_total.median for record in timed if record.fps_total is not None)


def median_gb(study: str, arm: str, num_envs: int) -> float:
    """Return the median over an arm's trials of their peak memory at a size."""
    own = [record for record in records_of(study) if (record.request.arm, record.request.num_envs) == (arm, num_envs)]
    return median(record.memory_peak_gb for record in own if record.memory_peak_gb is not None)


def median_phase_s(study: str, arm: str, num_envs: int, phase: Phase) -> float:
    """Return the median over an arm's trials of the seconds that a phase takes in an iteration."""
    timed = timed_records(study, arm, num_envs)
    return median(record.phases_s[phase].median for record in timed if record.phases_s is not None)


def fps_of_processes(study: str, arm: str, num_envs: int) -> float:
    """Return the geometric mean over processes of an arm's FPS at a size; one that measured it twice counts once."""
    by_repeat: dict[int, list[float]] = {}
    for record in records_of(study):
        if (record.request.arm, record.request.num_envs) == (arm, num_envs) and record.fps_total is not None:
            by_repeat.setdefault(record.request.repeat, []).append(record.fps_total.median)
    return geometric_mean(geometric_mean(own) for own in by_repeat.values())


def median_s_to_target(study: str, arm: str) -> float:
    """Return the median over an arm's trials of the seconds to the target; every trial must have reached it."""
    seconds = [record.seconds_to_target for record in records_of(study) if record.request.arm == arm]
    return median(own for own in seconds if own is not None)


def target_of(study: str) -> float:
    """Return the reward at which training counts as learned."""
    learning = read_study(PUBLISHED[study].study).learning
    assert learning is not None
    return learning.target_reward


@cache
def json_of(name: str) -> Any:
    """Return the object or list that a JSON file of results-published holds."""
    return json.loads((ROOT / "results-published" / f"{name}.json").read_text(encoding="utf-8"))
