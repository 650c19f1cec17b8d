"""Records → MLflow: a tracking store shows what the files of a study say, however often they are published.

Input: results/<study>/ (records, metrics, verdict, figures) and the study file. Output: an experiment (the study) with
a parent run per arm and a child run per trial, and results/<study>/published.json.

    python -m envknee.tracking results/<study> --config FILE         publish
    python -m envknee.tracking --ui --config FILE [--port N]         open the store in a browser, on this machine only

Publishing again changes nothing: a run carries the sha256 of its content, set last of all. A run with the same content
is left alone; one with other content, or with none because its publisher was killed, gives way to a new one.

In MLflow's words a trial is FINISHED when its numbers can be used (`ok` and `target_reached`, and also `oom`, `timeout`
and `refused`, which say where the limits are), and FAILED when its training broke (`nan`, `diverged`).
"""

import argparse
import fcntl
import hashlib
import json
import logging
import os
import re
import socket
import sqlite3
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from envknee.claim import check
from envknee.config import Study, load
from envknee.errors import UserError, run_command
from envknee.files import StudyFolder, canonical_json, sha256_of, write_atomically
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
    reward_averages,
    without_skipped,
)
from envknee.space import plan, rollout_size

if TYPE_CHECKING:  # importing MLflow takes seconds, and `--help` has no use for it
    from mlflow import MlflowClient
    from mlflow.entities import Experiment
    from mlflow.entities import Run as StoredRun

Item = TypeVar("Item")

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 5000
PORTS_TRIED = 50

RUNS_PER_PAGE = 1000
METRICS_PER_BATCH = 800
PARAMS_PER_BATCH = 100
TAGS_PER_BATCH = 100
LONGEST_VALUE = 6000
"""Limits of MLflow's API (mlflow.utils.validation): 1000 things in one call, and the characters of a parameter."""

TAG_KEY = "envknee.key"
TAG_CONTENT = "envknee.content_sha256"
TAG_RESULTS = "envknee.results"
"""Which results folder a run came from: two machines may publish studies of one name to one server."""
TAG_PARENT = "mlflow.parentRunId"

COUNTS = ("num_mini_batches", "world_size", "num_envs_total")
"""Whole numbers of a record that follow from its request: parameters, not results."""

STRAGGLERS = ("slowest_rank_fps_env_step_inference", "fastest_rank_fps_env_step_inference")
"""The ranks' own FPS, in the words of records.csv."""

EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
"""Opens the experiment at its runs, not at the traces of a language model."""

MLFLOW_DEFAULTS = {
    # One call to a dead server takes 247 s by default (7 retries); so it takes about 20 s at worst.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    # What goes wrong is raised as well, and reported once.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
}
"""Environment variables set for MLflow unless the user has."""

DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
LEGAL_URIS = (
    "sqlite:///FILE (four slashes for an absolute path), http://HOST:PORT, https://HOST,"
    " or postgresql, mysql or mssql://USER:PASSWORD@HOST/DATABASE"
)
GPU_NAME = re.compile(r"(?:NVIDIA |Tesla |GeForce |Quadro )*(.+?)(?=[ -](?:\d+GB|SXM|PCIE|NVL|HBM)|$)", re.IGNORECASE)
"""What people call a GPU, between the maker's name and the form factor."""


class Metric(NamedTuple):
    """One value of a curve, as MLflow takes it."""

    key: str
    value: float
    timestamp_ms: int
    step: int


@dataclass(frozen=True)
class Run:
    """All that an MLflow run is to hold, as the files have it."""

    key: str
    name: str
    started_ms: int
    ended_ms: int
    status: Literal["FINISHED", "FAILED"]
    params: Mapping[str, str]
    tags: Mapping[str, str]
    metrics: Sequence[Metric]
    artifacts: Mapping[str, Path | str]
    """Path inside the run → file, or the text itself."""

    def content_sha256(self) -> str:
        """Return the sha256 of everything that is logged, the bytes of the artifacts included."""
        content = {
            "name": self.name, "started_ms": self.started_ms, "ended_ms": self.ended_ms, "status": self.status,
            "params": dict(self.params), "tags": dict(self.tags), "metrics": [tuple(metric) for metric in self.metrics],
            "artifacts": {path: _sha256(content) for path, content in self.artifacts.items()},
        }  # fmt: skip
        text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
        return _sha256(text)


