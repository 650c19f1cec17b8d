"""Studies measured on GPUs (results-published), as pages and tests read them."""

from envknee.record.schema import Record

from benchmarks.pages.published import PUBLISHED, ROOT, records_of, verdict_of

__all__ = ["PUBLISHED", "ROOT", "records_of", "uuid_of", "verdict_of"]


def uuid_of(record: Record) -> str | None:
    return record.outcome.environment.device.uuid if record.outcome.environment else None
