"""The files of a study → what its MLflow runs are called and hold: a parent run per arm, a child run per trial.

Input: a StudyFolder (records, metrics, verdict, figures) and the study. Output: Runs. Nothing here knows a store.

In MLflow's words a trial is FINISHED when its numbers can be used (`ok` and `target_reached`, and also `oom`, `timeout`
and `refused`, which say where the limits are), and FAILED when its training broke (`nan`, `diverged`).
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from envknee.claim import check
from envknee.config import Study
from envknee.errors import UserError
from envknee.files import StudyFolder, canonical_json
from envknee.limits import Ranks, slowest_and_fastest
from envknee.record import (
    Device,
    Environment,
    Image,
    Record,
    Request,
    Row,
    Spread,
    load_records,
    read_rows,
    reward_average,
    without_skipped,
)
from envknee.space import batch_transitions, plan, rollout_size
from envknee.tracking.run import Metric, Run, metrics_of, texts_of
from envknee.tracking.system import system_metrics

COUNTS = ("num_mini_batches", "world_size", "num_envs_total")
"""Whole numbers of a record that follow from its request: parameters, not results."""

HEADLINES = {"fps": "fps_total_median", "memory_gb": "memory_peak_gb", "seconds_to_target": "seconds_to_target"}
"""What trials are compared by, under names that fit on the axis of a chart."""

STRAGGLERS = ("slowest_rank_fps_env_step_inference", "fastest_rank_fps_env_step_inference")
"""The ranks' own FPS, in the words of records.csv."""
LIVE_ARM = "arm"
"""The attempt of every arm: its parent run is one from the first trial to the last."""

GPU_NAME = re.compile(r"(?:NVIDIA |Tesla |GeForce |Quadro )*(.+?)(?=[ -](?:\d+GB|SXM|PCIE|NVL|HBM)|$)", re.IGNORECASE)
"""What people call a GPU, between the maker's name and the form factor."""


def describe_study(study: Study, folder: StudyFolder) -> list[tuple[Run, list[Run]]]:
    """Return the parent run of each arm with the runs of its trials.

    Raises:
        UserError: when no trial has finished, a file was changed by hand, or the results are another study's.
    """
    check(study, folder)
    all_records = load_records(folder)
    skipped = Counter(record.request.arm for record in all_records if record.outcome.status == "skipped")
    records = without_skipped(all_records)
    if not records:
        raise UserError(
            f"{folder.root} holds no finished trial, and at least one was expected."
            " Run `make sweep` first, then publish again."
        )
    arms = sorted({record.request.arm for record in records})
    by_arm = {arm: [record for record in records if record.request.arm == arm] for arm in arms}
    return [
        (describe_arm(study, arm, own, folder, skipped[arm]), [read_trial(record, folder) for record in own])
        for arm, own in by_arm.items()
    ]


def describe_arm(study: Study, arm: str, records: Sequence[Record], folder: StudyFolder, skipped: int) -> Run:
    """Return the parent run of an arm: the verdict, the figures, and what all its trials share.

    Of the trials that a study has room for, `skipped` were not needed (sampler: adaptive), and are not planned any more.
    """
    environments = [record.outcome.environment for record in records if record.outcome.environment is not None]
    devices = sorted({_devices(own, record.devices) for record in records if (own := record.outcome.environment)})
    statuses = Counter(record.outcome.status for record in records)
    planned = sum(slot.arm == arm for slot in plan(study)) - skipped
    headline = _headline(folder.verdict, arm)
    best = best_trial(records)
    ended_ms = max(_ended_ms(record) for record in records)
    params: dict[str, Any] = {"task": study.task.model_dump(mode="json"), "seed": study.seed}
    tags = {
        "arm": arm,
        "trials": f"{len(records)} of {planned}",
        "best_trial": f"{best.request.number:04d}" if best else None,
        "mlflow.note.content": _description(headline, len(records), planned, statuses, best),
        **_where(environments[0] if environments else None),
        "device": ", ".join(devices) or None,
    }
    numbers: dict[str, Any] = {"trials": len(records)}
    numbers |= {f"trials_{status}": count for status, count in sorted(statuses.items())}
    numbers |= {f"verdict/{name}": value for name, value in headline.items() if type(value) in (int, float)}
    return Run(
        key=f"arms/{arm}",
        name=" · ".join([arm, ", ".join(devices)]) if devices else arm,
        started_ms=min(_milliseconds(record.outcome.started_unix_s) for record in records),
        ended_ms=ended_ms,
        status="FINISHED",
        params=texts_of(params | _arm_params(study, arm)),
        tags=texts_of(tags),
        metrics=metrics_of(numbers, ended_ms, 0),
        artifacts={
            # Not the file: its tracking URI may hold a password.
            folder.study.name: canonical_json(study.model_dump(mode="json", exclude={"tracking"})),
            # Not the report: it is written afterwards, with links to these runs.
            **_present([folder.resolved, folder.verdict, folder.records_csv]),
            **{f"figures/{file.name}": file for file in _figures(folder.figures)},
            **_best_files(best, records, folder),
        },
        attempt=LIVE_ARM,
    )