@dataclass(frozen=True)
class Store:
    """Where runs are logged."""

    uri: str
    source: str
    """Who named it, for messages."""
    database: Path | None
    """The file of a SQLite store."""
    artifacts: Path | None
    """Where the artifacts of a database store lie; a server decides that itself."""

    @property
    def shown(self) -> str:
        """The URI without user, password and query."""
        return without_credentials(self.uri)

    @property
    def is_server(self) -> bool:
        """Whether an MLflow server is spoken to, rather than a database."""
        return self.artifacts is None


@dataclass(frozen=True)
class Publication:
    """What a publisher did."""

    store: Store
    experiment: str
    experiment_id: str
    content_sha256: Mapping[str, str]
    """By the run's key; the content of published.json."""
    created: int

    def as_json(self) -> str:
        """Return the text of published.json: the same for the same results in the same store."""
        return canonical_json(
            {
                "schema_version": 1,
                "tracking_uri": self.store.shown,
                "experiment": self.experiment,
                "experiment_id": self.experiment_id,
                "runs": len(self.content_sha256),
                "content_sha256": dict(self.content_sha256),
            }
        )


def publish(study: Study, folder: StudyFolder) -> Publication:
    """Bring the tracking store up to date with the files of a study, and write published.json.

    Raises:
        UserError: when there is nothing to publish, a file was tampered with, or the store cannot be used.
    """
    store = locate_store(study, folder)
    runs = describe_study(study, folder)
    with _locked(folder.root / ".mlflow") as identity, _explaining(store, folder):
        client = _connect(store)
        experiment = _experiment(client, study.study, store)
        publication = _publish_runs(client, runs, experiment, store, _results_id(identity))
        write_atomically(folder.published, publication.as_json())
    return publication


# What the files say


def describe_study(study: Study, folder: StudyFolder) -> list[tuple[Run, list[Run]]]:
    """Return the parent run of each arm with the runs of its trials.

    Raises:
        UserError: when no trial has finished, a file was changed by hand, or the results are another study's.
    """
    check(study, folder)
    records = without_skipped(load_records(folder))
    if not records:
        raise UserError(
            f"{folder.root} holds no finished trial, and at least one was expected."
            " Run `make sweep` first, then publish again."
        )
    arms = sorted({record.request.arm for record in records})
    by_arm = {arm: [record for record in records if record.request.arm == arm] for arm in arms}
    return [
        (describe_arm(study, arm, own, folder), [_read_trial(record, folder) for record in own])
        for arm, own in by_arm.items()
    ]


def describe_arm(study: Study, arm: str, records: Sequence[Record], folder: StudyFolder) -> Run:
    """Return the parent run of an arm: the verdict, the figures, and what all its trials share."""
    environments = [record.outcome.environment for record in records if record.outcome.environment is not None]
    devices = sorted({_devices(record) for record in records if record.outcome.environment is not None})
    statuses = Counter(record.outcome.status for record in records)
    planned = sum(slot.arm == arm for slot in plan(study))
    headline = _headline(folder.verdict, arm)
    ended_ms = max(_ended_ms(record) for record in records)
    params: dict[str, Any] = {"task": study.task.model_dump(mode="json"), "seed": study.seed}
    tags = {
        "arm": arm,
        "trials": f"{len(records)} of {planned}",
        "mlflow.note.content": _description(headline, len(records), planned, statuses),
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
        params=_texts(params | _arm_params(study, arm)),
        tags=_texts(tags),
        metrics=_metrics(numbers, ended_ms, 0),
        artifacts={
            # Not the file: its tracking URI may hold a password.
            folder.study.name: canonical_json(study.model_dump(mode="json", exclude={"tracking"})),
            **_present([folder.resolved, folder.verdict, folder.records_csv, folder.report]),
            **{f"figures/{file.name}": file for file in _figures(folder.figures)},
        },
    )


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
        tags=_texts(tags),
        metrics=_curves(rows, request) + _summary(record),
        artifacts=artifacts,
    )


