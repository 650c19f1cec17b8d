"""All trials as a table in HTML, and as one self-contained page."""

import html
from collections.abc import Callable, Sequence

from envknee.figures.canvas import task_and_hardware
from envknee.figures.style import STATUS_WORDS, no_value
from envknee.limits.verdict import Verdict
from envknee.record import Record


def trials_html(verdict: Verdict, records: Sequence[Record]) -> str:
    """Return a table of all trials as one self-contained HTML page."""
    return TABLE_PAGE.format(
        study=html.escape(verdict.study),
        summary=html.escape(summary(verdict)),
        hardware=html.escape(task_and_hardware(verdict)),
        table=table(records),
    )


def summary(verdict: Verdict) -> str:
    """Return how many trials there are, and how they ended."""
    statuses = ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in verdict.statuses.items()) or "none yet"
    return f"{verdict.trials_measured} of {verdict.trials_planned} trials: {statuses}"


def table(records: Sequence[Record], links: Callable[[Record], Sequence[tuple[str, str]]] | None = None) -> str:
    """Return the table alone; `links` are (word, address) pairs for each trial, in a column of their own."""
    columns = TABLE_COLUMNS if links is None else (*TABLE_COLUMNS, ("files and run", "l"))
    heads = "".join(f'<th class="{style}">{html.escape(head)}</th>' for head, style in columns)
    rows = "\n".join(_row(record, links) for record in sorted(records, key=lambda record: record.request.number))
    return f'<table class="trials">\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>'


TABLE_COLUMNS = (
    ("#", "n"), ("arm", ""), ("kind", ""), ("envs", "n"), ("horizon", "n"), ("batch", "n"), ("repeat", "n"), ("status", "s"),
    ("FPS total", "n"), ("peak GB", "n"), ("seconds to target", "n"), ("best reward", "n"), ("took s", "n"), ("reason", "r"),
)  # fmt: skip

TABLE_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Trials of {study}</title>
<style>
body {{ font: 14px/1.45 system-ui, "DejaVu Sans", sans-serif; color: #222; margin: 1.5rem; }}
h1 {{ font-size: 1.25rem; margin: 0; }}
p {{ color: #6b6b6b; margin: .2rem 0; }}
table {{ border-collapse: collapse; margin-top: 1rem; font-variant-numeric: tabular-nums; }}
th, td {{ padding: .3rem .7rem; text-align: left; border-bottom: 1px solid #e3e3e3; white-space: nowrap; }}
th {{ position: sticky; top: 0; background: #fff; border-bottom: 2px solid #444; }}
.n {{ text-align: right; }}
.r {{ white-space: normal; min-width: 14rem; color: #6b6b6b; }}
.good .s {{ color: #00694c; }}
.bad .s {{ color: #a84800; font-weight: 600; }}
tr:hover td {{ background: #f5f8fa; }}
</style>
</head>
<body>
<h1>Trials of {study}</h1>
<p>{summary}</p>
<p>{hardware}</p>
{table}
</body>
</html>
"""


def _row(record: Record, links: Callable[[Record], Sequence[tuple[str, str]]] | None) -> str:
    request = record.request
    cells = (
        str(request.number), request.arm, request.kind,
        f"{request.num_envs:,}" + (f" x {record.world_size}" if record.world_size > 1 else ""), f"{request.horizon:,}",
        "library" if request.batch_size is None else f"{request.batch_size:,}", str(request.repeat + 1),
        STATUS_WORDS[record.outcome.status], _cell(record.fps_total.median if record.fps_total else None, ",.0f"),
        _cell(record.memory_peak_gb, ".2f"), _cell(record.seconds_to_target, ",.1f"), _cell(record.best_reward, ".2f"),
        _cell(record.outcome.total_s, ",.0f"), record.outcome.reason or "",
    )  # fmt: skip
    kind = "bad" if no_value(record.outcome.status) else "good"
    columns = zip(cells, TABLE_COLUMNS, strict=True)
    body = "".join(
        # What a narrow screen, which has no heads, shows beside it.
        f'<td class="{style}" data-head="{html.escape(head)}">{html.escape(cell)}</td>'
        for cell, (head, style) in columns
    )
    if links is not None:
        own = " ".join(f'<a href="{html.escape(address)}">{html.escape(word)}</a>' for word, address in links(record))
        body += f'<td class="links">{own}</td>'
    return f'<tr class="{kind}" id="trial-{request.number:04d}">{body}</tr>'


def _cell(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
