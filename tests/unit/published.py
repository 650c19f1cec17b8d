"""Studies measured on GPUs (results-published), as pages and tests read them."""

from benchmarks.pages.published import PUBLISHED, ROOT, records_of, uuid_of, verdict_of

__all__ = ["PUBLISHED", "ROOT", "records_of", "uuid_of", "verdict_of"]