def run_name(record: Record) -> str:
    """Return a name for people, such as `H100 · 2048 envs · T32 · B4096 · repeat 1`."""
    request = record.request
    batch = "B library" if request.batch_size is None else f"B{request.batch_size}"
    kind = ["learning"] if request.kind == "learning" else []
    point = [f"{request.num_envs} envs{Ranks.of(request).each}", f"T{request.horizon}", batch]
    return " · ".join([_devices(record), *point, *kind, f"repeat {request.repeat + 1}"])


def short_name(device: Device) -> str:
    """Return what people call a device: `CPU`, `H100`, `RTX 4090`."""
    if device.type == "cpu":
        return "CPU"
    match = GPU_NAME.match(device.name)
    return match[1] if match else device.name


def _devices(record: Record) -> str:
    """Return what a trial ran on: `H100`, `2 x H100`, or `CPU, 2 ranks`."""
    environment, ranks = record.outcome.environment, record.world_size
    if environment is None:
        return "not run"
    device = short_name(environment.device)
    if ranks == 1:
        return device
    return f"{device}, {ranks} ranks" if environment.device.type == "cpu" else f"{ranks} x {device}"


def _read_trial(record: Record, folder: StudyFolder) -> Run:
    trial = folder.trial(record.request.number)
    files = [trial.request, trial.outcome, trial.record, trial.metrics]
    return describe_trial(record, read_rows(trial), _present(files))


def _params(record: Record) -> dict[str, str]:
    request = record.request
    left_out = {"schema_version", "study", "number", "arm", "refusal", "overrides"}
    params = request.model_dump(mode="json", exclude=left_out) | {
        "batch_size": "library" if request.batch_size is None else request.batch_size,
        **{name: getattr(record, name) for name in COUNTS},
    }
    overrides = {key: "null" if value is None else value for key, value in request.overrides.items()}
    return _texts(params | overrides)


