"""docs/this-machine.md: how long the default study takes, and how often it decides."""

from collections.abc import Sequence
from itertools import groupby
from statistics import median
from typing import Any

from envknee.verdict.schema.joint import Setting
from envknee.words.joint_costs import short_setting

from benchmarks.pages.cells import table
from benchmarks.pages.published import json_of

FILE = "default-study-cpu"
LOADS = {0: "idle", 1: "one core busy"}

Row = dict[str, Any]
"""What `benchmarks.default_study` writes about a run."""


def runs() -> dict[int, Sequence[Row]]:
    """Return by the number of busy cores the runs that were measured beside them, in the order of their seeds."""
    rows: list[Row] = sorted(json_of(FILE), key=lambda row: (row["busy_cores"], row["seed"]))
    return {busy_cores: list(own) for busy_cores, own in groupby(rows, key=lambda row: row["busy_cores"])}


def minutes(seconds: float) -> str:
    """Return seconds as minutes and seconds: `5:28`."""
    whole = round(seconds)
    return f"{whole // 60}:{whole % 60:02d}"


def summary() -> str:
    """Return for each load how many runs decided, and their times."""
    rows = []
    for busy_cores, own in runs().items():
        seconds = [row["seconds"] for row in own]
        decided = sum(row["is_decided"] for row in own)
        spread = f"{minutes(min(seconds))} to {minutes(max(seconds))}"
        rows.append((LOADS[busy_cores], f"{decided} of {len(own)}", minutes(median(seconds)), spread))
    return table(("load", "decided", "minutes (median)", "from the shortest to the longest"), rows)


def each_run() -> str:
    """Return a row for each run: its time and its answers."""
    rows = []
    for busy_cores, own in runs().items():
        for row in own:
            others = "not known" if row["cores_of_others"] is None else f"{row['cores_of_others']:.1f}"
            answers = (fps_answer(row), learning_answer(row))
            rows.append((LOADS[busy_cores], str(row["seed"]), others, minutes(row["seconds"]), *answers))
    answers = ("FPS: threshold of num_envs", "learning: soonest setting; how many may be as soon")
    return table(("load", "seed", "cores of others, at most", "minutes", *answers), rows)


def fps_answer(row: Row) -> str:
    """Return the threshold of num_envs for FPS: `512`, or its state without one: `still pays` or `undecided`."""
    return row["fps_state"] if row["fps_threshold"] is None else f"{row['fps_threshold']:,}"


def learning_answer(row: Row) -> str:
    """Return the soonest setting with its seconds and the number of settings that may be as soon."""
    if row["soonest"] is None:
        return "none"
    seconds, lower, upper = row["soonest_s"]
    num_envs, horizon, batch_size = row["soonest"]
    setting = short_setting(Setting(num_envs=num_envs, horizon=horizon, batch_size=batch_size))
    interval = "no interval" if lower is None else f"{lower:.1f} to {upper:.1f}"
    return f"{setting}: {seconds:.1f} s ({interval}), {row['not_shown_slower']}"


def minutes_of(busy_cores: int) -> str:
    """Return the shortest and the longest time, each in the nearest whole minutes: `5 to 6`."""
    seconds = [row["seconds"] for row in runs()[busy_cores]]
    ends = sorted({round(min(seconds) / 60.0), round(max(seconds) / 60.0)})
    return " to ".join(map(str, ends))


def hardware() -> str:
    """Return what the runs were measured on: the CPU, the versions and the commit, which all share."""
    shared = {
        (row["cpu"], row["commit"][:8], row["versions"]["torch"], row["versions"]["isaaclab"])
        for own in runs().values()
        for row in own
    }
    ((cpu, commit, torch, isaaclab),) = shared
    return f"{cpu}, two cores; Isaac Lab {isaaclab}, torch {torch}; commit {commit}"


BLOCKS = {
    "default-study": summary,
    "default-study-runs": each_run,
    "default-study-idle": lambda: minutes_of(0),
    "default-study-busy": lambda: minutes_of(1),
    "default-study-hardware": hardware,
}
