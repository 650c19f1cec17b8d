"""What the report's scripts read: charts, and every trial, as JSON in the page. Pure."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from envknee.record.schema import Record
from envknee.record.status import SUCCEEDED
from envknee.show.charts.model import Chart
from envknee.show.trials import COLUMNS, cells_of
from envknee.study.errors import printable

DIGITS = 6
"""Significant digits of a number: more than a screen shows."""


def page_data(trials: Sequence[tuple[Record, dict[str, str]]], charts: Mapping[str, Chart]) -> Markup:
    """Return the JSON, safe inside a script element. `trials` come with their links (text → address)."""
    data = {"charts": {name: chart.model_dump() for name, chart in charts.items()}, "trials": _table(trials)}
    text = json.dumps(_plain(data), separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - no text of it can end the element


def _table(trials: Sequence[tuple[Record, dict[str, str]]]) -> dict[str, Any]:
    """Return the table: heads, a row for each trial, and around which number each link's address stands.

    The links of a row are a place in `link_sets`: most of ten thousand trials have the same ones.
    """
    heads = [head for head, _ in COLUMNS]
    addresses: dict[str, tuple[str, str]] = {}
    for record, links in trials:
        for word, address in links.items():
            if word not in addresses:
                before, _, after = address.rpartition(f"{record.request.number:04d}")
                addresses[word] = before, after
    link_sets = list(dict.fromkeys(tuple(links) for _, links in trials))
    place_of = {links: place for place, links in enumerate(link_sets)}
    return {
        "heads": [{"head": head, "style": style} for head, style in COLUMNS],
        "columns": {name: heads.index(name) for name in ("arm", "status")},
        "addresses": addresses,
        "link_sets": link_sets,
        "rows": [
            {"cells": cells_of(record), "good": record.outcome.status in SUCCEEDED, "links": place_of[tuple(links)]}
            for record, links in trials
        ],
    }


def _plain(value: Any) -> Any:
    """Return a value with short numbers, and without characters that reorder text."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(own) for key, own in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(own) for own in value]
    return value