def _curves(rows: Sequence[Row], request: Request) -> list[Metric]:
    """Return every number of every iteration, with frames as the step and the time it was measured at."""
    averages = reward_averages(rows, request.target_episodes) if request.target_episodes else [None] * len(rows)
    metrics = []
    for row, average in zip(rows, averages, strict=True):
        values = _flat(row.model_dump(exclude={"frames", "unix_time_s", "warmup", "ranks"}))
        values |= {"reward_average": average} | _stragglers(row, rollout_size(request.num_envs, request.horizon))
        metrics += _metrics(values, _milliseconds(row.unix_time_s), row.frames)
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
    """Return the record's own figures, one value each."""
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
    return _metrics({f"summary/{name}": value for name, value in values.items()}, _ended_ms(record), record.frames)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Lift what lies one level down: {"losses": {"value": 1}} becomes {"losses/value": 1}."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= {f"{name}/{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def _metrics(values: Mapping[str, Any], timestamp_ms: int, step: int) -> list[Metric]:
    return [
        Metric(_legal(name), float(value), timestamp_ms, step) for name, value in values.items() if value is not None
    ]


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


def _description(headline: Mapping[str, Any], finished: int, planned: int, statuses: Mapping[str, int]) -> str:
    """Return what stands above a parent run, in Markdown: the verdict as far as there is one, and the trials."""
    how = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    said = {"statement": "**{}**", "because": "Why there: {}", "what_would_move_it": "{}"}
    parts = [form.format(headline[name]) for name, form in said.items() if headline.get(name)]
    return "\n\n".join([*parts, f"{finished} of {planned} trials have finished: {how}."])


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


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return parameters or tags as MLflow takes them: texts within its limits, None left out."""
    texts = {}
    for name, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
        if value is not None and text:
            texts[_legal(name)] = text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
    return texts


def _legal(name: str) -> str:
    """Return a name with the characters that MLflow refuses (such as '+' and brackets) replaced."""
    return re.sub(r"[^/\w.\- ]", "_", name)[:250]


def _sha256(content: Path | str) -> str:
    return hashlib.sha256(content.encode()).hexdigest() if isinstance(content, str) else sha256_of(content)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _ended_ms(record: Record) -> int:
    return _milliseconds(record.outcome.started_unix_s + record.outcome.total_s)


# Where it goes


def locate_store(study: Study, folder: StudyFolder) -> Store:
    """Return the tracking store of a study: its own, else MLFLOW_TRACKING_URI's, else a SQLite file beside the results.

    Raises:
        UserError: when the URI is not one that MLflow can write runs to.
    """
    beside = folder.root.resolve().parent
    if study.tracking.uri is not None:
        return _parse_uri(study.tracking.uri, "tracking.uri of the study", beside)
    if uri := os.environ.get("MLFLOW_TRACKING_URI"):
        return _parse_uri(uri, "the environment variable MLFLOW_TRACKING_URI", beside)
    return _parse_uri(f"sqlite:///{beside / 'mlflow.db'}", "the default", beside)


def without_credentials(uri: str) -> str:
    """Return a URI without user, password, query and fragment, also when it is malformed."""
    if uri.startswith("sqlite:"):
        return uri
    return re.split(r"[?#]", re.sub(r"://.*@", "://", uri, flags=re.DOTALL))[0]


def _parse_uri(uri: str, source: str, beside: Path) -> Store:
    def refuse(why: str) -> UserError:
        return UserError(f"{source} is {without_credentials(uri)!r}: {why}. Expected {LEGAL_URIS}.")

    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise refuse(str(error)) from error
    if uri != uri.strip() or "\n" in uri:
        raise refuse("it holds white space")
    scheme = parts.scheme.partition("+")[0]
    if scheme == "sqlite":
        path = uri.removeprefix(f"{parts.scheme}:///")
        if path == uri or path in ("", ":memory:") or "?" in path or Path(path).is_dir():
            raise refuse("it does not name one file")
        database = Path(path).absolute()
        return Store(f"sqlite:///{database}", source, database, database.parent / "mlartifacts")
    if scheme not in ("http", "https", *DATABASE_PORTS):
        raise refuse(f"MLflow cannot log runs to {scheme + ':' if scheme else 'a plain path'}")
    if not host or port == 0:
        raise refuse("it names no host")
    return Store(uri, source, None, None if scheme in ("http", "https") else beside / "mlartifacts")


def _create_sqlite(store: Store, database: Path) -> None:
    """Create a new SQLite store, whole or not at all, and by one process only.

    MLflow's own creation fails when several processes start it at once, and leaves half a database when killed.
    """
    database.parent.mkdir(parents=True, exist_ok=True)
    with _locked(database.with_name(f"{database.name}.lock")):
        if database.exists() and database.stat().st_size:
            _check_sqlite(database, store.source)
            return
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        unfinished = database.with_name(f".{database.name}.new")
        unfinished.unlink(missing_ok=True)
        SqlAlchemyStore(f"sqlite:///{unfinished}", str(store.artifacts)).engine.dispose()
        unfinished.replace(database)


def _check_sqlite(database: Path, source: str) -> None:
    """Refuse a file that is no database at once: MLflow tries to open it for 100 s."""
    try:
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        raise UserError(
            f"{database} ({source}) cannot be used as a SQLite database: {error}. Move it away and publish again:"
            " envknee's runs are made from the results. Or name another store (tracking.uri in the study file)."
        ) from error


@contextmanager
def _locked(path: Path) -> Iterator[IO[str]]:
    """Hold the lock of a file, which is released when the process ends, however it ends."""
    with path.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another publisher is at work; waiting for {path}", file=sys.stderr, flush=True)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield stream


def _results_id(identity: IO[str]) -> str:
    """Return the identity of a results folder, made up at its first publication and kept in a file of its own."""
    identity.seek(0)
    known = identity.read().strip()
    if re.fullmatch(r"[0-9a-f]{32}", known):
        return known
    identity.truncate(0)
    identity.write(uuid.uuid4().hex)
    identity.flush()
    return _results_id(identity)


# How it gets there


def _connect(store: Store) -> "MlflowClient":
    """Return a client whose store exists; a server may still turn out not to answer."""
    _set_up_mlflow()
    from mlflow import MlflowClient

    if store.database is not None:
        _create_sqlite(store, store.database)
    elif not store.is_server:
        # MLflow tries for minutes to reach a database.
        parts = urlsplit(store.uri)
        address = (parts.hostname, parts.port or DATABASE_PORTS[parts.scheme.partition("+")[0]])
        socket.create_connection(address, timeout=5).close()
    return MlflowClient(tracking_uri=store.uri)


def _set_up_mlflow() -> None:
    """Make MLflow fail fast, keep quiet and send nothing home; what the user has set stays."""
    for name, value in MLFLOW_DEFAULTS.items():
        os.environ.setdefault(name, value)
    logging.getLogger("urllib3").setLevel(logging.ERROR)


@contextmanager
def _explaining(store: Store, folder: StudyFolder) -> Iterator[None]:
    """Turn what MLflow, its database or its server raise into a message with the next step."""
    _set_up_mlflow()
    from mlflow.exceptions import MlflowException
    from requests import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (MlflowException, RequestException, SQLAlchemyError, ModuleNotFoundError, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None and not isinstance(error, RequestException):
            raise  # a file of ours: the disk is full, a permission is missing
        said = " ".join(without_credentials(word) if "://" in word else word for word in str(error).split())
        hint = ""
        if any(code in said for code in ("401", "403", "Unauthorized", "Forbidden")):
            hint = " If it asks who you are, set MLFLOW_TRACKING_USERNAME and _PASSWORD, or MLFLOW_TRACKING_TOKEN."
        raise UserError(
            f"The tracking store {store.shown} ({store.source}) cannot be used: {said[:600]}\n"
            f"Expected a running MLflow store that takes runs.{hint} The measurements are safe in {folder.root}:"
            " run `make publish` when the store is back, or name another one (tracking.uri in the study file)."
        ) from error


def _experiment(client: "MlflowClient", name: str, store: Store) -> "Experiment":
    """Return the experiment of a study, created where it does not exist."""
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        location = None if store.artifacts is None else str(store.artifacts / name)
        try:
            client.create_experiment(name, artifact_location=location, tags=EXPERIMENT_TAGS)
        except MlflowException as error:  # another machine was faster
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        experiment = client.get_experiment_by_name(name)
        assert experiment is not None, name
    if experiment.lifecycle_stage == "deleted":
        raise UserError(
            f"The experiment {name!r} was deleted in {store.shown}, and its name is taken until it is purged."
            f" Bring it back with `mlflow experiments restore --experiment-id {experiment.experiment_id}`, or rename the study."
        )
    if store.artifacts is not None:
        _check_location(experiment, store, store.artifacts)
    return experiment


def _check_location(experiment: "Experiment", store: Store, artifacts: Path) -> None:
    """Refuse a store that was moved: MLflow keeps absolute paths, and would write where the results used to be."""
    where = Path(experiment.artifact_location.removeprefix("file://"))
    if (
        where.is_absolute()
        and not where.is_relative_to(artifacts)
        and (store.source == "the default" or not where.is_dir())
    ):
        raise UserError(
            f"{store.shown} was made for artifacts in {where}, and {artifacts} was expected: it was moved or copied."
            f" Move it back, or delete {store.database or store.shown} if it holds nothing but envknee's runs:"
            " they are made again from the results when you publish."
        )


def _publish_runs(
    client: "MlflowClient",
    runs: Sequence[tuple[Run, list[Run]]],
    experiment: "Experiment",
    store: Store,
    results_id: str,
) -> Publication:
    """Make the runs of one results folder match what its files say."""
    found = _runs_of(client, experiment.experiment_id, results_id)
    kept: set[str] = set()
    digests: dict[str, str] = {}
    created = 0

    def ensure(run: Run, parent_id: str | None) -> str:
        nonlocal created
        digests[run.key] = run.content_sha256()
        same = (known for known in found if known.data.tags.get(TAG_KEY) == run.key)
        match = next((known for known in same if known.data.tags.get(TAG_CONTENT) == digests[run.key]), None)
        if match is None:
            run_id = _create(client, experiment.experiment_id, run, parent_id, results_id, digests[run.key])
            created += 1
        else:
            run_id = match.info.run_id
            if parent_id is not None and match.data.tags.get(TAG_PARENT) != parent_id:
                client.set_tag(run_id, TAG_PARENT, parent_id)
        kept.add(run_id)
        return run_id

    for parent, children in runs:
        parent_id = ensure(parent, None)
        for child in children:
            ensure(child, parent_id)
    # Looked up again: a request that was sent twice by a retry may have made a run that nobody knows of.
    for known in _runs_of(client, experiment.experiment_id, results_id):
        replaced = known.data.tags.get(TAG_KEY) in digests or TAG_CONTENT not in known.data.tags
        if known.info.run_id not in kept and replaced:
            client.delete_run(known.info.run_id)
    return Publication(store, experiment.name, experiment.experiment_id, digests, created)


def _runs_of(client: "MlflowClient", experiment_id: str, results_id: str) -> list["StoredRun"]:
    """Return the runs that this results folder has in the store, oldest first."""
    runs: list[StoredRun] = []
    token = None
    while True:
        page = client.search_runs(
            [experiment_id],
            f"tags.`{TAG_RESULTS}` = '{results_id}'",
            max_results=RUNS_PER_PAGE,
            order_by=["attributes.start_time"],
            page_token=token,
        )
        runs += page
        token = page.token
        if not token:
            return runs


def _create(
    client: "MlflowClient", experiment_id: str, run: Run, parent_id: str | None, results_id: str, digest: str
) -> str:
    """Log a run and return its ID. The content's sha256 comes last: a run without one is half a run."""
    from mlflow.entities import Metric as StoredMetric
    from mlflow.entities import Param, RunTag

    tags = {TAG_KEY: run.key, TAG_RESULTS: results_id} | ({TAG_PARENT: parent_id} if parent_id else {})
    run_id = client.create_run(experiment_id, start_time=run.started_ms, tags=tags, run_name=run.name).info.run_id
    for metrics, params, more_tags in zip_longest(
        _chunks([StoredMetric(*metric) for metric in run.metrics], METRICS_PER_BATCH),
        _chunks([Param(*pair) for pair in run.params.items()], PARAMS_PER_BATCH),
        _chunks([RunTag(*pair) for pair in run.tags.items()], TAGS_PER_BATCH),
        fillvalue=(),
    ):
        client.log_batch(run_id, metrics, params, more_tags)
    for path, content in run.artifacts.items():
        if isinstance(content, str):
            client.log_text(run_id, content, path)
        else:
            client.log_artifact(run_id, str(content), artifact_path=path.rpartition("/")[0] or None)
    client.set_terminated(run_id, run.status, end_time=run.ended_ms)
    client.set_tag(run_id, TAG_CONTENT, digest)
    return run_id


def _chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    return (items[start : start + size] for start in range(0, len(items), size))


# Looking at it


def open_ui(study: Study, folder: StudyFolder, port: int | None) -> None:
    """Become the MLflow server of a study's store, on the loopback interface; a store on a server is only named.

    Raises:
        UserError: when nothing was published yet, or the port is taken.
    """
    store = locate_store(study, folder)
    if store.is_server:
        print(f"The runs are on {_page(store.shown, store, folder)} ({store.source})")
        return
    if store.database is not None and not store.database.exists():
        raise UserError(
            f"{store.database} does not exist: nothing was published yet. Run `make sweep` or `make publish` first."
        )
    port = choose_port(port)
    address = _page(f"http://{LOOPBACK}:{port}", store, folder)
    print(f"MLflow shows {store.shown} on {address} (Ctrl-C ends it)", flush=True)
    command = [
        sys.executable, "-m", "mlflow", "server", "--host", LOOPBACK, "--port", str(port), "--workers", "1",
        "--default-artifact-root", str(store.artifacts), "--artifacts-destination", str(store.artifacts),
    ]  # fmt: skip
    # Options from the environment could open another interface. The URI goes there for its password's sake.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MLFLOW_UVICORN_OPTS", "MLFLOW_GUNICORN_OPTS")
    }
    environment |= {
        "MLFLOW_BACKEND_STORE_URI": store.uri, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }  # fmt: skip
    os.execve(sys.executable, command, environment)  # noqa: S606  no shell


