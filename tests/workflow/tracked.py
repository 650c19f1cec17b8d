"""Results folders made as a sweep makes them, and what a tracking store holds of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from envknee.record.build import build_record
from envknee.record.schema import (
    Device,
    Environment,
    Failure,
    Image,
    MemoryUse,
    Outcome,
    RankRow,
    Record,
    Request,
    Row,
    Status,
)
from envknee.study.files import canonical_json, sha256_of
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking.arms import describe_study
from envknee.tracking.run import Run
from envknee.tracking.writing import TAG_KEY, TAG_RESULTS

STARTED_UNIX_S = 1_700_000_000.25

# A results folder, made as a sweep makes it

H100_NODE = Environment(
    host="node1",
    device=Device(type="cuda", name="NVIDIA H100 80GB HBM3", uuid="GPU-1", memory_gb=85.0),
    cpu_model="Some CPU",
    cpu_cores=16,
    cpu_threads=8,
    python="3.12.3",
    packages={"torch": "2.11.0", "isaaclab": "3.0.0"},
    git_commit="abc123",
    git_dirty=False,
    image=Image(sif_sha256="a1", content_sha256="b2", labels={"org.envknee.git-commit": "def456"}),
)
CPU = Device(type="cpu", name="Some CPU", uuid=None, memory_gb=64.0)
H100 = H100_NODE.device


def a_study(name: str = "demo", uri: str | None = None, seed: int = 1) -> Study:
    """Return a study of two arms with three planned trials of each kind in each arm."""
    sizes = {"num_envs": [64, 2048], "horizon": 32, "batch_size": [2048]}
    return parse_study(
        {
            "study": name,
            "seed": seed,
            "arms": {"stock": {}, "lean": {"overrides": {"env.write_image_to_file": False}}},
            "throughput": {**sizes, "repeats": 2},
            "learning": {**sizes, "repeats": 1, "target_reward": 4.0, "budget_s": 600},
            "tracking": {"uri": uri},
        }
    )


def a_folder(root: Path, study: Study) -> StudyFolder:
    """Return an empty results folder that belongs to `study`."""
    root.mkdir(parents=True)
    folder = StudyFolder(root)
    folder.study.write_text(canonical_json(study))
    return folder


def a_request(number: int, arm: str, kind: str = "throughput", **changes: Any) -> Request:
    """Return a request of the study `demo`."""
    learning = kind == "learning"
    fields: dict[str, Any] = {
        "study": "demo", "number": number, "arm": arm, "kind": kind, "repeat": 0, "num_envs": 2048, "horizon": 32,
        "batch_size": 4096, "seed": 7, "task_id": "Isaac-Cartpole-Camera-Direct", "asset": "local",
        "overrides": {"env.scene.tiled_camera.width": 64, "env.viewer": None}, "trainer": "rsl_rl", "gpus": "auto",
        "warmup_iterations": 1, "iterations": None if learning else 2, "target_reward": 4.0 if learning else None,
        "target_episodes": 40 if learning else None, "budget_s": 500.0 if learning else None, "limit_s": 600.0,
        "sampler": "grid", "refusal": None,
    }  # fmt: skip
    return Request.model_validate(fields | changes)


def some_rows(request: Request, count: int, losses: dict[str, float]) -> list[Row]:
    """Return `count` iterations, 2 s each; the first one saw no episode end, and the reward rises by 0.1 after it."""
    frames = request.num_envs * request.horizon * request.world_size
    return [
        Row(
            iteration=iteration,
            warmup=iteration < request.warmup_iterations,
            frames=frames * (iteration + 1),
            wall_s=2.0 * (iteration + 1),
            unix_time_s=STARTED_UNIX_S + 10 + 2 * (iteration + 1) + 300 * request.number,
            env_step_s=0.5,
            collect_s=0.75,
            learn_s=1.25,
            fps_env_step=frames / 0.5,
            fps_env_step_inference=frames / 0.75,
            fps_total=40_000.0 + iteration,
            reward_mean=round(0.1 * iteration, 10) if iteration else None,
            episode_length_mean=5.0 * iteration if iteration else None,
            episodes=50 if iteration else 0,
            losses=losses,
            learning_rate=3e-4,
            action_std=1.0,
            memory=MemoryUse(rss_gb=3.0, peak_rss_gb=3.5, torch_peak_allocated_gb=16.5, device_used_gb=18.5),
            cpu_percent=101.0,
            gpu_percent=96.0,
            gpu_power_w=540.0,
        )
        for iteration in range(count)
    ]


def some_ranks(row: Row, slowdown: Sequence[float]) -> list[RankRow]:
    """Return each rank's part of an iteration; the slowest collects as long as the row says."""
    shares = [factor / max(slowdown) for factor in slowdown]
    return [
        RankRow(
            rank=rank, iteration_s=2.0, env_step_s=row.env_step_s * share, collect_s=row.collect_s * share,
            learn_s=2.0 - row.collect_s * share, phases_s=None, episodes=row.episodes // 2, memory=row.memory,
        )
        for rank, share in enumerate(shares)
    ]  # fmt: skip


