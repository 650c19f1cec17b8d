"""Findings that several pages name: how many environments to run on an H200, and what a doubling brings there."""

import io
import re
from typing import Any, NamedTuple

from envknee.decide.read import load_study
from envknee.run.card import study_card
from envknee.show.terminal import print_answer
from envknee.verdict.schema.comparison import Ratio
from envknee.verdict.schema.learning import LearningLimit, LearningPoint, best_of
from envknee.verdict.schema.limit import Gain
from envknee.verdict.schema.study import Headline
from rich.console import Console

from benchmarks.pages.published import (
    PUBLISHED,
    arm_of,
    fps_ratio,
    gain_from,
    json_of,
    learning_point,
    median_fps,
    records_of,
    target_of,
    throughput_of,
    verdict_of,
)
from benchmarks.second_task import fps_ratio_of, pairs_of
from benchmarks.two_versions import Agreement

H200 = "cartpole-stock-lean-h200"
"""The study of FPS on H200s, with Isaac Lab's frames and with lean ones on Warp's frontend."""
LEARNING = "cartpole-one-gpu-learning"
"""The study of learning on H200s."""
WARP_LEARNING = "cartpole-stock-lean-warp-learning"
SAME_GPU = "cartpole-stock-lean-warp"
OPPONENTS = "cartpole-opponents"
"""The study of Isaac Lab's frames at their best."""
SECOND_TASK_SIZE = 1024


class Soonest(NamedTuple):
    """The size that learns soonest, with its limit and what doubling it costs."""

    limit: LearningLimit
    point: LearningPoint
    gain: Gain
    seconds: float
    reward: float

    @property
    def longer(self) -> str:
        """How much longer twice the size takes."""
        return f"{-self.gain.gain:.0%}"


def soonest() -> Soonest:
    """Return what learns soonest on an H200."""
    found = best_of(verdict_of(LEARNING).arms[0].learning)
    assert found is not None
    limit, point = found
    cost = point.seconds_to_target
    assert cost is not None
    return Soonest(limit, point, gain_from(limit, point.num_envs), cost.value, target_of(LEARNING))


def seconds_at(horizon: int, num_envs: int) -> float:
    """Return the seconds to the target on an H200 at another horizon."""
    limits = verdict_of(LEARNING).arms[0].learning
    cost = next(learning_point(own, num_envs) for own in limits if own.horizon == horizon).seconds_to_target
    assert cost is not None
    return cost.value


def fps_growth() -> str:
    """Return by how much FPS grow where twice the soonest size learns later."""
    found = soonest()
    size, arm, horizon = found.point.num_envs, verdict_of(LEARNING).arms[0].arm, found.limit.horizon
    few, many = (median_fps(LEARNING, arm, num_envs, horizon, "learning") for num_envs in (size, 2 * size))
    return f"{many / few - 1:.0%}"


def most_fps(arm: str) -> tuple[Headline, Gain]:
    """Return the size that an arm of the H200 study is advised to run for FPS, and the gain of doubling it."""
    head = arm_of(H200, arm).headline
    assert head is not None
    return head, gain_from(throughput_of(H200, arm, head.horizon), head.num_envs)


def lean_times() -> str:
    """Return how many times as many FPS lean frames and Warp's frontend have at the advised size: `9.6`."""
    head, _ = most_fps("lean-warp")
    return f"{fps_ratio(H200, 'lean-warp', head.num_envs).ratio:.1f}"


def compiled_ratio() -> Ratio:
    """Return FPS of lean frames and Warp's frontend over those of RSL-RL's compiled networks, at the advised size."""
    head, _ = most_fps("lean-warp")
    return fps_ratio(OPPONENTS, "lean-warp", head.num_envs, to="stock-compiled")


def task_pairs() -> list[list[dict[str, Any]]]:
    """Return the trainings of the second task with each kind of frames, pair by pair."""
    return pairs_of(json_of("second-task-h200")["runs"], SECOND_TASK_SIZE)


def task_ratio() -> Agreement:
    """Return FPS of lean frames over mjlab's own on the second task, with its interval."""
    return fps_ratio_of(task_pairs())


def printed(study: str, before: str = "report") -> str:
    """Return what a sweep of a published study prints at its end, down to the first line that begins with `before`."""
    stream = io.StringIO()
    verdict, folder = verdict_of(study), PUBLISHED[study]
    card = study_card(load_study(folder), verdict, records_of(study))
    print_answer(verdict, folder, Console(file=stream, width=100), card)
    answer = re.split(rf"^{before} +", stream.getvalue(), flags=re.MULTILINE)[0]
    lines = "\n".join(line.rstrip() for line in answer.strip().splitlines())
    return f"```text\n{lines}\n```"