def _page(server: str, store: Store, folder: StudyFolder) -> str:
    """Return the address of a study's runs, or of all experiments while this store has none."""
    page = "experiments"
    if folder.published.exists():
        published = json.loads(folder.published.read_text(encoding="utf-8"))
        if published.get("tracking_uri") == store.shown:
            page += f"/{published.get('experiment_id')}/runs"
    # Without this MLflow greets with its pages for language models.
    return f"{server.rstrip('/')}/#/{page}?workflowType=machine_learning"


def choose_port(port: int | None) -> int:
    """Return the port asked for, or else the first free one from 5000 on.

    Raises:
        UserError: when it is taken.
    """
    candidates = range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED) if port is None else [port]
    for candidate in candidates:
        if _is_free(candidate):
            return candidate
    raise UserError(
        f"--port {port}: something else listens there already. Name another port, or none to get the next free one"
        if port is not None
        else f"No port from {DEFAULT_PORT} to {DEFAULT_PORT + PORTS_TRIED - 1} is free. Name a free one with --port N"
    )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a server that just ended is no obstacle
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: expected a whole number from 1 to 65535")
    return int(text)


def main() -> None:
    """Publish the records of a study to MLflow, or open the store in a browser."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("results", nargs="?", type=Path, help="the folder of the study; without it results/<study>")
    parser.add_argument(
        "--config", required=True, type=Path, metavar="FILE", help="the study file, such as config/config.yaml"
    )
    parser.add_argument("--ui", action="store_true", help="serve the MLflow UI on 127.0.0.1 instead of publishing")
    parser.add_argument(
        "--port", type=_port, metavar="N", help="port of the UI; without it the first free one from 5000 on"
    )
    arguments = parser.parse_args()
    study = load(arguments.config)
    folder = StudyFolder(arguments.results or Path("results") / study.study)
    if arguments.ui:
        open_ui(study, folder, arguments.port)
        return
    if not folder.root.is_dir():
        raise UserError(
            f"{folder.root} does not exist. Expected the folder of a study's results: run `make sweep` first."
        )
    publication = publish(study, folder)
    runs = len(publication.content_sha256)
    print(
        f"{runs} runs in the experiment {publication.experiment!r} of {publication.store.shown}:"
        f" {publication.created} logged now, {runs - publication.created} unchanged"
    )


if __name__ == "__main__":
    run_command(main)
