"""The MLflow page of a published study, as `make ui` opens it: a real server on loopback, a real headless Chromium."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from envknee.config import parse
from envknee.files import StudyFolder, canonical_json, sha256_of
from envknee.keepsakes import contact_sheet
from envknee.record import Device, Environment, MemoryUse, Outcome, Request, Row, build_record

pytestmark = pytest.mark.workflow

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200"><rect width="300" height="200" fill="red"/></svg>'
)
HEADLINE = "Beyond 2048 environments more stops paying."
START_S = 60
"""Longest start of the server on a busy machine; 5 s is usual."""
LOOKS = 4
"""How often a page is opened until it shows what it should: Chromium's virtual time does not wait for an answer that is late."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """A published study of two throughput trials and a learning trial, one figure and a verdict."""
    where = tmp_path_factory.mktemp("study")
    folder = StudyFolder(where / "results" / "page")
    folder.figures.mkdir(parents=True)
    (folder.figures / "fps.svg").write_text(SVG)
    folder.verdict.write_text(json.dumps({"arms": [{"arm": "stock", "headline": {"statement": HEADLINE}}]}))
    sizes = {"num_envs": [1024, 2048], "horizon": 32, "batch_size": 4096, "repeats": 1}
    learning = {
        "num_envs": 1024,
        "horizon": 32,
        "batch_size": 4096,
        "repeats": 1,
        "target_reward": 0.4,
        "budget_s": 60.0,
    }
    study = parse({"study": "page", "throughput": sizes, "learning": learning, "tracking": {"uri": None}})
    folder.study.write_text(canonical_json(study))
    for number, num_envs in enumerate((1024, 2048)):
        finish(folder, number, num_envs)
    finish(folder, 2, 1024, kind="learning", iterations=None, target_reward=0.4, target_episodes=10, budget_s=60.0)
    contact_sheet(torch.rand(8, 4, 6, 24, 24)).save(folder.trial(2).frames)
    folder.trial(2).policy.write_bytes(b"learned")
    assert run("results/page", cwd=where) == 0
    return folder


