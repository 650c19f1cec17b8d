"""How long the report of many trials takes to write and to open, in a real browser. Anyone can run it; docs/scaling.md has figures.

    python benchmarks/bench_report.py                    512 trials
    python benchmarks/bench_report.py --keep FOLDER      and leave the study there, to look at its report

Trials are made up, as in bench_scaling.py: half of them throughput trials of 4 points, half learning trials of 8.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/helpers"), str(ROOT / "workflow")]

from bench_scaling import SIZES, fps_of, made_up, timed
from envknee.record.schema import Request
from envknee.study.files import canonical_json
from envknee.study.load import parse_study
from envknee.study.model import Study
from records import GPU, Trial, a_trial, write_study
from workspaces import Workspace

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

FRAME = """<!DOCTYPE html><html><body><iframe width="1280" height="900"></iframe><output></output><script>
const frame = document.querySelector("iframe"), began = performance.now();
frame.onload = () => {
  frame.offsetHeight;
  document.querySelector("output").textContent = "opened in " + (performance.now() - began) + " ms";
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
    return parse_study({"study": "bench", "window": 8, "throughput": throughput, "learning": learning})


def measured(request: Request) -> Trial:
    """Return what a trial gave; one in ten learning trials spends its budget first."""
    seconds = 20.0 * (1 + request.number % 7 / 100) * (1 + (request.batch_size or 0) / 512)
    return a_trial(
        request.num_envs, number=request.number, kind=request.kind, horizon=request.horizon, batch_size=request.batch_size,
        fps=fps_of(request), seconds=seconds if request.number % 10 else None, device=GPU, memory_gb=0.1 * request.num_envs,
    )  # fmt: skip


def opened_s(report: Path, folder: Path) -> float:
    """Return the seconds from asking for the page to its load event, all figures decoded and laid out, in headless Chromium."""
    if CHROMIUM is None:
        raise SystemExit("no Chromium on PATH: `apt-get install chromium`")
    frame = folder / "frame.html"
    frame.write_text(FRAME % report.resolve().as_uri(), encoding="utf-8")
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run",
        "--allow-file-access-from-files", f"--user-data-dir={folder / 'chromium'}", "--timeout=60000", "--dump-dom", frame.as_uri(),
    ]  # fmt: skip
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    match = re.search(r"opened in ([\d.]+) ms", page)
    if match is None:
        raise SystemExit(f"Chromium did not open {report}")
    return float(match[1]) / 1000


def main() -> None:
    """Print how long a report takes to write and to open."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--trials", type=int, default=512, help="a multiple of 16 (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="an empty folder for the study")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = given.keep or Path(name)
        workspace = Workspace(folder)
        study = a_study(given.trials)
        results = write_study(workspace.results("bench").root, study, made_up(study, given.trials, measured))
        keys = [f"trials/{number:04d}" for number in range(given.trials)]
        digests = dict.fromkeys(keys, "0" * 64)
        published = {"tracking_uri": "http://127.0.0.1:5000", "experiment_id": "1", "content_sha256": digests}
        results.published.write_text(canonical_json(published), encoding="utf-8")
        for stage in ("verdict", "figures", "report"):
            seconds = timed(workspace.module, stage, str(results.root))
            print(f"{stage}: {seconds:.1f} s", flush=True)
        size_mb = results.report.stat().st_size / 1e6
        began = time.perf_counter()
        opened = sorted(opened_s(results.report, Path(name)) for _ in range(3))
        whole_s = (time.perf_counter() - began) / 3
        print(
            f"{given.trials} trials, {size_mb:.1f} MB: opens in {opened[1]:.2f} s ({opened[0]:.2f} to {opened[2]:.2f});"
            f" {whole_s:.1f} s with the browser's own start and end"
        )


if __name__ == "__main__":
    main()
