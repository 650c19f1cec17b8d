"""A joint study whose true costs are known: a valley over num_envs, horizon and batch size."""

import csv
import math
from dataclasses import replace
from typing import Any

from asked import dice, measured
from envknee.ask.ask import ask
from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.schema import Record, Request
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.space import plan
from envknee.study.value_types import ASK_VERSION
from joint_data import PATH
from records import GPU, Trial, a_trial

AXES: dict[str, Any] = {
    "num_envs": {"from": 128, "to": 2048},
    "horizon": {"from": 8, "to": 64},
    "batch_size": {"from": 512, "to": 16384},
}


def a_study(kind: Kind = "learning", window: int = 1, arms: Any = None, **changes: Any) -> Study:
    target = {"target_reward": 4.0, "target_episodes": 10, "budget_s": 30.0} if kind == "learning" else {}
    section = AXES | {"sampler": "profile", "trials": 40} | target | changes
    return parse_study(
        {"study": "s", "ask_version": ASK_VERSION, "window": window, "arms": arms or {"stock": {}}, kind: section}
    )


def log_seconds(point: Point) -> float:
    """Return the true ln seconds of a valley: 8 to 16 mini-batches are best, and few environments cost time."""
    steps = math.log2(point.rollout / (point.batch_size or 1))
    envs = math.log2(point.num_envs)
    return 1.8 + 0.06 * (steps - 3.5) ** 2 + 0.05 * (envs - 9.5) ** 2 + 0.03 * (math.log2(point.horizon) - 4.5) ** 2


def learned(request: Request, noise: float = 0.25, budget_s: float = 30.0) -> Trial:
    seconds = math.exp(log_seconds(request.point) + noise * dice(request.seed).gauss(0, 1))
    return measured(request, seconds=seconds if seconds < budget_s else None, device=GPU)


def timed(request: Request) -> Trial:
    """Return a throughput trial whose FPS are one over the valley's cost, with the noise of FPS."""
    fps = 1e5 * math.exp(-log_seconds(request.point) + 0.02 * dice(request.seed).gauss(0, 1))
    return measured(request, fps=fps, device=GPU)


def measured_trials(study: Study) -> list[Trial]:
    """Return every trial of a learning study, each asked for with the results of those before."""
    requests, trials, known = list[Request](), list[Trial](), dict[int, Record]()
    for number in range(len(plan(study))):
        requests.append(ask(study, number, requests, known))
        trials.append(learned(requests[-1]))
        known[number] = trials[-1].record
    return trials


def replay_study() -> Study:
    return a_study(trials=8, window=2, num_envs=[256, 512])


def handed_study(*arms: str) -> Study:
    target = {"target_reward": 4.5, "target_episodes": 10, "budget_s": 25.0}
    section = AXES | target | {"sampler": "profile", "trials": 64, "confirm": {"settings": 18, "seeds": 4}}
    return parse_study(
        {"study": "s", "ask_version": ASK_VERSION, "arms": {arm: {} for arm in arms}, "learning": section}
    )


def handed_trials(arm: str, first: int = 0) -> list[Trial]:
    """Return the handed data as trials of an arm: 64 of the search, then fresh seeds."""
    with PATH.open(encoding="utf-8") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: row["stage"] == "fresh")
    trials, rounds = [], dict[Any, int]()
    for number, row in enumerate(rows, first):
        trial = a_trial(
            int(row["num_envs"]), number=number, kind="learning", arm=arm, horizon=int(row["horizon"]), device=GPU,
            batch_size=int(row["batch_size"]), budget_s=25.0, target_reward=4.5,
            seconds=float(row["seconds"]) if row["reached"] == "1" else None,
        )  # fmt: skip
        confirms, point = row["stage"] == "fresh", trial.request.point
        rounds[point, confirms] = rounds.get((point, confirms), -1) + 1
        repeat = rounds[point, confirms] + (64 if confirms else 0)
        trials.append(replace(trial, request=trial.request.model_copy(update={"confirms": confirms, "repeat": repeat})))
    return trials