@pytest.fixture(scope="module")
def server(folder: StudyFolder) -> Iterator[str]:
    """The address that `--ui` prints, with the server behind it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "envknee.tracking",
        "--ui",
        "--config",
        "results/page/study.json",
        "--port",
        str(port),
    ]
    process = subprocess.Popen(
        command, cwd=folder.root.parents[1], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env=clean_environment(),
    )  # fmt: skip
    try:
        assert process.stdout is not None
        printed = process.stdout.readline()
        address = next(word for word in printed.split() if word.startswith("http://127.0.0.1:"))
        wait_until(lambda: fetch(address.partition("#")[0] + "health") == b"OK")
        listening = {
            connection.laddr.ip
            for member in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            for connection in member.net_connections(kind="inet")
            if connection.status == psutil.CONN_LISTEN
        }
        assert listening == {"127.0.0.1"}
        yield address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


def test_page_of_the_study_compares_its_trials_at_once(server: str, tmp_path: Path) -> None:
    """The address that is printed: all runs, parallel coordinates over the sizes, curves over frames and over time."""
    page = words_of(server, tmp_path, "All trials: FPS and memory", "Trials that reached", "Curves:", "fps_total")
    for shown in ("Model training", "4 matching runs", "stock · H100", "H100 · 2048 envs · T32 · B4096 · repeat 1"):
        assert shown in page
    assert page.count("Parallel Coordinates") == 2
    charts = page[page.index("All trials: FPS and memory") :]
    axes = ["num_envs", "horizon", "batch_size", "fps", "memory_gb"]
    all_trials, at_target = charts.split("Trials that reached the target")
    assert in_order(axes, all_trials) and in_order([*axes, "seconds_to_target"], at_target)
    curves = at_target[at_target.index("Curves: a step is a frame") :]
    assert in_order(["reward_average", "Step", "reward_average", "Relative Time", "fps_total"], curves)


def test_system_metrics_are_those_of_the_trials_own_gpu(server: str, folder: StudyFolder, tmp_path: Path) -> None:
    names = [
        "gpu_0_memory_usage_megabytes",
        "gpu_0_power_usage_watts",
        "gpu_0_utilization_percentage",
        "process_cpu_percentage",
    ]
    page = words_of(run_page(server, folder, "trials/0002") + "/system-metrics", tmp_path, *names)
    assert in_order(names, page)
    assert "gpu_1" not in page


def test_page_of_an_arm_shows_verdict_and_trials(server: str, folder: StudyFolder, tmp_path: Path) -> None:
    page = words_of(run_page(server, folder, "arms/stock"), tmp_path, HEADLINE)
    assert HEADLINE in page
    assert "H100 · 1024 envs · T32 · B4096 · repeat 1" in page
    assert "H100 · 2048 envs · T32 · B4096 · repeat 1" in page
    assert "3 of 3 trials have finished: 2 ok, 1 target_reached." in page
    assert "Best single trial: 0002" in page


def test_page_of_a_trial_shows_parameters_and_metrics(server: str, folder: StudyFolder, tmp_path: Path) -> None:
    page = words_of(run_page(server, folder, "trials/0001"), tmp_path, "num_mini_batches")
    for shown in (
        "H100 · 2048 envs",
        "num_mini_batches",
        "summary/fps_total_median",
        "NVIDIA H100 80GB HBM3",
        "Finished",
    ):
        assert shown in page


def test_figure_is_shown(server: str, folder: StudyFolder, tmp_path: Path) -> None:
    """The figure is plain red, and the page has nothing else that is."""
    screenshot = tmp_path / "figure.png"
    expected = pytest.approx(300 * 200 / (1600 * 2400), rel=0.05)
    for _ in range(LOOKS):
        browse(run_page(server, folder, "arms/stock") + "/artifacts/figures/fps.svg", tmp_path, screenshot)
        if red_share(screenshot) == expected:
            break
    assert red_share(screenshot) == expected
    browse(run_page(server, folder, "arms/stock"), tmp_path, screenshot)
    assert red_share(screenshot) < 0.001


def test_artifacts_come_as_they_are(server: str, folder: StudyFolder) -> None:
    host = server.partition("#")[0]
    for key, path, file in (
        ("trials/0000", "record.json", folder.trial(0).record),
        ("trials/0001", "metrics.jsonl", folder.trial(1).metrics),
        ("trials/0002", "frames.png", folder.trial(2).frames),
        ("arms/stock", "figures/fps.svg", folder.figures / "fps.svg"),
        ("arms/stock", "best/policy.pt", folder.trial(2).policy),
    ):
        query = urllib.parse.urlencode({"path": path, "run_uuid": run_ids(folder)[key]})
        assert fetch(f"{host}get-artifact?{query}") == file.read_bytes()


def test_publishing_to_a_server_is_idempotent_too(server: str, folder: StudyFolder, tmp_path: Path) -> None:
    """Through HTTP, with artifacts that the server keeps: the same study once more, from a copy of its folder."""
    uri = server.partition("/#")[0]
    copy = StudyFolder(Path(shutil.copytree(folder.root, tmp_path / "results" / "page")))
    (copy.root / ".mlflow").unlink()  # else the runs of the first folder would count as this one's
    environment = clean_environment() | {"MLFLOW_TRACKING_URI": uri}
    assert run("results/page", cwd=tmp_path, env=environment) == 0
    first = dump(uri, copy)
    assert len(first) == 4
    published = copy.published.read_bytes()
    assert json.loads(published)["tracking_uri"] == uri
    assert run("results/page", cwd=tmp_path, env=environment) == 0
    assert dump(uri, copy) == first
    assert copy.published.read_bytes() == published


# The browser


def browse(address: str, where: Path, screenshot: Path | None = None) -> str:
    """Return the document that Chromium makes of a page once its scripts have run, or take a picture of it."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH: `apt-get install chromium` to look at MLflow's pages")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        f"--user-data-dir={where / 'chromium'}", "--window-size=1600,2400", "--virtual-time-budget=120000",
        "--dump-dom" if screenshot is None else f"--screenshot={screenshot}", address,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def words_of(address: str, where: Path, *awaited: str) -> str:
    """Return the words of a page as soon as it shows these one after the other, or of its last look."""
    page = ""
    for _ in range(LOOKS):
        page = without_tags(browse(address, where))
        if in_order(awaited, page):
            break
    return page


def in_order(words: Sequence[str], page: str) -> bool:
    """Tell whether a page says these one after the other."""
    return re.search(".*?".join(map(re.escape, words)), page) is not None


def without_tags(page: str) -> str:
    """Return the words of a page, one blank between them."""
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def red_share(screenshot: Path) -> float:
    """Return which share of a picture's pixels is plain red."""
    from matplotlib.image import imread

    pixels = imread(str(screenshot))[..., :3]
    return float(((pixels[..., 0] > 0.99) & (pixels[..., 1] < 0.01) & (pixels[..., 2] < 0.01)).mean())


def run_page(server: str, folder: StudyFolder, key: str) -> str:
    """Return the address of a run's page."""
    return f"{server.partition('/runs')[0]}/runs/{run_ids(folder)[key]}"


# The store and the server


def run(*arguments: str, cwd: Path, env: dict[str, str] | None = None) -> int:
    """Run `python -m envknee.tracking` with the study file in its own results."""
    command = [sys.executable, "-m", "envknee.tracking", *arguments, "--config", "results/page/study.json"]
    return subprocess.run(command, cwd=cwd, env=env or clean_environment(), check=False).returncode


