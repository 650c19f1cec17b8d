"""A joint study whose true costs are known: a valley over num_envs, horizon and batch size."""

import math
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
from records import GPU, Trial

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
