"""Memory limit: how many environments fit the device's own memory?"""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT
from envknee.verdict.memory_fit import Fit, design_of, fit_peaks
from envknee.verdict.memory_model import largest_fitting, on_cards
from envknee.verdict.memory_sample import Sample, sample_of
from envknee.verdict.schema.memory import TERMS, Largest, MemoryLimit, MemoryWall
from envknee.verdict.series import ONE_GPU, Ranks, Series
from envknee.verdict.settings import Settings

UNSTEADY = 0.10
"""Difference between peaks of one point, as a share, from which only the larger one counts."""


def analyse(records: Sequence[Record], settings: Settings) -> MemoryLimit | None:
    """Return the memory limit of one arm, from its records; None without records."""
    if not records:
        return None
    devices = [record.outcome.environment.device for record in records if record.outcome.environment is not None]
    memory_gb = min((r.rank_memory_gb for r in records if r.rank_memory_gb is not None), default=None)
    return limit_of(
        [sample_of(record) for record in records],
        memory_gb,
        settings,
        on_gpu=any(device.type == "cuda" for device in devices),
        ranks=Ranks.of(records[0].request),
        device_kinds=len({device.name for device in devices}),
    )


def limit_of(
    samples: Sequence[Sample],
    memory_gb: float | None,
    settings: Settings,
    *,
    on_gpu: bool = True,
    ranks: Ranks = ONE_GPU,
    device_kinds: int = 1,
) -> MemoryLimit:
    """Return the limit of one arm from samples of every kind of trial. Works without records.

    `memory_gb` is what one rank may use; None if unknown.
    """
    measured, unsteady = _larger_peaks([sample for sample in samples if sample.whole])
    design, fit = design_of(measured, ranks.world_size), fit_peaks(measured, ranks.world_size)
    every = sorted({sample.series for sample in samples}, key=lambda series: (series.horizon, series.batch_size or 0))
    return MemoryLimit(
        world_size=ranks.world_size,
        rank_word=ranks.word,
        quantity="device memory used" if on_gpu else "resident set of the process",
        device_memory_gb=memory_gb,
        device_kinds=device_kinds,
        margin=settings.memory_margin,
        confidence=settings.confidence,
        identifiable=fit is not None,
        lacks=design.lacks,
        sizes=design.sizes,
        points=design.points,
        unknowns=len(design.columns),
        terms_gb={TERMS[column]: float(fit.values[column]) for column in fit.columns} if fit else {},
        trials=len(measured),
        horizons=sorted({sample.horizon for sample in measured}),
        keeps_replay=any(sample.off_policy for sample in measured),
        trials_in_parts=sum(sample.fitted and sample.in_parts for sample in samples),
        unsteady=unsteady,
        largest_error_gb=fit.largest_error_gb if fit else None,
        walls=[_wall(series, samples, fit, memory_gb, settings) for series in every],
        cards=on_cards(fit, every, settings) if fit and on_gpu else [],
    )


def _larger_peaks(samples: Sequence[Sample]) -> tuple[list[Sample], list[int]]:
    """Return samples without peaks that a repeat of their point exceeds by more than `UNSTEADY`, and the sizes of such points.

    Sampling from outside can miss a peak: the larger one must fit. Peaks that a trainer of ours counts itself are all kept.
    """
    largest: dict[tuple[Series, int], float] = {}
    for sample in samples:
        point = (sample.series, sample.num_envs)
        largest[point] = max(largest.get(point, 0.0), sample.peak_gb or 0.0)
    steady: list[Sample] = []
    unsteady: set[int] = set()
    for sample in samples:
        peak_gb = sample.peak_gb or 0.0
        if sample.from_outside and peak_gb * (1.0 + UNSTEADY) < largest[sample.series, sample.num_envs]:
            unsteady.add(sample.num_envs)
        else:
            steady.append(sample)
    return steady, sorted(unsteady)


def _wall(
    series: Series, samples: Sequence[Sample], fit: Fit | None, memory_gb: float | None, settings: Settings
) -> MemoryWall:
    at_series = [sample for sample in samples if sample.series == series]
    failed = min((sample.num_envs for sample in at_series if sample.status in DID_NOT_FIT), default=None)
    predicted = Largest(horizon=series.horizon, batch_size=series.batch_size)
    if fit is not None and memory_gb is not None:
        predicted = largest_fitting(
            fit, series, memory_gb, margin=settings.memory_margin, confidence=settings.confidence
        )
    largest = predicted.largest_num_envs
    return MemoryWall(
        **dict(predicted),
        largest_fitted=max((sample.num_envs for sample in at_series if sample.fitted), default=None),
        smallest_failed=failed,
        out_of_memory=sorted({sample.num_envs for sample in at_series if sample.status == "oom"}),
        contradicted=largest is not None and failed is not None and failed <= largest,
    )
