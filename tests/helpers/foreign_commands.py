"""Programs that know nothing of envknee: how a study names the fake one, and what is measured of it."""

import json
import sys
from pathlib import Path
from typing import Any

from envknee.ask import ask
from envknee.base.point import Point
from envknee.record.read import load_records
from envknee.record.schema import Record, Request
from envknee.run import launch as launcher
from envknee.study.files import canonical_json, write_atomically
from envknee.study.load import parse_study
from envknee.study.paths import StudyFolder, TrialFolder
from envknee.study.space import Slot
from places import PROGRAMS

FAKE = PROGRAMS / "fake_trainer.py"
TAGS = {
    "fps": "Perf/total_fps",
    "collect_s": ["Perf/collection_time", "Perf/collection time"],
    "learn_s": "Perf/learning_time",
    "reward": "Train/mean_reward",
}

FIELDS = {"fps": "fps", "collect_s": "collect", "learn_s": "learn", "reward": "reward"}

IN_JSON = {name: f"train/{field}" for name, field in FIELDS.items()}

ROWS: dict[str, dict[str, Any]] = {
    "tensorboard": {"source": "tensorboard", "step": "iterations", "names": TAGS, "losses": {"value": "Loss/value"}},
    "jsonl": {
        "source": "jsonl", "path": "log.jsonl", "step": "frames", "time_name": "time", "names": IN_JSON,
        "losses": {"value": "train/value"},
    },
    "csv": {
        "source": "csv", "path": "log.csv", "step": "iterations", "time_name": "time", "names": FIELDS,
        "losses": {"value": "value"},
    },
    "print": {
        "source": "regex", "step": "iterations", "losses": {"value": "value"},
        "patterns": [
            r"iteration (?P<step>\d+)/\d+: (?P<fps>[\d,.]+) steps",
            r"mean reward (?P<reward>\S+), value loss (?P<value>\S+)",
        ],
    },
}  # fmt: skip


def an_arm(log: str = "jsonl", breaks: str = "", **command: Any) -> dict[str, Any]:
    argv = [
        sys.executable, str(FAKE), "--envs", "{num_envs}", "--steps", "{horizon}", "--iterations", "{iterations}",
        "--log", log, "--breaks", breaks,
    ]  # fmt: skip
    return {"trainer": "command", "gpus": 0, "command": {"argv": argv, "rows": ROWS[log]} | command}


def a_request(arm: dict[str, Any], kind: Any = "throughput", **changes: Any) -> Request:
    throughput = {"num_envs": [8, 16, 32, 64], "horizon": 4, "batch_size": "library", "iterations": 4}
    learning = {"num_envs": [8], "horizon": 4, "batch_size": "library", "target_reward": 3, "budget_s": 60}
    sweep, num_envs = (throughput, 64) if kind == "throughput" else (learning, 8)
    study = parse_study({"study": "demo", "arms": {"fake": arm}, kind: sweep})
    request = ask.request_for(study, Slot(0, "fake", kind, 0), Point(num_envs, 4, None), None)
    return request.model_copy(update=changes)


def measured(folder: Path, request: Request) -> tuple[Record, TrialFolder]:
    trial = TrialFolder(folder / "trials" / "0000")
    trial.root.mkdir(parents=True)
    write_atomically(trial.request, canonical_json(request))
    return launcher.launch(trial), trial


FAKE_PRESET = """\
about: a program of the tests
install: none
tested: here
example: [x]
horizon: 4
arguments: [--envs, "{num_envs}", --steps, "{horizon}", --iterations, "{iterations}", --breaks, oom-above-32]
env: {SEED: "{seed}"}
rows: {source: jsonl, path: log.jsonl, step: frames, time_name: time, names: {fps: train/fps, reward: train/reward}}
"""

CLIMBING_PRESET = FAKE_PRESET.replace(", --breaks, oom-above-32", "").replace('env: {SEED: "{seed}"}\n', "")

KNEE = ["knee", "--gpus", "0"]


def assert_whole(folder: StudyFolder, output: str, statuses: list[str]) -> None:
    records = load_records(folder)
    assert sorted(record.outcome.status for record in records) == sorted(statuses), output
    verdict = json.loads(folder.verdict.read_text(encoding="utf-8"))
    assert verdict["arms"][0]["headline"] is not None and verdict["arms"][0]["throughput"][0]["points"]
    assert folder.report.exists() and json.loads(folder.published.read_text(encoding="utf-8"))["content_sha256"]
    assert "report.html" in output and "FPS" in output
    assert not (folder.figures / "phases.svg").exists(), "a foreign command has no phases"
