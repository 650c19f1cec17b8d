"""Real trials of the camera cart-pole, small enough for seconds on a CPU."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import records
from environment import ENVIRONMENT
from envknee.record.schema import Request
from envknee.study.files import canonical_json, write_atomically
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import TrialFolder


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


def has_rows(trial: TrialFolder) -> bool:
    """Tell whether a trial that runs has written its first row."""
    return trial.metrics.exists() and trial.metrics.stat().st_size > 0


def started_launcher(trial: TrialFolder, **variables: str) -> "subprocess.Popen[bytes]":
    """Start the launcher of a trial in a session of its own, with more environment variables."""
    command = [sys.executable, "-m", "envknee.run.launch", str(trial.root)]
    return subprocess.Popen(command, env=ENVIRONMENT | variables, start_new_session=True)
