"""Studies that are asked in turn: each request is answered by a trial that a test makes up."""

import hashlib
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from envknee.ask.ask import ask
from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.schema import Record, Request
from envknee.study import space
from envknee.study.files import canonical_json
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.value_types import ASK_VERSION
from places import ROOT
from records import Trial, a_trial
from study_data import changed

ENVIRONMENT = os.environ | {"PYTHONPATH": f"{ROOT / 'workflow'}{os.pathsep}{ROOT / 'tests/helpers'}"}
"""Variables of a process that imports envknee and these helpers."""

Measure = Callable[[Request], Trial]


def a_study(**changes: Any) -> Study:
    """Return a study of one throughput sweep; `throughput__points=3` sets a key below a section."""
    sweep = {"num_envs": [16, 32, 64, 128], "horizon": [8, 16], "batch_size": [128, 256, 512], "repeats": 2}
    return parse_study(changed({"study": "s", "ask_version": ASK_VERSION, "throughput": sweep}, changes))


def learning_section(**changes: Any) -> dict[str, Any]:
    points = {"num_envs": [16, 32, 64], "horizon": [8, 16, 32], "batch_size": [128, 256], "points": 8}
    return points | {"sampler": "tpe", "repeats": 2, "target_reward": 4.0, "budget_s": 60} | changes


def measured(request: Request, **fields: Any) -> Trial:
    """Return a trial of exactly this request, skipped if that says why none is needed."""
    fields |= {"status": "skipped"} if request.skip else {}
    trial = a_trial(
        request.num_envs, number=request.number, kind=request.kind, arm=request.arm, repeat=request.repeat,
        horizon=request.horizon, batch_size=request.batch_size, budget_s=request.budget_s or 60.0,
        target_reward=4.0 if request.target_reward is None else request.target_reward, **fields,
    )  # fmt: skip
    return replace(trial, request=request)


def dice(*key: object) -> random.Random:
    return random.Random(repr(key))  # noqa: S311  # a test's noise


def any_outcome(request: Request) -> Trial:
    """Return a trial that ends in some way that its point alone decides: many of them badly."""
    throw = dice(request.num_envs, request.horizon, request.batch_size, request.arm)
    status = throw.choice([None, None, None, "oom", "nan", "diverged", "timeout"])
    if request.refusal is not None:
        status = "refused"
    seconds = throw.uniform(5, 59) if request.kind == "learning" and status is None else None
    fps, memory_gb = throw.uniform(1e2, 1e4), throw.uniform(1, 30)
    return measured(request, status=status, fps=fps, memory_gb=memory_gb, seconds=seconds)


def play(
    study: Study, measure: Measure = any_outcome, until: int | None = None
) -> tuple[list[Request], dict[int, Record]]:
    """Ask and measure every trial of a study in turn; every record exists at once, as on an idle cluster."""
    requests, known = list[Request](), dict[int, Record]()
    for number in range(len(space.plan(study)) if until is None else until):
        requests.append(ask(study, number, requests, known))
        known[number] = measure(requests[-1]).record
    return requests, known


def block(requests: Sequence[Request], arm: str, kind: Kind, repeat: int = 0) -> list[Point]:
    return [r.point for r in requests if (r.arm, r.kind, r.repeat) == (arm, kind, repeat)]


def replay_study(sampler: str) -> Study:
    arms = {"stock": {}, "lean": {"overrides": {"env.b": 1, "env.a": 2.5}}} if sampler == "tpe" else {"stock": {}}
    section = learning_section(sampler=sampler, points=8, repeats=1, batch_size=[128, 256, 512])
    return a_study(throughput=None, learning=section, arms=arms, window=2, seed=9)


def digest(study: Study) -> str:
    return hashlib.sha256("".join(map(canonical_json, play(study)[0])).encode()).hexdigest()