def clean_environment() -> dict[str, str]:
    """Return this process's environment without a tracking store in it, and with envknee on its path."""
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    return environment | {"PYTHONPATH": str(Path(__file__).parents[2] / "workflow")}


def client_of(uri: str) -> Any:
    """Return a client of a store."""
    from mlflow import MlflowClient

    return MlflowClient(uri)


def runs_of(uri: str, folder: StudyFolder) -> list[Any]:
    """Return the runs that a folder published to a store."""
    client = client_of(uri)
    experiment = client.get_experiment_by_name("page").experiment_id
    return list(client.search_runs([experiment], f"tags.`envknee.results` = '{(folder.root / '.mlflow').read_text()}'"))


def run_ids(folder: StudyFolder) -> dict[str, str]:
    """Return key → run ID in the folder's own SQLite store."""
    runs = runs_of(f"sqlite:///{folder.root.parent}/mlflow.db", folder)
    return {run.data.tags["envknee.key"]: run.info.run_id for run in runs}


def dump(uri: str, folder: StudyFolder) -> dict[str, Any]:
    """Return everything about the runs of a folder on a server, by run ID."""
    client = client_of(uri)
    result = {}
    for run in runs_of(uri, folder):
        artifacts = [(file.path, file.file_size) for file in client.list_artifacts(run.info.run_id)]
        result[run.info.run_id] = (run.to_dictionary(), sorted(artifacts))
        assert artifacts
    return result


def fetch(address: str) -> bytes | None:
    """Return what a server answers, or None while there is none."""
    try:
        with urllib.request.urlopen(address, timeout=10) as response:  # noqa: S310  our own server
            return response.read()
    except (ConnectionError, urllib.error.URLError):
        return None


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for at most START_S seconds."""
    deadline = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < deadline, f"no answer within {START_S} s"
        time.sleep(0.2)


# The study


def finish(folder: StudyFolder, number: int, num_envs: int, **changes: Any) -> None:
    """Write the four files of a trial on an H100; `changes` are those of its request."""
    trial = folder.trial(number)
    trial.root.mkdir(parents=True)
    request = Request(
        study="page", number=number, arm="stock", kind="throughput", repeat=0, num_envs=num_envs, horizon=32, batch_size=4096,
        seed=1, task_id="Isaac-Cartpole-Camera-Direct", asset="local", overrides={}, trainer="rsl_rl", gpus="auto",
        warmup_iterations=1, iterations=5, target_reward=None, target_episodes=None, budget_s=None, limit_s=600.0,
        sampler="grid", refusal=None,
    ).model_copy(update=changes)  # fmt: skip
    started = time.time() - 3600 + 60 * number
    frames = num_envs * 32
    rows = [
        Row(
            iteration=iteration, warmup=iteration == 0, frames=frames * (iteration + 1), wall_s=1.5 * (iteration + 1),
            unix_time_s=started + 10 + 1.5 * (iteration + 1), env_step_s=0.3, collect_s=0.5, learn_s=1.0,
            fps_env_step=frames / 0.3, fps_env_step_inference=frames / 0.5, fps_total=frames / 1.5, reward_mean=0.1 * iteration,
            episode_length_mean=20.0, episodes=30, losses={"value": 1.0 / (iteration + 1)}, learning_rate=3e-4, action_std=1.0,
            memory=MemoryUse(rss_gb=3.0, peak_rss_gb=3.2, device_used_gb=18.4), cpu_percent=101.0, gpu_percent=96.0,
            gpu_power_w=540.0 + iteration,
        )
        for iteration in range(6)
    ]  # fmt: skip
    trial.request.write_text(canonical_json(request))
    trial.metrics.write_text("".join(row.model_dump_json() + "\n" for row in rows))
    environment = Environment(
        host="node1", device=Device(type="cuda", name="NVIDIA H100 80GB HBM3", uuid=None, memory_gb=85.0), cpu_model="Some CPU",
        cpu_cores=16, cpu_threads=16, python="3.12.3", packages={"torch": "2.11.0"}, git_commit=None, git_dirty=None,
    )  # fmt: skip
    outcome = Outcome(
        request_sha256=sha256_of(trial.request), metrics_sha256=sha256_of(trial.metrics),
        status="ok" if request.kind == "throughput" else "target_reached", reason=None, failure=None,
        environment=environment, started_unix_s=started, setup_s=9.0, total_s=20.0, num_mini_batches=num_envs * 32 // 4096,
        rollout_gb=14.5,
    )  # fmt: skip
    trial.outcome.write_text(canonical_json(outcome))
    trial.record.write_text(canonical_json(build_record(request, rows, outcome)))
