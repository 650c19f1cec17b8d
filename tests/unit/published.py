"""Studies measured on GPUs (results-published), and words about them: what tests compare README and docs with."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median

from envknee.after.compare import print as compare
from envknee.after.compare.ratios import Ratio
from envknee.after.compare.sides import Side
from envknee.record.read import load_records
from envknee.record.schema import Record
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from envknee.verdict.csv import records_csv
from envknee.verdict.decide import decide
from envknee.verdict.schema.memory import MemoryLimit
from envknee.verdict.schema.study import Verdict

ROOT = Path(__file__).parents[2]
PUBLISHED = {path.name: StudyFolder(path) for path in sorted((ROOT / "results-published").glob("*/"))}


@cache
def records_of(name: str) -> list[Record]:
    return load_records(PUBLISHED[name])


def verdict_of(name: str) -> Verdict:
    return decide(records_of(name), read_study(PUBLISHED[name].study))


def fits_by_card(limit: MemoryLimit, horizon: int) -> dict[str, str]:
    """Return by card what `788 (721 to 843)` stands for."""
    return {
        card.card.partition(" (")[
            0
        ]: f"{card.largest_num_envs:,} ({card.largest_num_envs_lower:,} to {card.largest_num_envs_upper:,})"
        for card in limit.cards
        if card.horizon == horizon
    }


def medians_of(
    name: str, left: str, right: str, device: str | None = None
) -> Callable[[str, int], tuple[float, float]]:
    """Return what tells a column's medians of two arms' throughput trials at a num_envs, on one device where that is given."""
    records = [
        record
        for record in records_of(name)
        if record.request.kind == "throughput" and device in (None, uuid_of(record))
    ]
    lines = list(csv.DictReader(io.StringIO(records_csv(records))))

    def of(column: str, num_envs: int) -> tuple[float, float]:
        own = [line for line in lines if line["num_envs"] == str(num_envs)]
        first, second = (median(float(line[column]) for line in own if line["arm"] == arm) for arm in (left, right))
        return first, second

    return of


def uuid_of(record: Record) -> str | None:
    return record.outcome.environment.device.uuid if record.outcome.environment else None


def quotients(numerators: Sequence[float], denominators: Sequence[float]) -> list[float]:
    return [numerator / other for numerator, other in zip(numerators, denominators, strict=True)]


def ratio_of(pair: Iterable[Side], measure: str) -> Ratio:
    comparison = compare.compare(*pair, confidence=0.95, margin=0.05)
    return next(ratio for ratio in comparison.overall if ratio.measure == measure)


def fps_ratio(study: str, left: str, right: str, num_envs: int) -> Ratio:
    """Return the right arm's FPS over the left one's at a size."""
    both = compare.sides(*(compare.Side.read(f"{PUBLISHED[study].root}:{name}") for name in (left, right)))[0]
    at_size = [
        replace(side, records=[record for record in side.records if record.request.num_envs == num_envs])
        for side in both
    ]
    return ratio_of(at_size, "FPS, total")


def gain_in_fps(study: str, arm: str, num_envs: int, pairs: int) -> str:
    """Return of an arm's FPS what `4.32 (4.04 to 4.63)` times stock's stands for."""
    fps = fps_ratio(study, "stock", arm, num_envs)
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
    return " ".join((ROOT / name).read_text().replace("\n> ", " ").split())
