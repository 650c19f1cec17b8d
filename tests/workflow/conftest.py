"""Real sweeps in a temporary folder: the project's own Snakefile, real Isaac Lab, results below `tmp`."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest
import records
import side_by_side
import yaml
from envknee.machine import gpus
from envknee.machine.processes import KEEPER
from envknee.record.schema import Request
from envknee.study.files import canonical_json, write_atomically
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.tracking.client import explaining
from envknee.tracking.database import prepare_database
from envknee.tracking.store import locate_store
from programs import ran, succeeded
from tracked import a_folder, a_study

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests/workflow/tiny.yaml"
NO_GRADIENTS = str(ROOT / "tests/workflow/no_gradients")
for name in [name for name in os.environ if name.startswith(("AWS_", "MLFLOW_", "PG"))]:
    del os.environ[name]  # tests use no store of somebody else's
LOCKS = tempfile.TemporaryDirectory(prefix="envknee-locks-")
os.environ[gpus.OTHER_LOCKS] = LOCKS.name  # tests wait for no trial of somebody else's
ENVIRONMENT = os.environ | {
    # A GPU host without a package index may have its packages on PYTHONPATH, too.
    "PYTHONPATH": os.pathsep.join([str(ROOT / "workflow"), *filter(None, [os.environ.get("PYTHONPATH")])]),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
}

SNAKEMAKE = shutil.which("snakemake", path=ENVIRONMENT["PATH"]) or "snakemake"

# A shell's background job inherits an ignored SIGINT and would hand it on to the sweeps that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(side_by_side)
    gc.disable()  # what collecting imports stays, and no test need look through it for garbage


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


class Workspace:
    """A folder in which sweeps run, as a clone of the project would be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = ENVIRONMENT

    def study(self, **changes: Any) -> Path:
        """Write the tiny study with some of its sections replaced; None leaves a section out."""
        study = yaml.safe_load(TINY.read_text(encoding="utf-8")) | changes
        if study.get("throughput"):
            study["throughput"] = {"wait_for_others": False} | study["throughput"]  # other tests are always busy
        path = self.folder / f"{study['study']}.yaml"
        path.write_text(
            yaml.safe_dump({key: value for key, value in study.items() if value is not None}), encoding="utf-8"
        )
        return path

    def results(self, name: str = "tiny") -> StudyFolder:
        return StudyFolder(self.folder / "results" / name)

    def prepared(self, name: str = "tiny") -> StudyFolder:
        """Return the folder of a study that was prepared before: whole sweeps show that, and it takes a trial per arm."""
        folder = self.results(name)
        folder.root.mkdir(parents=True, exist_ok=True)
        folder.resolved.write_text("stock: {}\n", encoding="utf-8")
        return folder

    def command(self, study: Path, *arguments: str) -> list[str]:
        return [
            SNAKEMAKE, *arguments, "--snakefile", str(ROOT / "Snakefile"), "--directory", str(self.folder),
            "--configfile", str(study),
        ]  # fmt: skip

    def verdict_of(self, study: Path) -> str:
        """Return the target of a sweep that needs no figures, no runs in MLflow and no report: they take as long as a trial."""
        return str(self.results(study.stem).verdict.relative_to(self.folder))

    def measure(self, study: Path, timeout_s: float = 900) -> subprocess.CompletedProcess[str]:
        return self.sweep(study, self.verdict_of(study), timeout_s=timeout_s)

    def sweep(self, study: Path, *arguments: str, timeout_s: float = 900) -> subprocess.CompletedProcess[str]:
        """Run a sweep to its end; stdout and stderr come together."""
        return self.run(self.command(study, *arguments), timeout_s)

    def start(self, study: Path, *arguments: str) -> "subprocess.Popen[str]":
        return self.begin(self.command(study, *arguments))

    def begin(self, command: list[str]) -> "subprocess.Popen[str]":
        """Start a command in a process group of its own, as a terminal does."""
        return subprocess.Popen(
            command, cwd=self.folder, env=self.environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def module(self, name: str, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run `envknee <name>`."""
        return self.run([sys.executable, "-m", "envknee", name, *arguments], timeout_s)

    def run(self, command: list[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
        return ran(command, cwd=self.folder, env=self.environment, timeout=timeout_s, stderr=subprocess.STDOUT)


def wait_for(condition: Callable[[], bool], timeout_s: float = 300) -> None:
    """Wait until the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.1)


def wait_until_none(left: Callable[[], Collection[object]], timeout_s: float) -> None:
    """Wait until nothing is left; fail with what is."""
    with suppress(AssertionError):
        wait_for(lambda: not left(), timeout_s)
    remaining = left()
    assert not remaining, f"left after {timeout_s:.0f} s: {remaining}"


def processes_that(are_meant: Callable[[psutil.Process], object]) -> list[psutil.Process]:
    """Return the processes of this machine of which something is so, but for those that have ended meanwhile."""
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if are_meant(process):
                processes.append(process)
    return processes


def trial_processes(folder: Path) -> list[int]:
    """Return the processes that measure a trial below `folder`."""

    def measures(process: psutil.Process) -> bool:
        words = process.cmdline()
        # A keeper has the same words behind its own. That of a copy of the project lies elsewhere.
        is_keeper = any(Path(word).name == Path(KEEPER).name for word in words)
        return "envknee.run.process" in words and not is_keeper and Path(process.cwd()).is_relative_to(folder)

    return [process.pid for process in processes_that(measures)]


def listening(processes: Iterable[psutil.Process]) -> set[str]:
    connections = (connection for process in processes for connection in process.net_connections("inet"))
    return {connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN}


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """Serve on loopback from a thread of this process; give the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def has_rows(trial: TrialFolder) -> bool:
    """Tell whether a trial that runs has written its first row."""
    return trial.metrics.exists() and trial.metrics.stat().st_size > 0


def started_launcher(trial: TrialFolder, **variables: str) -> "subprocess.Popen[bytes]":
    """Start the launcher of a trial in a session of its own, with more environment variables."""
    command = [sys.executable, "-m", "envknee.run.launch", str(trial.root)]
    return subprocess.Popen(command, env=ENVIRONMENT | variables, start_new_session=True)


def ranks_among(pids: Iterable[int]) -> dict[int, psutil.Process]:
    """Return the processes that train as ranks: rank -> process."""
    ranks = {}
    for pid in pids:
        with suppress(psutil.Error):  # ended; orphans of other tests are this process's children, too
            process = psutil.Process(pid)
            if "envknee.run.process" in process.cmdline() and "RANK" in (variables := process.environ()):
                ranks[int(variables["RANK"])] = process
    return ranks


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    """Return an empty workspace; whatever a test left running there is ended."""
    yield Workspace(tmp_path)
    for process in trial_processes(tmp_path):
        os.kill(process, signal.SIGKILL)


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return the workspace of one whole tiny sweep. Tests read it; what they change they copy first (see `a_copy`)."""
    workspace = Workspace(tmp_path_factory.mktemp("swept"))
    # As `.venv/bin/snakemake` is typed where no environment is activated.
    workspace.environment = ENVIRONMENT | {"PATH": os.defpath}
    workspace.output = succeeded(workspace.sweep(workspace.study()))  # type: ignore[attr-defined]  # kept for the tests that look at it
    workspace.environment = ENVIRONMENT
    return workspace


@pytest.fixture
def a_copy(swept: Workspace, tmp_path: Path) -> Workspace:
    """Return a copy of the finished sweep that a test may break."""
    # A tracking store knows where it lies, and is made again from the records: it is not copied.
    left_out = shutil.ignore_patterns("mlflow.db*", "mlartifacts")
    shutil.copytree(swept.folder, tmp_path / "copy", symlinks=True, ignore=left_out)
    return Workspace(tmp_path / "copy")


def camera(px: int, **more: Any) -> dict[str, Any]:
    """Return the overrides of a task for square images, and `more` of them, such as episode_length_s=0.2 of the environment."""
    size = {f"env.scene.tiled_camera.{side}": px for side in ("width", "height")}
    return size | {f"env.{name}": value for name, value in more.items()}


def a_trial(folder: Path, **changes: Any) -> TrialFolder:
    """Write the request of a trial of the camera cart-pole, small enough for seconds on a CPU."""
    request = records.a_trial(4, horizon=4, batch_size=16, gpus=0).request.model_dump() | {
        "study": "by-hand", "seed": 7, "overrides": camera(24), "warmup_iterations": 0, "iterations": 1, "limit_s": 480.0,
    }  # fmt: skip
    trial = TrialFolder(folder)
    trial.root.mkdir(parents=True)
    write_atomically(trial.request, canonical_json(Request.model_validate(request | changes)))
    return trial


def by_hand(**sections: Any) -> Study:
    sizes = {"num_envs": [4, 8], "horizon": 4, "batch_size": 16}
    return parse_study({"study": "by-hand", "throughput": sizes} | sections)


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a new SQLite store, made once: that takes a second."""
    folder = a_folder(tmp_path_factory.mktemp("store") / "demo", a_study())
    store = locate_store(a_study(), folder)
    with explaining(store, folder):
        prepare_database(store, str(store.artifacts))
    return records.known(store.database)
