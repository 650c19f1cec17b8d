"""Peaks that were sampled from outside: of repeats that differ by more than 10%, the larger one counts."""

from envknee.study.model import Decide
from envknee.verdict import memory_limit
from envknee.verdict.memory_sample import Sample
from envknee.words.memory import memory_notes


def sample(num_envs: int, peak_gb: float, from_outside: bool = True) -> Sample:
    return Sample(
        num_envs=num_envs, horizon=8, batch_size=None, status="ok", peak_gb=peak_gb, from_outside=from_outside
    )


def test_a_missed_peak_does_not_count_and_is_told():
    peaks = [(64, 2.0), (64, 2.05), (128, 3.0), (128, 3.0), (256, 4.6), (256, 9.8)]
    limit = memory_limit.limit_of([sample(*own) for own in peaks], 24.0, Decide())
    assert (limit.unsteady, limit.trials) == ([256], 5)
    assert "peaks of repeats differ by more than 10% at 256 environments: the larger ones count" in memory_notes(limit)


def test_peaks_that_a_trainer_counts_itself_are_all_kept():
    limit = memory_limit.limit_of([sample(256, gb, from_outside=False) for gb in (4.6, 9.8)], 24.0, Decide())
    assert (limit.unsteady, limit.trials) == ([], 2)
