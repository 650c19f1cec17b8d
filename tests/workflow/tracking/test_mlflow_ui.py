"""The MLflow page of a published study, as `make ui` opens it: a real server on loopback, a real headless Chromium."""

import base64
import http.client
import re
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import psutil
import pytest
import torch
from browser import browse
from drawn import with_verdict
from envknee.measure.keepsakes import contact_sheet
from envknee.study.load import parse_study
from envknee.study.paths import StudyFolder
from envknee.tracking.publish import publish
from loopback import serving
from running import listening
from tracked import a_folder, a_live_run, a_run, stored_runs
from tracking_server import Server, attack
from waiting import wait_for

SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200"><rect width="300" height="200" fill="red"/></svg>'
)
HEADLINE = "run 2,048 environments, horizon 32, batch 4,096: 32,768 FPS, 100% of the best seen"
PATIENCE_S = 900
"""How long a page is opened again until it shows what it should: Chromium's virtual time does not wait for an answer that is late."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> StudyFolder:
    """A published study of two throughput trials and a learning trial, one figure and a verdict."""
    sizes = {"num_envs": [1024, 2048], "horizon": 32, "batch_size": 4096, "repeats": 1}
    learning = sizes | {"num_envs": 2048, "target_reward": 4.0, "budget_s": 600.0}
    study = parse_study({"study": "page", "throughput": sizes, "learning": learning})
    trials = a_run(0, "stock", "ok", num_envs=1024), a_run(1, "stock", "ok"), a_live_run(2)
    folder = a_folder(tmp_path_factory.mktemp("study") / "results" / "page", study, *trials)
    folder.figures.mkdir()
    (folder.figures / "fps.svg").write_text(SVG)
    with_verdict(folder)
    contact_sheet(torch.rand(8, 4, 6, 24, 24)).save(folder.trial(2).frames)
    folder.trial(2).policy.write_bytes(b"learned")
    publish(study, folder)
    return folder


@pytest.fixture(scope="module")
def printed(folder: StudyFolder) -> Iterator[list[str]]:
    """The lines that `--ui` prints, with the server behind them."""
    server = Server(folder.root.parents[1])
    ui = ["-m", "envknee.tracking", "--ui", "--config", "results/page/study.json", "--port", str(server.port)]
    server.command = [sys.executable, *ui]
    with server.running():
        wait_for(lambda: f"{server.uri}/#/experiments" in server.log.read_text())
        process = psutil.Process(server.process.pid)
        assert listening([process, *process.children(recursive=True)]) == {"127.0.0.1"}
        yield server.log.read_text().splitlines()
        assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def password(printed: list[str]) -> str:
    """The password, where the line before the last says."""
    words = re.fullmatch(r"Sign in as admin with the password in (/.*)", printed[-2])
    assert words is not None, printed
    return Path(words[1]).read_text().strip()


@pytest.fixture(scope="module")
def server(printed: list[str], password: str) -> Iterator[str]:
    """The address in the last line, for a browser that has signed in: through a proxy that does."""
    address = urllib.parse.urlsplit(printed[-1])
    sign_in = {"Authorization": "Basic " + base64.b64encode(f"admin:{password}".encode()).decode()}

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = http.client.HTTPConnection(address.netloc, timeout=60)
            connection.request(self.command, self.path, body, dict(self.headers.items()) | sign_in)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "content-length", "transfer-encoding", "date", "server"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with serving(Proxy) as proxy:
        yield address._replace(netloc=proxy.removeprefix("http://")).geturl()


def test_another_user_of_the_machine_gets_nothing(printed: list[str], folder: StudyFolder, tmp_path: Path) -> None:
    uri = printed[-1].partition("/#")[0]
    assert set(attack(uri, run_ids(folder)["trials/0000"], tmp_path).values()) == {401}
    assert len(run_ids(folder)) == 4


NAMES = "stock · 2,048 × 32 × 4,096 · seed 2", "stock · 2,048 × 32 × 4,096 · FPS · seed 1"
"""Of the learning trial, and of the larger throughput trial."""


def test_page_of_the_study_draws_its_learning_trials_at_once(server: str, tmp_path: Path) -> None:
    """The address that is printed: curves over environment steps and over seconds of training, of all learning trials."""
    awaited = (
        "Curves by arm and num_envs",
        "1 matching run",
        "Curves over environment steps",
        "reward_average",
        "fps_total",
    )
    page = words_of(server, tmp_path, *awaited)
    assert in_order(awaited, page)
    assert "Model training" in page and NAMES[0] in page and NAMES[1] not in page
    charts = page[page.index("Curves over environment steps") :]
    assert in_order(["reward_average", "Step", "reward_average", "wall_s", "fps_total", "Step"], charts)
    assert in_order(["Seconds to the target", "seconds_to_target"], charts)


def test_every_trial_is_a_line_over_the_sizes_with_its_cost_as_colour(server: str, tmp_path: Path) -> None:
    awaited = "Trials that reached the target", "All trials: memory and FPS", "Curves over environment steps"
    page = words_of(server.replace("=envknee", "=envknee-2"), tmp_path, *awaited)
    assert "4 matching runs" in page and all(name in page for name in NAMES)
    at_target, all_trials = page[page.index("Trials that reached") :].split("All trials: memory and FPS")
    sizes = ["num_envs", "horizon", "batch_size"]
    assert in_order([*sizes, "fps", "memory_gb", "seconds_to_target"], at_target)
    assert in_order([*sizes, "memory_gb", "fps"], all_trials)
    assert f"stock : {HEADLINE}" in page or f"stock: {HEADLINE}" in page  # the answer, above the runs


METRICS = [f"gpu_0_{name}" for name in ("memory_usage_megabytes", "power_usage_watts", "utilization_percentage")]


@pytest.mark.parametrize(
    ("key", "below", "awaited", "shown"),
    [
        ("trials/0002", "/system-metrics", [*METRICS, "process_cpu_percentage"], []),
        ("trials/0001", "", ["num_mini_batches"],
         [NAMES[1], "summary/fps_total_lower_quartile", "NVIDIA H100 80GB HBM3", "Finished"]),
        ("arms/stock", "", [HEADLINE],
         ["stock · 1,024 × 32 × 4,096 · FPS · seed 0", *NAMES,
          "3 of 3 trials have finished: 2 measured, 1 target reached.", "Best single trial: 0002"]),
    ],
    ids=["the load of a trial's own GPU", "a trial", "an arm"],
)  # fmt: skip
def test_pages_of_runs_show_what_was_logged(
    server: str, folder: StudyFolder, tmp_path: Path, key: str, below: str, awaited: list[str], shown: list[str]
) -> None:
    page = words_of(run_page(server, folder, key) + below, tmp_path, *awaited)
    assert in_order(awaited, page) and "gpu_1" not in page
    assert [words for words in shown if words not in page] == []


def test_figure_is_shown(server: str, folder: StudyFolder, tmp_path: Path) -> None:
    """The figure is plain red, and the page has nothing else that is."""
    screenshot = tmp_path / "figure.png"
    expected = pytest.approx(300 * 200 / (1600 * 2400), rel=0.05)
    for _ in looks():
        browse(run_page(server, folder, "arms/stock") + "/artifacts/figures/fps.svg", tmp_path, screenshot)
        if red_share(screenshot) == expected:
            break
    assert red_share(screenshot) == expected


def looks() -> Iterator[None]:
    """Allow one more look at a page, a second after the last one, until PATIENCE_S are over."""
    end_s = time.monotonic() + PATIENCE_S
    yield
    while time.monotonic() < end_s:
        time.sleep(1.0)
        yield


def words_of(address: str, where: Path, *awaited: str) -> str:
    """Return the words of a page as soon as it shows these one after the other, or of its last look."""
    page = ""
    for _ in looks():
        page = " ".join(re.sub(r"<[^>]*>", " ", browse(address, where)).split())  # without tags
        if in_order(awaited, page):
            break
    return page


def in_order(words: Sequence[str], page: str) -> bool:
    return re.search(".*?".join(map(re.escape, words)), page) is not None


def red_share(screenshot: Path) -> float:
    from matplotlib.image import imread

    pixels = imread(str(screenshot))[..., :3]
    return float(((pixels[..., 0] > 0.99) & (pixels[..., 1] < 0.01) & (pixels[..., 2] < 0.01)).mean())


def run_page(server: str, folder: StudyFolder, key: str) -> str:
    return f"{server.partition('/runs')[0]}/runs/{run_ids(folder)[key]}"


def run_ids(folder: StudyFolder) -> dict[str, str]:
    return {run.data.tags["envknee.key"]: run.info.run_id for run in stored_runs(folder, name="page")}
