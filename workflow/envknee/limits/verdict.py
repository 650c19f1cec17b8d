"""All limits of a study, and one recommendation per arm that a person can act on.

Input: the records of a study and its settings. Output: a `Verdict`, and records.csv with a line per trial.

    python -m envknee.limits.verdict results/<study>                       write verdict.json and records.csv
    python -m envknee.limits.verdict results/<study> --config my.yaml      decide by another file's `decide:` section
"""

import argparse
import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from envknee import config, space
from envknee.config import Study
from envknee.errors import UserError, run_command
from envknee.files import StudyFolder, canonical_json, write_atomically
from envknee.limits import (
    Ranks,
    Series,
    batch,
    by_series,
    learning,
    levers,
    listed,
    machines,
    memory,
    noise_scale,
    phase_law,
    remedies,
    savings,
    scaling,
    shown_batch,
    slowest_and_fastest,
    spending,
    throughput,
)
from envknee.limits.advice import Binds, what_would_move_it
from envknee.limits.batch import BatchLaw
from envknee.limits.learning import BestPoint, Cost, LearningLimit
from envknee.limits.levers import Lever
from envknee.limits.memory import MemoryLimit
from envknee.limits.noise_scale import PointNoise
from envknee.limits.phase_law import PhaseLaws
from envknee.limits.remedies import Remedies
from envknee.limits.savings import Saving
from envknee.limits.scaling import Scaling
from envknee.limits.spending import Spending
from envknee.limits.throughput import ThroughputLimit
from envknee.record import PHASES, Environment, Frozen, Record, load_records, without_skipped

SCHEMA_VERSION = 1


class Headline(Frozen):
    """One arm in a line: where doubling stops paying, what to run, and why."""

    state: Literal["reached", "not reached"]
    threshold_num_envs: int | None
    threshold_lowest: int | None
    """The threshold's interval at the study's confidence; None without any doubling."""
    threshold_highest: int | None
    """None: the measurements set no upper end."""
    repeats: int
    """Of the recommended point."""
    num_envs: int
    """The recommended point; of each rank."""
    horizon: int
    batch_size: int | None
    """Of all ranks together."""
    fps: float
    """At the recommended point: frames per second of all ranks, collecting and learning."""
    fps_lower: float | None
    fps_upper: float | None
    fps_share_of_best: float
    """Of the largest FPS measured at any point of this arm."""
    best_fps: float
    memory_peak_gb: float | None
    """Largest measured peak at the recommended point, of the fullest rank."""
    memory_share: float | None
    """Of the memory that a rank may use."""
    seconds_to_target: Cost | None
    """At the recommended point, where learning trials ran there."""
    best_time_to_target: BestPoint | None
    """The point that reached the target reward soonest, whatever its FPS."""
    binds: Binds
    because: str
    """Why that point."""
    what_would_move_it: str
    phases: str | None = None
    """Which phase sets the knee of the recommended series; None where its trials do not tell their phases."""
    saves: list[Saving] = []
    """What the recommended point saves on the way to the target, or else the point that reached it soonest."""
    levers: list[Lever] = []
    """What a longer horizon, a larger batch and more GPUs were measured to give."""
    method: str = (
        "the series with the largest measured FPS; its throughput threshold, or its num_envs with the largest FPS where none is"
        " reached, within the memory to keep free"
    )
    statement: str


class ArmVerdict(Frozen):
    """Everything decided about one arm."""

    arm: str
    world_size: int = 1
    """Ranks that train together: num_envs are those of each, FPS those of all."""
    rank_word: Literal["GPU", "rank"] = "GPU"
    """What a reader calls one of them."""
    hardware: list[str]
    trials: int
    headline: Headline | None
    """None where no throughput trial was timed to its end."""
    throughput: list[ThroughputLimit]
    """FPS of collecting and learning: the verdict rests on it."""
    throughput_env_step_inference: list[ThroughputLimit]
    """FPS of collecting alone, for comparison."""
    throughput_env_step: list[ThroughputLimit]
    """FPS of the simulation alone, for comparison."""
    learning: list[LearningLimit]
    memory: MemoryLimit | None
    phases: list[PhaseLaws] = []
    """Of each series whose trials tell their phases."""
    batch: list[BatchLaw] = []
    """How optimizer steps and frames to the target answer the batch size."""
    noise_scales: list[PointNoise] = []
    """Gradient noise scale, where several ranks learned together."""
    notes: list[str]

    @property
    def ranks(self) -> Ranks:
        """Return the ranks of this arm, in words."""
        return Ranks(self.world_size, self.rank_word)


