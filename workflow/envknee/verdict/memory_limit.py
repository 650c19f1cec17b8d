"""Memory limit: how many environments fit the device's own memory?"""

from collections.abc import Callable, Sequence

from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT
from envknee.verdict.memory_fit import Fit, fit_peaks
from envknee.verdict.memory_model import largest_fitting, on_cards
from envknee.verdict.memory_sample import Sample, sample_of
from envknee.verdict.schema.memory import TERMS, Largest, MemoryLimit, MemoryWall
from envknee.verdict.series import ONE_GPU, Ranks, Series
from envknee.verdict.settings import Settings
from envknee.words.memory import memory_notes, memory_statement
from envknee.words.numbers import counted
from envknee.words.ranks import ranks_words
from envknee.words.series import series_words


def analyse(records: Sequence[Record], settings: Settings) -> MemoryLimit | None:
    """Return the memory limit of one arm, from its records; None without records."""
    if not records:
        return None
    request = records[0].request
    devices = [record.outcome.environment.device for record in records if record.outcome.environment is not None]
    memory_gb = min((r.rank_memory_gb for r in records if r.rank_memory_gb is not None), default=None)
    on_gpu = any(device.type == "cuda" for device in devices)
    ranks = Ranks.of(request)
    notes = []
    if memory_gb is not None and not on_gpu and ranks.world_size > 1:
        notes.append(f"{ranks_words(ranks)} share the host's memory: {memory_gb:,.1f} GB for each")
    if (kinds := len({device.name for device in devices})) > 1:
        notes.append(f"{kinds} kinds of device: the smallest memory is taken")
    samples = [sample_of(record) for record in records]
    return limit_of(samples, memory_gb, settings, on_gpu=on_gpu, ranks=ranks, device_notes=notes)


def limit_of(
    samples: Sequence[Sample],
    memory_gb: float | None,
    settings: Settings,
    *,
    on_gpu: bool = True,
    ranks: Ranks = ONE_GPU,
    device_notes: Sequence[str] = (),
    at: Callable[[Series], str] = lambda series: f" at {series_words(series)}",
) -> MemoryLimit:
    """Return the limit of one arm from samples of every kind of trial. Works without records.

    `memory_gb` is what one rank may use; None if unknown.

    `at` returns ` at horizon 16, batch 128`, or what else follows "environments fit" in the statement.
    """
    measured = [sample for sample in samples if sample.whole]
    fit, why_not = fit_peaks(measured, ranks.world_size)
    notes = list(device_notes)
    if in_parts := sum(sample.fitted and sample.in_parts for sample in samples):
        notes.append(f"{counted(in_parts, 'trial')} learned in parts, to fit what there was: not in the model")
    every = sorted({sample.series for sample in samples}, key=lambda series: (series.horizon, series.batch_size or 0))
    walls = [_wall(series, samples, fit, memory_gb, settings) for series in every]
    if fit is not None:
        notes += memory_notes(fit, walls)
    limit = MemoryLimit(
        quantity="device memory used" if on_gpu else "resident set of the process",
        device_memory_gb=memory_gb,
        world_size=ranks.world_size,
        margin=settings.memory_margin,
        confidence=settings.confidence,
        identifiable=fit is not None,
        terms_gb={TERMS[column]: float(fit.values[column]) for column in fit.columns} if fit else {},
        trials=len(measured),
        largest_error_gb=fit.largest_error_gb if fit else None,
        walls=walls,
        cards=on_cards(fit, every, settings) if fit and on_gpu else [],
        notes=notes,
    )
    return limit.model_copy(update={"statement": memory_statement(limit, fit, why_not, ranks, at)})


def _wall(
    series: Series, samples: Sequence[Sample], fit: Fit | None, memory_gb: float | None, settings: Settings
) -> MemoryWall:
    own = [sample for sample in samples if sample.series == series]
    failed = min((sample.num_envs for sample in own if sample.status in DID_NOT_FIT), default=None)
    predicted = Largest(horizon=series.horizon, batch_size=series.batch_size)
    if fit is not None and memory_gb is not None:
        predicted = largest_fitting(
            fit, series, memory_gb, margin=settings.memory_margin, confidence=settings.confidence
        )
    largest = predicted.largest_num_envs
    return MemoryWall(
        **dict(predicted),
        largest_fitted=max((sample.num_envs for sample in own if sample.fitted), default=None),
        smallest_failed=failed,
        out_of_memory=sorted({sample.num_envs for sample in own if sample.status == "oom"}),
        contradicted=largest is not None and failed is not None and failed <= largest,
    )