def an_outcome(status: Status, number: int, **changes: Any) -> Outcome:
    """Return how a trial ended; each starts 100 s after the one before and takes 30 s."""
    fields: dict[str, Any] = {
        "request_sha256": "0" * 64, "metrics_sha256": None, "status": status,
        "reason": None if status in ("ok", "target_reached") else f"why it ended: {status}", "failure": None,
        "environment": H100_NODE, "started_unix_s": STARTED_UNIX_S + 100 * number, "setup_s": 9.0, "total_s": 30.0,
        "num_mini_batches": 16, "rollout_gb": 14.5,
    }  # fmt: skip
    return Outcome.model_validate(fields | changes)


def a_record(number: int, arm: str, status: Status, **changes: Any) -> Record:
    """Return a record without files."""
    request = a_request(number, arm, **changes)
    return build_record(request, some_rows(request, 3, {"value": 1.0}), an_outcome(status, number))


def finish(
    folder: StudyFolder, number: int, arm: str, status: Status, *, kind: str = "throughput", rows: int = 3,
    device: Device | None = H100, environment: Environment = H100_NODE, failure: Failure | None = None,
    losses: dict[str, float] | None = None, slowdown: Sequence[float] = (), **changes: Any,
) -> None:  # fmt: skip
    """Write the four files of a finished trial; `slowdown` tells how much longer each of several ranks collects."""
    if "num_envs" in changes:
        changes["batch_size"] = changes["num_envs"] * 32
    trial = folder.trial(number)
    trial.root.mkdir(parents=True, exist_ok=True)
    request = a_request(number, arm, kind, study=folder.root.name, **changes)
    trial.request.write_text(canonical_json(request))
    measured = some_rows(request, rows, losses or {"value": 0.5, "surrogate": -0.01})
    if slowdown:
        measured = [row.model_copy(update={"ranks": some_ranks(row, slowdown)}) for row in measured]
    if measured:
        trial.metrics.write_text("".join(row.model_dump_json() + "\n" for row in measured))
    outcome = an_outcome(
        status,
        number,
        request_sha256=sha256_of(trial.request),
        metrics_sha256=sha256_of(trial.metrics) if measured else None,
        environment=None if device is None else a_changed(environment, device=device),
        failure=failure,
    )
    trial.outcome.write_text(canonical_json(outcome))
    trial.record.write_text(canonical_json(build_record(request, measured, outcome)))


def a_changed(environment: Environment, **changes: Any) -> Environment:
    """Return a validated copy with some fields changed."""
    return Environment.model_validate(environment.model_dump() | changes)


def write_config(where: Path, study: Study) -> Path:
    """Write a study file."""
    path = where / f"{study.study}.yaml"
    path.write_text(canonical_json(study))  # JSON is YAML
    return path


# A trial while it runs

LIVE_ROWS = 40


def a_running_study(root: Path, study: Study | None = None) -> StudyFolder:
    """Return the folder of a study whose first trial has started."""
    folder = a_folder(root, study or a_study())
    start(folder, 0)
    return folder


def start(folder: StudyFolder, number: int, arm: str = "stock", kind: str = "learning") -> None:
    """Write what is there of a trial that has started."""
    trial = folder.trial(number)
    trial.root.mkdir(parents=True)
    trial.request.write_text(canonical_json(a_request(number, arm, kind, study=folder.root.name)))
    trial.environment.write_text(canonical_json(H100_NODE))