class Broken(Frozen):
    """What broke first in some trials of an arm, and what may help."""

    arm: str
    tensor: str
    trials: list[int]
    """Their numbers."""
    reason: str
    """Of the first of them."""
    dump: str | None
    """Where its tensors are, from the study's folder."""
    hints: list[str]


class Verdict(Frozen):
    """What a study says."""

    schema_version: int = SCHEMA_VERSION
    study: str
    task_id: str
    trials_measured: int
    trials_planned: int
    statuses: dict[str, int]
    delta: float
    confidence: float
    memory_margin: float
    arms: list[ArmVerdict]
    scaling: list[Scaling] = []
    """Of each arm with several ranks."""
    spending: list[Spending] = []
    """What each arm's trials took, and at the end those of all arms: what this verdict cost."""
    drill: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """What was broken on purpose: then nothing here is a result."""
    broken: list[Broken] = Field(default=[], exclude_if=lambda value: not value)
    """What broke first in trials that ended as nan or diverged, each kind once."""
    remedies: Remedies | None = Field(default=None, exclude_if=lambda value: value is None)
    """What each arm buys beside the baseline, where the study names one."""


def decide(records: Sequence[Record], study: Study) -> Verdict:
    """Return the verdict of a study; pure, and the same for the same records."""
    statuses = Counter(record.outcome.status for record in records)
    records = without_skipped(records)
    scalings = scaling.analyse(records, study.arms, study.decide)
    arms = [
        _arm(arm, [record for record in records if record.request.arm == arm], scalings, study) for arm in study.arms
    ]
    limits = {arm.arm: arm.memory for arm in arms if arm.memory is not None}
    return Verdict(
        study=study.study,
        task_id=study.task.id,
        trials_measured=len(records),
        trials_planned=len(space.plan(study)) - statuses["skipped"],
        statuses=dict(sorted(statuses.items())),
        delta=study.decide.delta,
        confidence=study.decide.confidence,
        memory_margin=study.decide.memory_margin,
        arms=arms,
        scaling=scalings,
        spending=spending.analyse(records, list(study.arms)),
        remedies=remedies.analyse(records, study.arms, limits, study.decide),
        drill=study.task.inject.warning if study.task.inject else None,
        broken=broken(records),
    )


def broken(records: Sequence[Record]) -> list[Broken]:
    """Return what broke first, by arm and tensor, in the order in which trials are numbered."""
    found: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda record: record.request.number):
        failure = record.outcome.failure
        if record.outcome.status in ("nan", "diverged") and failure is not None and failure.tensor is not None:
            found.setdefault((record.request.arm, failure.tensor), []).append(record)
    return [_broken(arm, tensor, trials) for (arm, tensor), trials in found.items()]


def _broken(arm: str, tensor: str, records: Sequence[Record]) -> Broken:
    first = records[0]
    failure = first.outcome.failure
    assert failure is not None, "records that broke say how"
    return Broken(
        arm=arm,
        tensor=tensor,
        trials=[record.request.number for record in records],
        reason=first.outcome.reason or "",
        dump=f"trials/{first.request.number:04d}/{failure.dump}" if failure.dump else None,
        hints=failure.hints,
    )


def hardware(records: Sequence[Record]) -> list[str]:
    """Return what the trials ran on, such as `NVIDIA H100 (85.0 GB)` or `2 x NVIDIA H200 (150.1 GB each)`, each once."""
    return sorted({_hardware(record, record.outcome.environment) for record in records if record.outcome.environment})


def _hardware(record: Record, environment: Environment) -> str:
    ranks, device = record.world_size, environment.device
    if device.type == "cpu":
        shared = f"; {ranks} ranks" if ranks > 1 else ""
        return f"{device.name} ({environment.cpu_cores} cores, {device.memory_gb:.1f} GB{shared})"
    learner = record.outcome.learner_device
    # A trial that broke at its start knows the device of one rank alone: GPUs of one machine are alike until shown otherwise.
    own = record.rank_devices if learner is None else [device, learner]
    kinds = Counter((one.name, f"{one.memory_gb:.1f} GB") for one in own)
    if learner is not None and len(kinds) > 1:
        sides = {"simulating": device, "learning": learner}
        return " + ".join(f"{one.name} ({one.memory_gb:.1f} GB) {side}" for side, one in sides.items())
    return " + ".join(
        f"{count} x {name} ({memory} each)" if count > 1 else f"{name} ({memory})"
        for (name, memory), count in sorted(kinds.items())
    )


