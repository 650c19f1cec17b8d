"""How long the report of many trials takes to write, to open and to use, in a real browser. Anyone can run it; docs/scaling.md has figures.

    python benchmarks/bench_report.py                    512 trials
    python benchmarks/bench_report.py --trials 10000
    python benchmarks/bench_report.py --keep FOLDER      and leave the study there, to look at its report

Trials are made up, as in bench_scaling.py: half of them throughput trials of 4 points, half learning trials of 8.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/helpers"), str(ROOT / "workflow")]

from bench_scaling import SIZES, timed
from envknee.study.files import canonical_json
from envknee.study.load import parse_study
from envknee.study.model import Study
from records import GPU, Trial, a_trial, write_study
from workspaces import Workspace

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

FRAME = """<!DOCTYPE html><html><body><iframe width="1280" height="900"></iframe><output></output><script>
const frame = document.querySelector("iframe"), began = performance.now(), took = {};
const timed = (name, act) => {
  const start = performance.now();
  act();
  frame.contentDocument.body.offsetHeight; // laid out, too
  took[name] = performance.now() - start;
};
frame.onload = () => {
  frame.offsetHeight;
  took.open = performance.now() - began;
  const page = frame.contentWindow, shown = page.document;
  timed("draw all charts", () => {
    while (shown.querySelector(".chart[hidden]")) page.startNext();
    shown.querySelectorAll(".panel").forEach((panel) => page.echarts.getInstanceByDom(panel).getZr().flush());
  });
  timed("open the table", () => { shown.getElementById("all-trials").open = true; });
  timed("sort it", () => shown.querySelectorAll(".trials thead button")[8].click());
  timed("filter it", () => {
    const words = shown.getElementById("filter");
    words.value = "learning 128 stock";
    words.dispatchEvent(new Event("input"));
  });
  document.querySelector("output").textContent = JSON.stringify(took);
};
frame.src = "%s";
</script></body></html>
"""


def a_study(trials: int) -> Study:
    """Return a study of so many trials, a multiple of 16."""
    batches = [128, 256]
    throughput = {"num_envs": SIZES, "horizon": 8, "batch_size": 128, "repeats": trials // 8, "iterations": 3}
    learning = throughput | {
        "horizon": 32, "batch_size": batches, "repeats": trials // 16, "target_reward": 4, "target_episodes": 10, "budget_s": 60,
    }  # fmt: skip
    del learning["iterations"]
    return parse_study({"study": "demo", "window": 8, "throughput": throughput, "learning": learning})


def every_trial(trials: int) -> list[Trial]:
    """Return so many trials: throughput trials, then learning trials, of which one in ten spends its budget first."""
    half = trials // 2
    timed = [
        a_trial(
            SIZES[n % 4], number=n, repeat=n // 4, fps=_fps(SIZES[n % 4], n), device=GPU, memory_gb=0.1 * SIZES[n % 4]
        )
        for n in range(half)
    ]
    points = [(size, batch) for size in SIZES for batch in (128, 256)]
    learned = []
    for n in range(trials - half):
        size, batch = points[n % len(points)]
        seconds = 20.0 * (1 + n % 7 / 100) * (1 + batch / 512)
        learned.append(
            a_trial(
                size, number=half + n, kind="learning", horizon=32, batch_size=batch, repeat=n // len(points), device=GPU,
                fps=_fps(size, n), seconds=seconds if n % 10 else None, memory_gb=0.1 * size,
            )
        )  # fmt: skip
    return [*timed, *learned]


def _fps(num_envs: int, number: int) -> float:
    """Return made-up FPS that saturate, with some noise."""
    return 10_000.0 * num_envs / (num_envs + 64) * (1 + number % 7 / 100)


def took_ms(report: Path, folder: Path) -> dict[str, float]:
    """Return the milliseconds from asking for the page to its load event, and those of each act of a reader, in headless Chromium."""
    if CHROMIUM is None:
        raise SystemExit("no Chromium on PATH: `apt-get install chromium`")
    frame = folder / "frame.html"
    frame.write_text(FRAME % report.resolve().as_uri(), encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        "--allow-file-access-from-files", f"--user-data-dir={folder / 'chromium'}", "--timeout=60000", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    match = re.search(r"<output>({.*?})</output>", page)
    if match is None:
        raise SystemExit(f"Chromium did not open {report}")
    return json.loads(match[1])


def main() -> None:
    """Print how long a report takes to write, to open and to use."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--trials", type=int, default=512, help="a multiple of 16 (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="an empty folder for the study")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name)
        workspace = Workspace(folder)
        study = a_study(given.trials)
        results = write_study(workspace.results("demo").root, study, every_trial(given.trials))
        keys = [f"trials/{number:04d}" for number in range(given.trials)]
        digests = dict.fromkeys(keys, "0" * 64)
        published = {"tracking_uri": "http://127.0.0.1:5000", "experiment_id": "1", "content_sha256": digests}
        results.published.write_text(canonical_json(published), encoding="utf-8")
        for stage in ("verdict", "figures", "report"):
            seconds = timed(workspace.module, stage, str(results.root))
            print(f"{stage}: {seconds:.1f} s", flush=True)
        size_mb = results.report.stat().st_size / 1e6
        took = [took_ms(results.report, Path(name)) for _ in range(3)]
        print(f"{given.trials:,} trials, {size_mb:.1f} MB")
        for act in took[0]:
            least, middle, most = sorted(own[act] for own in took)
            print(f"{act}: {middle:,.0f} ms ({least:,.0f} to {most:,.0f})")


if __name__ == "__main__":
    main()