def lines(count: int, number: int = 0, arm: str = "stock", kind: str = "learning") -> list[str]:
    """Return the first lines of a trial's metrics.jsonl."""
    rows = some_rows(a_request(number, arm, kind), count, {"value": 0.5, "surrogate": -0.01})
    return [row.model_dump_json() + "\n" for row in rows]


def write(folder: StudyFolder, text: str, number: int = 0) -> None:
    """Append to a trial's metrics.jsonl, as its process does."""
    with folder.trial(number).metrics.open("a") as stream:
        stream.write(text)


# What the store holds


def client_of(folder: StudyFolder, uri: str | None = None) -> Any:
    """Return a client of a folder's store."""
    from mlflow import MlflowClient

    return MlflowClient(uri or f"sqlite:///{folder.root.parent}/mlflow.db")


def stored_runs(folder: StudyFolder, uri: str | None = None, name: str = "demo") -> list[Any]:
    """Return all active runs of a study."""
    client = client_of(folder, uri)
    return list(client.search_runs([client.get_experiment_by_name(name).experiment_id]))


def stored_trial(folder: StudyFolder, number: str) -> Any:
    """Return the run of a trial; there is exactly one."""
    (run,) = [run for run in stored_runs(folder) if run.data.tags.get("trial") == number]
    return run


def stored_parent(folder: StudyFolder, arm: str) -> Any:
    """Return the run of an arm; there is exactly one."""
    (run,) = [run for run in stored_runs(folder) if run.data.tags.get(TAG_KEY) == f"arms/{arm}"]
    return run


def run_of(study: Study, folder: StudyFolder, key: str) -> Run:
    """Return a run as the files have it."""
    (run,) = [run for parent, trials in describe_study(study, folder) for run in (parent, *trials) if run.key == key]
    return run


def history(client: Any, run: Any, key: str) -> list[Any]:
    """Return all points of a curve."""
    return list(client.get_metric_history(run.info.run_id, key))


def downloaded(client: Any, run: Any, where: Path) -> dict[str, bytes]:
    """Return path → bytes of all artifacts of a run, fetched as the UI does."""
    where.mkdir(parents=True)
    root = Path(client.download_artifacts(run.info.run_id, "", str(where)))
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def dump(folder: StudyFolder) -> dict[str, Any]:
    """Return everything about every active run, by its ID."""
    client = client_of(folder)
    return {
        run.info.run_id: (run.info.to_proto().SerializeToString(), *_data(client, run)) for run in stored_runs(folder)
    }


def contents(folder: StudyFolder) -> list[Any]:
    """Return everything about every active run but what differs between two stores: IDs and places."""
    client = client_of(folder)
    runs = stored_runs(folder)
    keys = {run.info.run_id: run.data.tags[TAG_KEY] for run in runs}
    result = []
    for run in runs:
        tags, *rest = _data(client, run)
        tags = {name: keys.get(value, value) for name, value in tags.items() if name != TAG_RESULTS}
        info = (run.info.run_name, run.info.status, run.info.start_time, run.info.end_time)
        result.append((tags[TAG_KEY], info, tags, *rest))
    return sorted(result, key=lambda item: item[0])


def _data(client: Any, run: Any) -> Iterator[Any]:
    yield run.data.tags
    yield run.data.params
    yield sorted((m.key, m.value, m.timestamp, m.step) for key in run.data.metrics for m in history(client, run, key))
    root = Path(run.info.artifact_uri.removeprefix("file://"))
    yield {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def steps(folder: StudyFolder, name: str = "fps_total", trial: str = "0000", uri: str | None = None) -> list[int]:
    """Return the iterations of which the store has a curve's value, as often as it has it; none without a run."""
    client = client_of(folder, uri)
    if client.get_experiment_by_name(folder.root.name) is None:
        return []
    runs = [run for run in stored_runs(folder, uri, folder.root.name) if run.data.tags.get("trial") == trial]
    assert len(runs) <= 1
    return [metric.step // 65536 - 1 for run in runs for metric in history(client, run, name)]
