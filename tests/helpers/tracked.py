"""Results folders made as a sweep makes them, and what a tracking store holds of them."""

from pathlib import Path
from typing import Any

import records
from envknee.record.schema import Device, Status
from envknee.study.files import canonical_json
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.tracking.arms import describe_study
from envknee.tracking.run import Run
from envknee.tracking.writing import TAG_KEY, TAG_RESULTS
from records import CURVE, GPU, Trial, a_trial, write_study, write_trial


def a_study(name: str = "demo", uri: str | None = None, seed: int = 1) -> Study:
    """Return a study of two arms with three planned trials of each kind in each arm."""
    sizes = {"num_envs": [64, 2048], "horizon": 32, "batch_size": [2048]}
    return records.a_study(
        study=name,
        seed=seed,
        arms={"stock": {}, "lean": {"overrides": {"env.write_image_to_file": False}}},
        throughput={**sizes, "repeats": 2},
        learning={**sizes, "repeats": 1, "target_reward": 4.0, "budget_s": 600},
        tracking={"uri": uri},
    )


def a_folder(root: Path, study: Study, *trials: Trial) -> StudyFolder:
    return write_study(root, study, [trial.asked(study=study.study) for trial in trials])


def a_run(
    number: int,
    arm: str,
    status: Status,
    *,
    num_envs: int = 2048,
    device: Device = GPU,
    losses: dict[str, float] | None = None,
    **fields: Any,
) -> Trial:
    """Return a trial of `a_study`, of which each iteration takes 2 s."""
    defaults = {"horizon": 32, "batch_size": min(4096, num_envs * 32), "memory_gb": 18.5, "fps": num_envs * 16.0}
    seconds = 2.0 * CURVE if status == "target_reached" else None
    named: Any = {"number": number, "arm": arm, "status": status, "device": device, "seconds": seconds}
    trial = a_trial(num_envs, **named, **defaults | fields)
    losses = losses or {"value": 0.5}
    return trial.with_rows(cpu_percent=101.0, gpu_percent=96.0, gpu_power_w=540.0, losses=losses)


def finish(folder: StudyFolder, number: int, arm: str, status: Status, **fields: Any) -> None:
    write_trial(folder.trial(number), a_run(number, arm, status, **fields).asked(study=folder.root.name))


def write_config(where: Path, study: Study) -> Path:
    path = where / f"{study.study}.yaml"
    path.write_text(canonical_json(study))  # JSON is YAML
    return path


def a_running_study(root: Path, study: Study | None = None) -> StudyFolder:
    folder = a_folder(root, study or a_study())
    start(folder, 0)
    return folder


def a_live_run(number: int = 0) -> Trial:
    return a_run(number, "stock", "target_reached", kind="learning")


def start(folder: StudyFolder, number: int) -> None:
    """Write what is there of a learning trial that has started."""
    files, trial = folder.trial(number), a_live_run(number)
    files.root.mkdir(parents=True)
    files.request.write_text(canonical_json(trial.request.model_copy(update={"study": folder.root.name})))
    files.environment.write_text(canonical_json(trial.outcome.environment))


def lines(count: int, number: int = 0) -> list[str]:
    """Return the first lines of a learning trial's metrics.jsonl, which has CURVE."""
    return [row.model_dump_json() + "\n" for row in a_live_run(number).rows[:count]]


def write(folder: StudyFolder, text: str, number: int = 0) -> None:
    """Append to a trial's metrics.jsonl, as its process does."""
    with folder.trial(number).metrics.open("a") as stream:
        stream.write(text)


def client_of(folder: StudyFolder, uri: str | None = None) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(uri or f"sqlite:///{folder.root.parent}/mlflow.db")


def stored_runs(folder: StudyFolder, uri: str | None = None, name: str = "demo") -> list[Any]:
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
    (run,) = [run for parent, trials in describe_study(study, folder) for run in (parent, *trials) if run.key == key]
    return run


def history(client: Any, run: Any, key: str) -> list[Any]:
    return list(client.get_metric_history(run.info.run_id, key))


def downloaded(client: Any, run: Any, where: Path) -> dict[str, bytes]:
    """Return path → bytes of all artifacts of a run, fetched as the UI does."""
    where.mkdir(parents=True)
    root = Path(client.download_artifacts(run.info.run_id, "", str(where)))
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def contents(folder: StudyFolder) -> list[Any]:
    """Return everything about every active run but what differs between two stores: IDs and places."""
    client, runs, result = client_of(folder), stored_runs(folder), []
    keys = {run.info.run_id: run.data.tags[TAG_KEY] for run in runs}
    for run in runs:
        info = (run.info.run_name, run.info.status, run.info.start_time, run.info.end_time)
        tags = {name: keys.get(value, value) for name, value in run.data.tags.items() if name != TAG_RESULTS}
        points = (point for key in run.data.metrics for point in history(client, run, key))
        metrics = sorted((m.key, m.value, m.timestamp, m.step) for m in points)
        root = Path(run.info.artifact_uri.removeprefix("file://"))
        files = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        result.append((tags[TAG_KEY], info, tags, run.data.params, metrics, files))
    return sorted(result, key=lambda item: item[0])


def steps(folder: StudyFolder, name: str = "fps_total", trial: str = "0000", uri: str | None = None) -> list[int]:
    """Return the iterations of which the store has a curve's value, as often as it has it; none without a run."""
    client = client_of(folder, uri)
    if client.get_experiment_by_name(folder.root.name) is None:
        return []
    runs = [run for run in stored_runs(folder, uri, folder.root.name) if run.data.tags.get("trial") == trial]
    assert len(runs) <= 1
    return [metric.step // 65536 - 1 for run in runs for metric in history(client, run, name)]
