"""A study of two arms whose true costs are known: stock is ten times slower than lean, and should need as many environment steps."""

import math
from typing import Any

from asked import dice, measured
from envknee.base.point import Point
from envknee.record.schema import Request
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.value_types import ASK_VERSION
from joint_study import log_seconds
from records import GPU, Trial
from study_data import changed

FAST, SLOW = "lean", "stock"

SMALL: dict[str, Any] = {"num_envs": [128, 256, 512, 1024], "horizon": [16, 32], "batch_size": [512, 1024, 2048]}
"""24 legal settings."""


def transfer_data(**changes: Any) -> dict[str, Any]:
    """Return its study file as data; `learning__trials=8` sets a key below a section."""
    whole = {
        "study": "s", "ask_version": ASK_VERSION, "window": 2,
        "arms": {FAST: {"observations": "lean"}, SLOW: {"learns_like": FAST}},
        "throughput": SMALL | {"sampler": "profile", "trials": 8},
        "learning": SMALL | {
            "sampler": "profile", "trials": 14, "confirm": {"settings": 4, "seeds": 4}, "target_reward": 4.0, "target_episodes": 10,
            "budget_s": 500.0,
        },
    }  # fmt: skip
    return changed(whole, changes)


def transfer_study(**changes: Any) -> Study:
    return parse_study(transfer_data(**changes))


def fps_of(arm: str, point: Point) -> float:
    """Return true FPS: those of stock saturate soon."""
    most, half = {FAST: (400e3, 500), SLOW: (30e3, 60)}[arm]
    return most * point.num_envs / (point.num_envs + half)


def frames_of(point: Point) -> float:
    """Return lean's true environment steps to the target: its seconds are those of the valley of `joint_study`."""
    return math.exp(log_seconds(point)) * fps_of(FAST, point)


def trial(request: Request, ratio: float = 1.0, noise: float = 0.12) -> Trial:
    """Return a trial; stock needs `ratio` times lean's environment steps."""
    throw, fps = dice(request.seed, request.arm, request.number), fps_of(request.arm, request.point)
    if request.skip is not None or request.kind == "throughput":
        return measured(request, fps=fps * math.exp(0.01 * throw.gauss(0, 1)), device=GPU)
    times = ratio if request.arm == SLOW else 1.0
    frames = times * frames_of(request.point) * math.exp(noise * throw.gauss(0, 1))
    seconds, budget_s = frames / fps, request.budget_s or math.inf
    if seconds > budget_s:
        return measured(request, seconds=None, frames=int(budget_s * fps), device=GPU)
    return measured(request, seconds=seconds, frames=int(frames), device=GPU)
