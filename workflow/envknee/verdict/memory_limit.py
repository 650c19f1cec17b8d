"""Memory limit: how many environments fit the device's own memory?"""

from collections import Counter
from collections.abc import Callable, Sequence

from envknee.record.schema import Record
from envknee.record.status import DID_NOT_FIT
from envknee.study.model import Decide
from envknee.verdict.memory_cards import all_series, on_cards
from envknee.verdict.memory_fit import Fit, fit_peaks
from envknee.verdict.memory_model import largest_fitting, memory_terms
from envknee.verdict.memory_sample import Room, Sample, peaks_at, sample_of
from envknee.verdict.schema.memory import InfeasibleTrial, MemoryLimit, MemoryWall
from envknee.verdict.series import ONE_GPU, Ranks
from envknee.verdict.words.memory import at_point, memory_notes, memory_statement

METHOD = (
    "non-negative least squares on measured peaks, by absolute or relative errors, whichever are likelier; interval, where there are"
    " more points than unknowns: Student's t prediction interval of one more trial on the means of points, inverted, by both kinds of"
    " errors where neither is much likelier; it holds as far as the linear model does"
)


def analyse(records: Sequence[Record], settings: Decide) -> list[MemoryLimit]:
    """Return the memory limit of every arm among `records`, in order of name."""
    return [
        _limit(arm, [record for record in records if record.request.arm == arm], settings)
        for arm in sorted({record.request.arm for record in records})
    ]


def limit_of(
    arm: str,
    samples: Sequence[Sample],
    room: Room,
    settings: Decide,
    *,
    ranks: Ranks = ONE_GPU,
    device_notes: Sequence[str] = (),
    at: Callable[[int, int | None], str] = at_point,
) -> MemoryLimit:
    """Return the limit of one arm from plain numbers. Works without records.

    Args:
        arm: its name
        samples: of every kind of trial, in any order
        room: memory that one rank may use
        settings: margin and confidence
        ranks: ranks that trained together; num_envs is per rank
        device_notes: notes on the devices
        at: returns horizon and batch size as words for the statement
    """
    measured = [sample for sample in samples if sample.whole]
    failed = [sample for sample in samples if sample.status in DID_NOT_FIT]
    fit, why_not = fit_peaks(measured, ranks.world_size)
    notes = [f"not identifiable: {why_not}"] if why_not else []
    notes += device_notes
    if in_parts := sum(sample.fitted and sample.in_parts for sample in samples):
        trials = "trial" if in_parts == 1 else "trials"
        notes.append(f"{in_parts} {trials} learned in parts, to fit what there was: not in the model")
    walls = _walls(arm, samples, measured, failed, fit, room.memory_gb, ranks.world_size, settings)
    if fit is not None:
        notes += memory_notes(fit, measured, walls)
    return MemoryLimit(
        arm=arm,
        quantity="device memory used" if room.on_gpu else "resident set of the process",
        device=room.device,
        device_memory_gb=room.memory_gb,
        world_size=ranks.world_size,
        margin=settings.memory_margin,
        confidence=settings.confidence,
        identifiable=fit is not None,
        terms=memory_terms(fit, settings.confidence) if fit else [],
        trials=len(measured),
        largest_error_gb=fit.largest_error_gb if fit else None,
        walls=walls,
        cards=on_cards(arm, samples, measured, fit, ranks.world_size, settings) if room.on_gpu else [],
        infeasible=_infeasible(failed),
        method=METHOD,
        notes=notes,
        statement=memory_statement(walls, fit, why_not, room, ranks, settings, at),
    )


def _limit(arm: str, records: Sequence[Record], settings: Decide) -> MemoryLimit:
    devices = [record.outcome.environment.device for record in records if record.outcome.environment is not None]
    smallest = min(devices, key=lambda device: device.memory_gb, default=None)
    room = Room(
        memory_gb=min((r.rank_memory_gb for r in records if r.rank_memory_gb is not None), default=None),
        device=smallest.name if smallest else None,
        on_gpu=any(device.type == "cuda" for device in devices),
    )
    ranks = Ranks.of(records[0].request)
    notes = []
    if room.memory_gb is not None and not room.on_gpu and ranks.world_size > 1:
        notes.append(f"{ranks} share the host's memory: {room.memory_gb:,.1f} GB for each")
    if len({device.name for device in devices}) > 1:
        notes.append(f"{len({device.name for device in devices})} kinds of device: the smallest memory is taken")
    return limit_of(arm, [sample_of(record) for record in records], room, settings, ranks=ranks, device_notes=notes)


def _walls(
    arm: str,
    samples: Sequence[Sample],
    measured: Sequence[Sample],
    failed: Sequence[Sample],
    fit: Fit | None,
    memory_gb: float | None,
    world_size: int,
    settings: Decide,
) -> list[MemoryWall]:
    walls = []
    for series in all_series(arm, samples):
        largest, lower, upper = (None, None, None)
        if fit is not None and memory_gb is not None:
            largest, lower, upper = largest_fitting(fit, series, measured, world_size, memory_gb, settings)
        fitted = max((sample.num_envs for sample in peaks_at(series, samples) if sample.fitted), default=None)
        broken = min((sample.num_envs for sample in peaks_at(series, failed)), default=None)
        far = max((sample.num_envs for sample in measured), default=None)
        walls.append(
            MemoryWall(
                horizon=series.horizon,
                batch_size=series.batch_size,
                largest_num_envs=largest,
                largest_num_envs_lower=lower,
                largest_num_envs_upper=upper,
                largest_fitted=fitted,
                smallest_failed=broken,
                extrapolation=largest / far if largest is not None and far else None,
                contradicted=largest is not None and broken is not None and broken <= largest,
            )
        )
    return walls


def _infeasible(failed: Sequence[Sample]) -> list[InfeasibleTrial]:
    counts = Counter(
        (sample.kind, sample.horizon, sample.batch_size or 0, sample.num_envs, sample.status) for sample in failed
    )
    return [
        InfeasibleTrial(
            kind=kind,
            num_envs=num_envs,
            horizon=horizon,
            batch_size=batch or None,
            status="oom" if status == "oom" else "refused",
            trials=trials,
        )
        for (kind, horizon, batch, num_envs, status), trials in sorted(counts.items())
    ]
