"""Makes the MLflow run of a trial: its name and content.

A run is FINISHED if its numbers can be used: with status `ok` or `target_reached`, and also `oom`, `timeout` or `refused`, which tell
where the limits are. It is FAILED if training broke (`nan`, `diverged`, `invalid`).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from envknee.base.point import rollout_size
from envknee.record.build import reward_average
from envknee.record.read import read_rows
from envknee.record.schema import Environment, Record, Request, Row, Spread
from envknee.record.status import BROKE
from envknee.study.arm import Memory
from envknee.study.paths import StudyFolder
from envknee.tracking.run import Metric, Run, metrics_of, texts_of
from envknee.tracking.system import system_metrics
from envknee.verdict.series import batch_size_of
from envknee.words.requests import why
from envknee.words.runs import run_name

COUNTS = ("num_mini_batches", "world_size", "num_envs_total")
"""Whole numbers of a record that follow from its request: parameters, not results."""

HEADLINES = {"fps": "fps_total_median", "memory_gb": "memory_peak_gb", "seconds_to_target": "seconds_to_target"}
"""Main results of a trial, under names that fit on the axis of a chart, and their names in a record. They have no other name in MLflow."""

NO_SETTINGS = {"schema_version", "ask_version", "study", "number", "refusal", "skip", "overrides"}
"""Fields of a request that are no settings of the trial, or are logged in words."""

OF_THE_TASK = ("learning_rate", "epochs")
"""Settings that a request leaves to the task, unless it states them."""

STRAGGLERS = ("slowest_rank_fps_env_step_inference", "fastest_rank_fps_env_step_inference")
"""The ranks' own FPS, by their names in records.csv."""


def describe_trial(record: Record, folder: StudyFolder, color: str | None = None) -> Run:
    """Return the run of a finished trial: its point as parameters, its iterations as curves over environment steps, figures of its record.

    `color` is that of its curves, such as `#0072b2`; None: MLflow's choice.

    Raises:
        UserError: when a row is truncated or does not fit.
    """
    request, outcome, trial = record.request, record.outcome, folder.trial(record.request.number)
    attempt = attempt_of(trial.metrics.read_bytes()) if trial.metrics.exists() else None
    tags = {
        "status": outcome.status,
        "batch": "library" if request.batch_size is None else "set",
        "reason": outcome.reason or (request.refusal and why(request.refusal)),
        "mlflow.note.content": outcome.reason,
    }
    counts = {"batch_size": batch_size_of(record) or "library"} | {name: getattr(record, name) for name in COUNTS}
    if outcome.failure is not None:
        tags |= {f"failure.{name}": value for name, value in outcome.failure.model_dump(mode="json").items()}
    begun = describe_running(request, outcome.environment, outcome.started_unix_s, attempt, color)
    return replace(
        begun,
        ended_ms=ended_ms(record),
        status="FAILED" if outcome.status in BROKE else "FINISHED",
        params=begun.params | texts_of(counts),
        tags=begun.tags | texts_of(tags),
        metrics=curves(read_rows(trial), request, outcome.environment) + _summary(record),
        artifacts=present([trial.request, trial.outcome, trial.record, trial.metrics, trial.frames]),
    )


def describe_running(
    request: Request,
    environment: Environment | None,
    started_unix_s: float,
    attempt: str | None,
    color: str | None = None,
) -> Run:
    """Return the run of a trial that has not ended, without curves. It started at `started_unix_s` as far as its files tell."""
    params = settings_of(request, NO_SETTINGS)
    # The library's own batch size is known only at the end, and a parameter must not change.
    params |= {name: "task" for name in OF_THE_TASK if getattr(request, name) is None}
    if request.skip is not None:
        params["skip"] = why(request.skip)
    params |= {key: "null" if value is None else value for key, value in request.overrides.items()}
    tags = {"status": "running", "kind": request.kind, "arm": request.arm, "trial": f"{request.number:04d}"}
    tags |= {} if color is None else {"mlflow.runColor": color}
    return Run(
        key=f"trials/{request.number:04d}",
        name=run_name(request),
        started_ms=milliseconds(started_unix_s),
        status="RUNNING",
        params=texts_of(params),
        tags=texts_of(tags | where_tags(environment)),
        attempt=attempt,
    )


