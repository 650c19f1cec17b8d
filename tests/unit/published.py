"""Studies measured on GPUs (results-published), and words about them: what tests compare pages with."""

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from envknee.after.compare import print as compare
from envknee.after.compare.ratios import Ratio
from envknee.after.compare.sides import Side
from envknee.decide.study import decide
from envknee.record.read import load_records
from envknee.record.schema import Record
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.study import Verdict
from envknee.words.tables import fitting

ROOT = Path(__file__).parents[2]
PUBLISHED = {path.name: StudyFolder(path) for path in sorted((ROOT / "results-published").glob("*/"))}


@cache
def records_of(name: str) -> list[Record]:
    return load_records(PUBLISHED[name])


@cache
def verdict_of(name: str) -> Verdict:
    return decide(records_of(name), read_study(PUBLISHED[name].study))


def fits_by_card(limit: MemoryLimit, horizon: int) -> dict[str, str]:
    """Return by card what `788 (721 to 843)` stands for."""
    return {card.card.partition(" (")[0]: fitting(card) for card in limit.cards if card.horizon == horizon}


def uuid_of(record: Record) -> str | None:
    return record.outcome.environment.device.uuid if record.outcome.environment else None


def both_sides(study: str, left: str, right: str) -> tuple[Side, Side]:
    """Return two arms of a study, with what they have in common."""
    (pair,) = compare.sides(*(f"{PUBLISHED[study].root}:{name}" for name in (left, right)))
    return pair


def ratio_of(pair: Iterable[Side], measure: str) -> Ratio:
    """Return the right side's measure over the left one's."""
    comparison = compare.compare(*pair, confidence=0.95, margin=0.05)
    return next(ratio for ratio in comparison.overall if ratio.measure == measure)


def gain_in_fps(study: str, arm: str, num_envs: int, pairs: int) -> str:
    """Return of an arm's FPS what `4.32 (4.04 to 4.63)` times stock's stands for."""
    at_size = [
        replace(side, records=[record for record in side.records if record.request.num_envs == num_envs])
        for side in both_sides(study, "stock", arm)
    ]
    fps = ratio_of(at_size, "FPS, total")
    assert fps.lower is not None and fps.upper is not None and fps.pairs == pairs
    return f"{fps.ratio:.2f} ({fps.lower:.2f} to {fps.upper:.2f})"


def peak_gb(study: str, arm: str, num_envs: int) -> float:
    """Return the most memory of an arm's trials at a size; one that comes again in its process does not count."""
    return max(
        record.memory_peak_gb or 0.0
        for record in records_of(study)
        if (record.request.arm, record.request.num_envs) == (arm, num_envs) and not record.request.again
    )


def words_of(name: str) -> str:
    """Return a page's text in one line, without the marks of quotes."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").replace("\n> ", " ").split())
