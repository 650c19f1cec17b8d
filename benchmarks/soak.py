"""A long sweep of a program that takes 40 ms, with kills: does memory grow, and does MLflow have every run?

    python -m envknee drill --soak 2000 --kills 20

Input: how many trials, and how many kills among them. Output: counts, and memory by process; exit status 1 unless nothing was lost, doubled
or left behind and MLflow holds each trial once. Each trial has processes of its own: foreign commands share no block.
"""

import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from envknee.study.paths import StudyFolder
from envknee.tracking.writing import TAG_CONTENT, TAG_KEY

PROGRAM = Path(__file__).with_name("soaked_trainer.py")
WATCHED = ("Snakemake", "the launcher")
LOOKS_S = 5.0
"""A look reads 2,000 outcomes, and takes 0.2 s of a core that the sweep needs, too."""
COUNTS_S = 0.5
"""How often the records are counted, which is cheap: five trials can end within a second, and a kill may not come after the last."""

DEVICES = 2
"""Trials that are started at once. They take turns on the CPU all the same: the next one starts its launcher meanwhile."""
SETTLED = 0.1
"""Share of a process's samples at its start that its growth leaves out: it still reads its files."""


class Sample(NamedTuple):
    """A process's memory when so many trials had been recorded."""

    kind: str
    process: int
    recorded: int
    rss_mb: float


def study_of(trials: int) -> dict[str, Any]:
    """Return a study of `trials` repeats of one point."""
    names = {"fps": "fps", "collect_s": "collect", "learn_s": "learn", "reward": "reward"}
    command = {
        "argv": [sys.executable, str(PROGRAM), "{iterations}"],
        "rows": {"source": "jsonl", "path": "log.jsonl", "step": "iterations", "time_name": "time", "names": names},
    }
    return {
        "study": "drill",
        "arms": {"program": {"trainer": "command", "gpus": 0, "command": command}},
        "throughput": {"num_envs": [2], "horizon": 4, "batch_size": "library", "repeats": trials, "iterations": 3}
        | {"wait_for_others": False},  # what is measured counts for nothing here
    }


def samples_of(kinds: dict[str, list[psutil.Process]], recorded: int) -> list[Sample]:
    """Return the memory of the processes that are watched."""
    samples = []
    for kind in WATCHED:
        for process in kinds.get(kind, []):
            with suppress(psutil.Error):
                samples.append(Sample(kind, process.pid, recorded, process.memory_info().rss / 1e6))
    return samples


def growth_mb(samples: Sequence[Sample]) -> float | None:
    """Return how many MB one process grows in 1,000 trials, by least squares; None with too few samples. Pure."""
    begun = [sample for sample in samples if sample.recorded > samples[0].recorded]
    settled = begun[round(SETTLED * len(begun)) :]
    if len({sample.recorded for sample in settled}) < 3:
        return None
    line = statistics.linear_regression([sample.recorded for sample in settled], [sample.rss_mb for sample in settled])
    return 1000 * line.slope


def memory_lines(samples: Sequence[Sample]) -> list[str]:
    """Return a sentence for each kind of process. Snakemake lives long; a launcher lives for one trial. Pure."""
    lines = []
    by_process: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.kind == "Snakemake":
            by_process.setdefault(sample.process, []).append(sample)
    if by_process:
        longest = max(by_process.values(), key=lambda own: own[-1].recorded - own[0].recorded)
        grows = growth_mb(longest)
        how = "too few samples for a slope" if grows is None else f"{grows:+.1f} MB per 1,000 trials"
        most_mb = max(sample.rss_mb for own in by_process.values() for sample in own)
        lines.append(
            f"Snakemake: {longest[0].rss_mb:.0f} MB at trial {longest[0].recorded}, {longest[-1].rss_mb:.0f} MB at trial"
            f" {longest[-1].recorded}, {how}; {most_mb:.0f} MB at most"
        )
    launchers = [sample for sample in samples if sample.kind == "the launcher"]
    fifth = len(launchers) // 5
    if fifth:
        first, last = (
            statistics.median(sample.rss_mb for sample in part) for part in (launchers[:fifth], launchers[-fifth:])
        )
        lines.append(f"launchers: median {first:.0f} MB in the first fifth, {last:.0f} MB in the last")
    return lines


def soak(drill: Any, kills: int, say: Any) -> list[Sample]:
    """Sweep until each trial is recorded; kill a process whenever another share of the trials is. Return samples of memory."""
    planned, samples, done = len(drill.planned()), list[Sample](), 0
    sweep = drill.start()
    looks_at_s = time.monotonic() + LOOKS_S
    while True:
        time.sleep(COUNTS_S)
        recorded = planned - drill.lost()
        if time.monotonic() >= looks_at_s:
            looks_at_s = time.monotonic() + LOOKS_S
            drill.look()
            samples += samples_of(drill.kinds(), recorded)
        if sweep.poll() is not None:
            if recorded == planned:
                return samples
            say(f"the sweep starts again at trial {recorded} of {planned}")
            sweep = drill.start()
        elif done < kills and recorded >= (done + 1) * planned / (kills + 1) and (kind := drill.kill_one(at_once=True)):
            done += 1
            say(f"kill {done} of {kills} at trial {recorded}: {kind}")


def published(folder: StudyFolder) -> int:
    """Return how many trials MLflow holds, complete. A trial that it has twice counts as -1, or it would hide one that is missing."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder.root.parent}/mlflow.db")
    experiment = client.get_experiment_by_name(folder.root.name)
    if experiment is None:
        return 0
    keys, token = list[str](), None
    while True:
        page = client.search_runs([experiment.experiment_id], max_results=1000, page_token=token)
        keys += [run.data.tags[TAG_KEY] for run in page if TAG_CONTENT in run.data.tags]
        token = page.token
        if not token:
            break
    trials = [key for key in keys if key.startswith("trials/")]
    return len(trials) if len(trials) == len(set(trials)) else -1