def _arm(arm: str, records: Sequence[Record], scalings: Sequence[Scaling], study: Study) -> ArmVerdict:
    settings = study.decide
    ranks = Ranks.of(study.arms[arm])
    limits = throughput.analyse(records, settings)
    learned = learning.analyse(records, settings)
    memory_limit = next(iter(memory.analyse(records, settings)), None)
    laws = phase_law.analyse(records, settings)
    devices = hardware(records)
    notes = (
        [f"measured on {len(devices)} kinds of hardware: FPS across them are not comparable"]
        if len(devices) > 1
        else []
    )
    notes += machines.notes(records, limits, learned)
    if not records:
        notes.append("no trial of this arm is finished")
    notes += sorted({warning for record in records for warning in record.outcome.warnings})
    if missing := scaling.what_to_add(arm, study.arms):
        notes.append(missing)
    return ArmVerdict(
        arm=arm,
        world_size=ranks.world_size,
        rank_word=ranks.word,
        hardware=devices,
        trials=len(records),
        headline=_headline(records, limits, learned, memory_limit, laws, scalings, study),
        throughput=limits,
        throughput_env_step_inference=throughput.analyse(records, settings, "fps_env_step_inference"),
        throughput_env_step=throughput.analyse(records, settings, "fps_env_step"),
        learning=learned,
        memory=memory_limit,
        phases=laws,
        noise_scales=noise_scale.analyse(records, settings),
        batch=batch.analyse(records, settings),
        notes=notes,
    )


def _headline(
    records: Sequence[Record],
    limits: Sequence[ThroughputLimit],
    learned: Sequence[LearningLimit],
    memory_limit: MemoryLimit | None,
    laws: Sequence[PhaseLaws],
    scalings: Sequence[Scaling],
    study: Study,
) -> Headline | None:
    measured = [limit for limit in limits if limit.points]
    if not measured:
        return None
    own = study.arms[measured[0].arm]
    ranks = Ranks.of(own)
    best = max(measured, key=lambda limit: max(point.fps for point in limit.points))
    best_fps = max(point.fps for limit in measured for point in limit.points)
    # Not reached: the largest num_envs, unless FPS fell on the way there.
    wanted = best.threshold_num_envs or max(best.points, key=lambda point: (point.fps, point.num_envs)).num_envs
    num_envs = _within_memory(best, wanted, records, memory_limit, study)
    point = best.point(num_envs)
    peak = _peak_gb(records, best.series, num_envs)
    device_gb = memory_limit.device_memory_gb if memory_limit else None
    binds = _binds(best, wanted, num_envs, learned, memory_limit, study)
    soonest = learning.best_of(learned)
    of_series = next((one for one in laws if one.series == best.series), None)
    turned = levers.analyse(records, best.series, num_envs, scalings, study.decide)
    share = point.fps / best_fps
    doubled = by_series(records, "throughput")[best.series].get(2 * best.points[-1].num_envs)
    doubled_ended = doubled[-1].outcome.status if doubled else None
    return Headline(
        state="reached" if best.threshold_num_envs is not None else "not reached",
        threshold_num_envs=best.threshold_num_envs,
        threshold_lowest=best.threshold_lowest,
        threshold_highest=best.threshold_highest,
        repeats=len(point.fps_repeats),
        num_envs=num_envs,
        horizon=best.horizon,
        batch_size=best.batch_size,
        fps=point.fps,
        fps_lower=point.fps_lower,
        fps_upper=point.fps_upper,
        fps_share_of_best=share,
        best_fps=best_fps,
        memory_peak_gb=peak,
        memory_share=peak / device_gb if peak is not None and device_gb else None,
        seconds_to_target=_seconds_at(learned, best.series, num_envs),
        best_time_to_target=soonest,
        binds=binds,
        because=_because(best, wanted, num_envs, ranks),
        what_would_move_it=what_would_move_it(
            best, num_envs, binds, ranks, of_series, turned, own.observations == "lean", doubled_ended
        ),
        phases=of_series.statement if of_series else None,
        saves=_saves(records, best.series, num_envs, soonest, study),
        levers=turned,
        statement=(
            f"run {num_envs:,} environments{ranks.each}, {best.series}: {point.fps:,.0f} FPS{ranks.together},"
            f" {share:.0%} of the best seen"
            + (f"; {peak:.2f} GB" if peak is not None else "")
            + (f", {peak / device_gb:.0%} of the memory{ranks.each}" if peak is not None and device_gb else "")
            + (f"; soonest to the target: {_soonest(soonest, ranks)}" if soonest else "")
        ),
    )