def settings_of(model: BaseModel, leave_out: Set[str] = frozenset()) -> dict[str, Any]:
    """Return the settings of a request or an arm, those that have their default, too. Those of `memory` are flat: `memory/on_oom`."""
    settings: dict[str, Any] = {}
    for name in type(model).model_fields:
        value = getattr(model, name)
        if name in leave_out:
            continue
        if isinstance(value, Memory):
            settings |= {f"{name}/{key}": own for key, own in settings_of(value).items()}
        elif value is not None:
            settings[name] = to_jsonable_python(value)
    return settings


def attempt_of(metrics: bytes) -> str | None:
    """Return an ID of an attempt at a trial: the sha256 of the first line of metrics.jsonl; None without a line."""
    first, end, _ = metrics.partition(b"\n")
    return hashlib.sha256(first).hexdigest() if end else None


def curves(rows: Sequence[Row], request: Request, environment: Environment | None, start: int = 0) -> list[Metric]:
    """Return every number of every iteration from row `start` on, with its environment steps as the step, and its time."""
    metrics, transitions = list[Metric](), rollout_size(request.num_envs, request.horizon)
    for count, row in enumerate(rows[start:], start=start + 1):
        values = _flat(row.model_dump(exclude={"frames", "unix_time_s", "warmup", "ranks"}))
        if request.target_episodes:
            values["reward_average"] = reward_average(rows[:count], request.target_episodes)
        if fps := [transitions / rank.collect_s for rank in row.ranks or []]:
            values |= dict(zip(STRAGGLERS, (min(fps), max(fps)), strict=True))
        values |= system_metrics(row, environment.device) if environment else {}
        metrics += metrics_of(values, milliseconds(row.unix_time_s), row.frames)
    return metrics


def _summary(record: Record) -> list[Metric]:
    """Return the figures of the record, one value each, those of `HEADLINES` under their short names."""
    values: dict[str, Any] = _flat(record.outcome.model_dump(include={"setup_s", "total_s", "startup_s", "memory_map"}))
    for name, value in _flat(dict(record)).items():
        if isinstance(value, Spread):
            quartiles = value.model_dump(exclude={"iterations"})
            values |= {f"{name}_{part}": figure for part, figure in quartiles.items()}
        elif isinstance(value, int | float) and name not in ("schema_version", *COUNTS):
            values[name] = value
    if fps := [rank.fps_env_step_inference.median for rank in record.ranks or []]:
        values |= dict(zip((f"{name}_median" for name in STRAGGLERS), (min(fps), max(fps)), strict=True))
    short_names = {name: short for short, name in HEADLINES.items()}
    named = {short_names.get(name, f"summary/{name}"): value for name, value in values.items()}
    return metrics_of(named, ended_ms(record), record.frames)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten all levels: {"losses": {"value": 1}} becomes {"losses/value": 1}, and {"gpus": [1, 2]} {"gpus/0": 1, "gpus/1": 2}."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        inner = {str(place): part for place, part in enumerate(value)} if isinstance(value, list) else value
        if isinstance(inner, dict):
            flat |= {f"{name}/{key}": part for key, part in _flat(inner).items()}
        else:
            flat[name] = value
    return flat


def where_tags(environment: Environment | None) -> dict[str, Any]:
    """Return tags for device, host, commit, versions and image."""
    if environment is None:
        return {}
    image = environment.image
    return {
        "device": environment.device.name,
        "device_type": environment.device.type,
        "device_uuid": environment.device.uuid,
        "device_memory_gb": environment.device.memory_gb,
        "host": environment.host,
        "git_commit": environment.git_commit,
        "git_dirty": environment.git_dirty,
        "mlflow.source.git.commit": environment.git_commit,
        "version.python": environment.python,
        **{f"version.{package}": version for package, version in environment.packages.items()},
        "image.sif_sha256": image and image.sif_sha256,
        "image.content_sha256": image and image.content_sha256,
        **{
            f"image.{name.removeprefix('org.envknee.')}": label
            for name, label in (image.labels if image else {}).items()
        },
    }


def present(files: Iterable[Path]) -> dict[str, Path]:
    """Return name → file, for the files that exist."""
    return {file.name: file for file in files if file.exists()}


def milliseconds(seconds: float) -> int:
    """Return a time in MLflow's unit."""
    return round(seconds * 1000)


def ended_ms(record: Record) -> int:
    """Return when a trial ended, in milliseconds since 1970."""
    return milliseconds(record.outcome.ended_unix_s)