def describe_running_arm(arm: str, started_ms: int) -> Run:
    """Return the parent run of an arm of which no trial has ended."""
    return Run(
        key=f"arms/{arm}", name=arm, started_ms=started_ms, ended_ms=0, status="RUNNING",
        params={}, tags=texts_of({"arm": arm}), metrics=[], artifacts={}, attempt=LIVE_ARM,
    )  # fmt: skip


def best_trial(records: Iterable[Record]) -> Record | None:
    """Return the trial that reached the target soonest, else the one with the best reward, else the fastest. Pure."""
    return max((record for record in records if record.fps_total is not None), key=_worth, default=None)


def _worth(record: Record) -> tuple[float, float, float]:
    to_target_s = math.inf if record.seconds_to_target is None else record.seconds_to_target
    reward = -math.inf if record.best_reward is None else record.best_reward
    return -to_target_s, reward, record.fps_total.median if record.fps_total else 0.0


def _best_files(best: Record | None, records: Iterable[Record], folder: StudyFolder) -> dict[str, Path]:
    """Return the best trial's policy and a picture of what that saw, which the first repeat of its point has left."""
    if best is None:
        return {}
    repeats = [best, *(record for record in records if _point(record) == _point(best))]
    pictures = (folder.trial(record.request.number).frames for record in repeats)
    files = [folder.trial(best.request.number).policy, next((path for path in pictures if path.exists()), None)]
    return {f"best/{name}": file for name, file in _present(file for file in files if file).items()}


def _point(record: Record) -> tuple[Any, ...]:
    request = record.request
    return request.kind, request.num_envs, request.horizon, request.batch_size


def _arm_params(study: Study, name: str) -> dict[str, Any]:
    """Return what an arm says, and how many ranks that makes; nothing for one that the study file no longer has."""
    arm = study.arms.get(name)
    return {} if arm is None else arm.model_dump(mode="json") | {"world_size": arm.world_size}


def describe_trial(record: Record, rows: Sequence[Row], artifacts: Mapping[str, Path]) -> Run:
    """Return the run of a trial: its point as parameters, its iterations as curves over frames, its record in short."""
    request, outcome = record.request, record.outcome
    tags = {
        "status": outcome.status,
        "kind": request.kind,
        "arm": request.arm,
        "trial": f"{request.number:04d}",
        "batch": "library" if request.batch_size is None else "set",
        "reason": outcome.reason or request.refusal,
        "mlflow.note.content": outcome.reason,
        **_where(outcome.environment),
    }
    if outcome.failure is not None:
        tags |= {f"failure.{name}": value for name, value in outcome.failure.model_dump(mode="json").items()}
    return Run(
        key=f"trials/{request.number:04d}",
        name=run_name(record),
        started_ms=_milliseconds(outcome.started_unix_s),
        ended_ms=_ended_ms(record),
        status="FAILED" if outcome.status in ("nan", "diverged") else "FINISHED",
        params=_params(record),
        tags=texts_of(tags),
        metrics=curves(rows, request, outcome.environment) + _summary(record),
        artifacts=artifacts,
    )


def run_name(record: Record) -> str:
    """Return a name for people, such as `H100 · 2048 envs · T32 · B4096 · repeat 1`."""
    return _name(record.request, record.outcome.environment, record.devices)