def _saves(
    records: Sequence[Record], series: Series, num_envs: int, soonest: BestPoint | None, study: Study
) -> list[Saving]:
    """Return what the recommended point saves where learning trials ran there, or else what the soonest point saves."""
    found = savings.analyse(records, series, num_envs, study.decide)
    if not found and soonest is not None:
        there = Series(series.arm, soonest.horizon, soonest.batch_size)
        found = savings.analyse(records, there, soonest.num_envs, study.decide)
    return found


def _soonest(best: BestPoint, ranks: Ranks) -> str:
    where = f"{best.num_envs:,} environments{ranks.each}, horizon {best.horizon}, {shown_batch(best.batch_size)}"
    return f"{where} in {best.seconds_to_target.value:,.1f} s{best.caveat}"


def _peak_gb(records: Sequence[Record], series: Series, num_envs: int) -> float | None:
    """Return the largest measured peak of any kind of trial at a point."""
    peaks = [
        record.memory_peak_gb
        for record in memory.measured_peaks(records)
        if (record.request.num_envs, record.request.horizon, record.request.batch_size)
        == (num_envs, series.horizon, series.batch_size)
    ]
    return max((peak for peak in peaks if peak is not None), default=None)


def _within_memory(
    limit: ThroughputLimit, wanted: int, records: Sequence[Record], memory_limit: MemoryLimit | None, study: Study
) -> int:
    """Return the largest measured num_envs up to `wanted` that never failed and leaves the margin free.

    Where none does, it is the smallest measured: a recommendation must be a point that ran.
    """
    device_gb = memory_limit.device_memory_gb if memory_limit else None
    for point in reversed(limit.points):
        peak = _peak_gb(records, limit.series, point.num_envs)
        fits = peak is None or device_gb is None or peak <= device_gb * (1.0 - study.decide.memory_margin)
        if point.num_envs <= wanted and point.failed == 0 and fits:
            return point.num_envs
    return limit.points[0].num_envs


def _binds(
    limit: ThroughputLimit,
    wanted: int,
    num_envs: int,
    learned: Sequence[LearningLimit],
    memory_limit: MemoryLimit | None,
    study: Study,
) -> Binds:
    if num_envs < wanted:
        return "memory"
    # Of the recommended series alone: that learning stops early at another horizon or batch says nothing of this one.
    learned_at = next((one.threshold_num_envs for one in learned if one.series == limit.series), None)
    if learned_at is not None and learned_at < wanted:
        return "learning"
    if limit.threshold_num_envs is not None:
        return "throughput"
    if _next_does_not_fit(limit, wanted, memory_limit, study):
        return "memory"
    return "none yet: measure more repeats" if limit.unsure is not None else "none yet: measure more environments"


def _next_does_not_fit(limit: ThroughputLimit, num_envs: int, memory_limit: MemoryLimit | None, study: Study) -> bool:
    """Tell whether twice `num_envs` failed, or is predicted to need more than the memory that may be used."""
    if any(point.num_envs <= 2 * num_envs for point in limit.infeasible):
        return True
    wall = memory_limit.wall(limit.horizon, limit.batch_size) if memory_limit else None
    return wall is not None and wall.largest_num_envs is not None and wall.largest_num_envs < 2 * num_envs


def _seconds_at(learned: Sequence[LearningLimit], series: Series, num_envs: int) -> Cost | None:
    return next(
        (
            point.seconds_to_target
            for limit in learned
            if limit.series == series
            for point in limit.points
            if point.num_envs == num_envs
        ),
        None,
    )


def _because(limit: ThroughputLimit, wanted: int, num_envs: int, ranks: Ranks) -> str:
    if num_envs < wanted:
        return (
            f"{wanted:,} environments{ranks.each} would leave less memory free than the study asks for,"
            " or failed in some repeats"
        )
    if limit.threshold_num_envs is None:
        return "the num_envs with the largest measured FPS; a threshold is not reached"
    again = f", though doubling gains again from {listed(limit.resumes_at)}" if limit.resumes_at else ""
    return f"the throughput threshold of the fastest series{again}"


def records_csv(records: Sequence[Record]) -> str:
    """Return one line per trial, by number: flat columns with their units in the names, empty where nothing was measured."""
    rows = [_csv_row(record) for record in sorted(records, key=lambda record: record.request.number)]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


