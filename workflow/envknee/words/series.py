"""Horizon and batch size in words. Pure."""

from envknee.verdict.series import Series
from envknee.words.numbers import shown_batch


def series_words(series: Series) -> str:
    """Return `horizon 16, batch 128`."""
    return f"horizon {series.horizon}, {shown_batch(series.batch_size)}"
