"""All trials as rows of a table: point, status and results. Pure."""

from envknee.record.schema import Record
from envknee.words.statuses import STATUS_WORDS

COLUMNS = (
    ("#", "n"), ("arm", ""), ("kind", ""), ("envs", "n"), ("horizon", "n"), ("batch", "n"), ("repeat", "n"), ("status", "s"),
    ("FPS total", "n"), ("peak GB", "n"), ("seconds to target", "n"), ("best reward", "n"), ("took s", "n"), ("reason", "r"),
)  # fmt: skip
"""Column heads, and the CSS classes of their cells."""


def cells_of(record: Record) -> tuple[str, ...]:
    """Return a trial's cell for each of `COLUMNS`; an empty cell was not measured."""
    request, outcome = record.request, record.outcome
    return (
        str(request.number), request.arm, request.kind,
        f"{request.num_envs:,}" + (f" x {record.world_size}" if record.world_size > 1 else ""), f"{request.horizon:,}",
        "library" if request.batch_size is None else f"{request.batch_size:,}", str(request.repeat + 1),
        STATUS_WORDS[outcome.status], _cell(record.fps_total.median if record.fps_total else None, ",.0f"),
        _cell(record.memory_peak_gb, ".2f"), _cell(record.seconds_to_target, ",.1f"), _cell(record.best_reward, ".2f"),
        _cell(outcome.total_s, ",.0f"), outcome.reason or "",
    )  # fmt: skip


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