def _name(request: Request, environment: Environment | None, devices: int) -> str:
    batch = "B library" if request.batch_size is None else f"B{request.batch_size}"
    kind = (["learning"] if request.kind == "learning" else []) + (["DRILL"] if request.inject else [])
    point = [f"{request.num_envs} envs{Ranks.of(request).each}", f"T{request.horizon}", batch]
    return " · ".join([_devices(environment, devices), *point, *kind, f"repeat {request.repeat + 1}"])


def short_name(device: Device) -> str:
    """Return what people call a device: `CPU`, `H100`, `RTX 4090`."""
    if device.type == "cpu":
        return "CPU"
    match = GPU_NAME.match(device.name)
    return match[1] if match else device.name


def _devices(environment: Environment | None, ranks: int) -> str:
    """Return what a trial ran on: `H100`, `2 x H100`, or `CPU, 2 ranks`."""
    if environment is None:
        return "not run"
    device = short_name(environment.device)
    if ranks == 1:
        return device
    return f"{device}, {ranks} ranks" if environment.device.type == "cpu" else f"{ranks} x {device}"


def read_trial(record: Record, folder: StudyFolder) -> Run:
    """Return the run of a finished trial, read from its files.

    Raises:
        UserError: when a row is truncated or does not fit.
    """
    trial = folder.trial(record.request.number)
    files = [trial.request, trial.outcome, trial.record, trial.metrics, trial.frames]
    run = describe_trial(record, read_rows(trial), _present(files))
    return replace(run, attempt=attempt_of(trial.metrics.read_bytes()) if trial.metrics.exists() else None)


def attempt_of(metrics: bytes) -> str | None:
    """Return what tells one attempt at a trial from the next: the sha256 of the first line of metrics.jsonl; None without one."""
    first, end, _ = metrics.partition(b"\n")
    return hashlib.sha256(first).hexdigest() if end else None


def describe_running(request: Request, environment: Environment | None, started_unix_s: float, attempt: str) -> Run:
    """Return the run of a trial that has not ended, without its curves: what its run will hold in the end, as far as known.

    Args:
        request: what it runs
        environment: where it runs
        started_unix_s: when it was started, as far as that can be seen from outside
        attempt: see `attempt_of`
    """
    tags = {"status": "running", "kind": request.kind, "arm": request.arm, "trial": f"{request.number:04d}"}
    return Run(
        key=f"trials/{request.number:04d}",
        name=_name(request, environment, request.world_size),
        started_ms=_milliseconds(started_unix_s),
        ended_ms=0,
        status="RUNNING",
        params=texts_of(_request_params(request)),
        tags=texts_of(tags | _where(environment)),
        metrics=[],
        artifacts={},
        attempt=attempt,
    )


def _params(record: Record) -> dict[str, str]:
    counts = {"batch_size": _batch_size(record) or "library"} | {name: getattr(record, name) for name in COUNTS}
    return texts_of(_request_params(record.request) | counts)


def _request_params(request: Request) -> dict[str, Any]:
    left_out = {"schema_version", "study", "number", "arm", "refusal", "overrides"}
    params = request.model_dump(mode="json", exclude=left_out | {"batch_size"})
    # What the library chooses is known in the end, and a parameter never changes.
    params |= {} if request.batch_size is None else {"batch_size": request.batch_size}
    return params | {key: "null" if value is None else value for key, value in request.overrides.items()}


def _batch_size(record: Record) -> int:
    """Return the transitions of one optimizer step, also where the library chose them; 0 where that is unknown."""
    request, ranks = record.request, record.world_size
    of_each = batch_transitions(request.num_envs, request.horizon, request.batch_size, record.num_mini_batches, ranks)
    return round(of_each * ranks)


def curves(rows: Sequence[Row], request: Request, environment: Environment | None, start: int = 0) -> list[Metric]:
    """Return every number of every iteration from row `start` on, with frames as the step and the time it was measured at."""
    metrics = []
    for count, row in enumerate(rows[start:], start=start + 1):
        values = _flat(row.model_dump(exclude={"frames", "unix_time_s", "warmup", "ranks"}))
        if request.target_episodes:
            values["reward_average"] = reward_average(rows[:count], request.target_episodes)
        values |= _stragglers(row, rollout_size(request.num_envs, request.horizon))
        values |= system_metrics(row, environment.device) if environment else {}
        metrics += metrics_of(values, _milliseconds(row.unix_time_s), row.frames)
    return metrics