CSV_COLUMNS: tuple[str, ...] = (
    "number", "study", "arm", "kind", "repeat", "num_envs", "horizon", "batch_size", "num_mini_batches", "seed", "sampler",
    "world_size", "num_envs_total", "task_id", "trainer", "status", "reason", "host", "device", "device_memory_gb", "git_commit",
    "fps_total", "fps_total_lower_quartile", "fps_total_upper_quartile", "fps_env_step_inference", "fps_env_step",
    "slowest_rank_fps_env_step_inference", "fastest_rank_fps_env_step_inference", "timed_iterations", "collect_s", "learn_s", "iteration_s",
    *(f"{phase}_s" for phase in PHASES), "memory_peak_gb", "rollout_gb", "frames", "train_s", "setup_s", "total_s",
    "target_reward", "best_reward", "final_reward", "seconds_to_target", "gpu_seconds_to_target", "frames_to_target",
    "gpu_hours", "energy_j", "job_energy_j", "queue_wait_s",
    "lost_attempts", "lost_gpu_hours",
)  # fmt: skip


def _csv_row(record: Record) -> dict[str, Any]:
    """Return the columns of one trial: the request's and record's own fields by name, and medians of what was timed."""
    environment = record.outcome.environment
    total = record.fps_total
    slowest, fastest = slowest_and_fastest(rank.fps_env_step_inference.median for rank in record.ranks or []) or (
        None,
        None,
    )
    timed = ("fps_total", "fps_env_step_inference", "fps_env_step", "collect_s", "learn_s", "iteration_s")
    special: dict[str, Any] = {
        "batch_size": "library" if record.request.batch_size is None else record.request.batch_size,
        "host": environment.host if environment else None,
        "device": environment.device.name if environment else None,
        "device_memory_gb": environment.device.memory_gb if environment else None,
        "git_commit": environment.git_commit if environment else None,
        "fps_total_lower_quartile": total.lower_quartile if total else None,
        "fps_total_upper_quartile": total.upper_quartile if total else None,
        "slowest_rank_fps_env_step_inference": slowest,
        "fastest_rank_fps_env_step_inference": fastest,
        "timed_iterations": total.iterations if total else None,
        **{f"{phase}_s": spread.median for phase, spread in (record.phases_s or {}).items()},
        **{name: spread.median if (spread := getattr(record, name)) is not None else None for name in timed},
    }
    plain = {
        **record.request.model_dump(),
        **record.outcome.model_dump(),
        **record.model_dump(exclude={"request", "outcome"}),
    }
    return {column: special.get(column, plain.get(column)) for column in CSV_COLUMNS}


def load_measured(folder: StudyFolder) -> tuple[Study, list[Record]]:
    """Return the study of a folder and its records, of which there is at least one.

    Raises:
        UserError: as `load_study` and `load_records`, and when no trial has finished.
    """
    study, records = load_study(folder), load_records(folder)
    if not without_skipped(records):
        raise UserError(f"{folder.root} holds no finished trial. Run the sweep first")
    return study, records


def load_study(folder: StudyFolder, config_file: Path | None = None) -> Study:
    """Return the study that a folder was measured with, with the `decide` section of `config_file` where one is given.

    Raises:
        UserError: when the folder holds no study, or the file describes another one.
    """
    if not folder.study.exists():
        raise UserError(
            f"{folder.root} holds no {folder.study.name}. Expected the folder of a study, such as results/cartpole-cpu"
        )
    study = config.load(folder.study)
    if config_file is None:
        return study
    given = config.load(config_file)
    if given.study != study.study:
        raise UserError(
            f"{config_file} describes study {given.study!r}, and {folder.root} holds {study.study!r}."
            " Name the folder and the file of the same study."
        )
    return study.model_copy(update={"decide": given.decide})


def measured_study(description: str | None) -> tuple[StudyFolder, Study, list[Record]]:
    """Return what a command over a measured study is about, from its arguments: a folder, and maybe a current study file.

    Raises:
        UserError: as `load_study` and `load_records`.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    parser.add_argument(
        "--config", type=Path, help="a study file whose `decide:` section is used instead of the folder's own"
    )
    arguments = parser.parse_args()
    folder = StudyFolder(arguments.folder)
    return folder, load_study(folder, arguments.config), load_records(folder)


def main() -> None:
    """Write verdict.json and records.csv of a study."""
    folder, study, records = measured_study(main.__doc__)
    write_atomically(folder.verdict, canonical_json(decide(records, study)))
    write_atomically(folder.records_csv, records_csv(records))
    print(f"{folder.verdict}: {len(records)} of {len(space.plan(study))} trials")


if __name__ == "__main__":
    run_command(main)
