"""All trials as rows of a table: point, status and results. Pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from envknee.record.schema import Record
from envknee.record.status import SUCCEEDED
from envknee.show.words import STATUS_WORDS

COLUMNS = (
    ("#", "n"), ("arm", ""), ("kind", ""), ("envs", "n"), ("horizon", "n"), ("batch", "n"), ("repeat", "n"), ("status", "s"),
    ("FPS total", "n"), ("peak GB", "n"), ("seconds to target", "n"), ("best reward", "n"), ("took s", "n"), ("reason", "r"),
)  # fmt: skip
"""Column heads, and the CSS classes of their cells."""


Link = tuple[str, str]
"""A link: its text, and its address."""


class TrialRow(NamedTuple):
    """One trial, with a cell for each of `COLUMNS`; an empty cell was not measured."""

    name: str
    has_value: bool
    cells: tuple[str, ...]
    links: Sequence[Link]


def trial_rows(records: Sequence[Record], links: Callable[[Record], Sequence[Link]]) -> list[TrialRow]:
    """Return a row for each trial, by number."""
    return [_row(record, links(record)) for record in sorted(records, key=lambda record: record.request.number)]


def _row(record: Record, links: Sequence[Link]) -> TrialRow:
    request, outcome = record.request, record.outcome
    cells = (
        str(request.number), request.arm, request.kind,
        f"{request.num_envs:,}" + (f" x {record.world_size}" if record.world_size > 1 else ""), f"{request.horizon:,}",
        "library" if request.batch_size is None else f"{request.batch_size:,}", str(request.repeat + 1),
        STATUS_WORDS[outcome.status], _cell(record.fps_total.median if record.fps_total else None, ",.0f"),
        _cell(record.memory_peak_gb, ".2f"), _cell(record.seconds_to_target, ",.1f"), _cell(record.best_reward, ".2f"),
        _cell(outcome.total_s, ",.0f"), outcome.reason or "",
    )  # fmt: skip
    return TrialRow(f"trial-{request.number:04d}", outcome.status in SUCCEEDED, cells, links)


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