def _stragglers(row: Row, transitions: int) -> dict[str, float]:
    """Return the slowest and the fastest rank's FPS while collecting, nothing where one rank trains alone.

    Args:
        row: an iteration
        transitions: that each rank collects in it
    """
    ends = slowest_and_fastest(transitions / rank.collect_s for rank in row.ranks or [])
    return {} if ends is None else dict(zip(STRAGGLERS, ends, strict=True))


def _summary(record: Record) -> list[Metric]:
    """Return the record's own figures, one value each; `HEADLINES` once more by themselves."""
    values: dict[str, Any] = _flat(record.outcome.model_dump(include={"setup_s", "total_s", "startup_s", "memory_map"}))
    figures = {name: getattr(record, name) for name in Record.model_fields}
    for name, value in _flat(figures).items():
        if isinstance(value, Spread):
            values[f"{name}_median"] = value.median
            values[f"{name}_lower_quartile"] = value.lower_quartile
            values[f"{name}_upper_quartile"] = value.upper_quartile
        elif isinstance(value, int | float) and name not in ("schema_version", *COUNTS):
            values[name] = value
    ends = slowest_and_fastest(rank.fps_env_step_inference.median for rank in record.ranks or [])
    values |= {} if ends is None else dict(zip((f"{name}_median" for name in STRAGGLERS), ends, strict=True))
    named = {f"summary/{name}": value for name, value in values.items()}
    named |= {short: values.get(name) for short, name in HEADLINES.items()}
    return metrics_of(named, _ended_ms(record), record.frames)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Lift what lies one level down: {"losses": {"value": 1}} becomes {"losses/value": 1}."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= {f"{name}/{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def _where(environment: Environment | None) -> dict[str, Any]:
    """Return the tags that say where and with what something ran."""
    if environment is None:
        return {}
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
        **_image(environment.image),
    }


def _image(image: Image | None) -> dict[str, Any]:
    """Return the tags that say which image something ran in; none on the host."""
    if image is None:
        return {}
    labels = {f"image.{name.removeprefix('org.envknee.')}": value for name, value in image.labels.items()}
    return {"image.sif_sha256": image.sif_sha256, "image.content_sha256": image.content_sha256, **labels}


def _description(
    headline: Mapping[str, Any], finished: int, planned: int, statuses: Mapping[str, int], best: Record | None
) -> str:
    """Return what stands above a parent run, in Markdown: the verdict as far as there is one, and the trials."""
    how = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    said = {"statement": "**{}**", "because": "Why there: {}", "what_would_move_it": "{}"}
    parts = [form.format(headline[name]) for name, form in said.items() if headline.get(name)]
    parts.append(f"{finished} of {planned} trials have finished: {how}.")
    if best:
        parts.append(
            f"Best single trial: {best.request.number:04d}, {run_name(best)}, {_achieved(best)} (artifacts: best)."
        )
    return "\n\n".join(parts)


def _achieved(record: Record) -> str:
    """Return what makes a trial the best one, in words."""
    if record.seconds_to_target is not None:
        return f"which reached reward {record.request.target_reward:g} after {record.seconds_to_target:.3g} s"
    if record.best_reward is not None:
        return f"which came to reward {record.best_reward:.3g}"
    return f"at {record.fps_total.median:,.0f} FPS" if record.fps_total else "without a timed iteration"


def _headline(verdict: Path, arm: str) -> dict[str, Any]:
    """Return the arm's headline in verdict.json, or nothing where there is none."""
    if not verdict.exists():
        return {}
    try:
        whole = json.loads(verdict.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(
            f"{verdict} is not JSON: {error}. Delete it and run `make sweep`, which decides again."
        ) from error
    arms = whole.get("arms") if isinstance(whole, dict) else None
    for own in arms if isinstance(arms, list) else []:
        if isinstance(own, dict) and own.get("arm") == arm and isinstance(own.get("headline"), dict):
            return own["headline"]
    return {}


def _figures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.is_file() and not path.name.startswith("."))


def _present(files: Iterable[Path]) -> dict[str, Path]:
    """Return name → file, for the files that exist."""
    return {file.name: file for file in files if file.exists()}


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _ended_ms(record: Record) -> int:
    return _milliseconds(record.outcome.started_unix_s + record.outcome.total_s)
