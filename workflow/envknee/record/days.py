"""The days on which trials were measured. Pure."""

import time
from collections.abc import Sequence

from envknee.record.schema import Record


def days_of(records: Sequence[Record]) -> list[str]:
    """Return each day once, in order, as `2026-05-01` (UTC)."""
    return sorted({time.strftime("%Y-%m-%d", time.gmtime(record.outcome.started_unix_s)) for record in records})
