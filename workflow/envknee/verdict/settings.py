"""What a verdict is decided with: plain settings, in which a study file does not appear.

`envknee.decide` takes them from a study.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.verdict.rule.schedule import Schedule


class Settings(Protocol):
    """How records become a verdict."""

    @property
    def delta(self) -> float:
        """A doubling that gains less than this share of FPS no longer pays."""
        ...

    @property
    def delta_learning(self) -> float:
        """The same for seconds to the target."""
        ...

    @property
    def confidence(self) -> float:
        """Confidence of every interval and one-sided bound."""
        ...

    @property
    def memory_margin(self) -> float:
        """Share of the memory to keep free."""
        ...

    @property
    def baseline(self) -> str | None:
        """The arm with which the others are compared; None: no comparison."""
        ...


@dataclass(frozen=True)
class ArmSettings:
    """One arm, as far as its verdict depends on it."""

    world_size: int
    """Ranks that train together."""
    values: Mapping[str, Any]
    """Every setting of the arm by dotted name, such as `memory.on_oom`, and its overrides. Values are as in JSON."""
    learns_like: str | None = None
    """The arm whose search plans this one's settings; None: it has a search of its own."""
    measures: Kind | None = None
    """The one section that measures the arm; None: each."""

    @property
    def gpus(self) -> Any:
        """GPUs on each machine: a number, 0 for the CPU, or "auto"."""
        return self.values["gpus"]

    @property
    def nodes(self) -> int:
        """Machines that train together."""
        return self.values["nodes"]


@dataclass(frozen=True)
class JointSettings:
    """A section that is answered over num_envs, horizon and batch size at once."""

    settings: Sequence[Point]
    """Every legal point, ascending."""
    seeds: int | None
    """Fresh seeds of each confirmed setting, as fixed beforehand; None without a confirming stage."""
    replaces_series: bool
    """Whether its search chose trials by the model, so that series of them, and the best one seen, say nothing."""
    search_trials: int = 0
    """Trials of an arm's search."""
    error_share: float = 1.0
    """Its part of the study's chance of error: sections with fresh seeds have equal parts."""
    confirmed: int = 0
    """Settings of an arm that have fresh seeds."""
    one_process: bool = False
    """Whether a process measures a round of fresh seeds."""
    learns_like: str | None = None
    """The arm whose search stands in for that of this one; None: it has its own."""


@dataclass(frozen=True)
class StudySettings:
    """A study, as far as its verdict depends on it."""

    study: str
    task_id: str
    trials_planned: int
    """Trials of the whole plan, with those that are skipped."""
    settings: Settings
    arms: Mapping[str, ArmSettings]
    schedules: Mapping[Kind, Schedule]
    """After which repeats of each section the study may be looked at."""
    joint: Mapping[Kind, JointSettings]
    """Sections with a joint answer, as they are for an arm that learns like no other one, and like which none learns."""
    drill: str | None
    """The fault that a drill injects; None outside a drill."""

    def joint_of(self, arm: str) -> dict[Kind, JointSettings]:
        """Return the sections with a joint answer as they are for one arm. Only learning can be planned from another arm's search."""
        leader = self.arms[arm].learns_like
        followers = sum(own.learns_like == arm for own in self.arms.values())
        measures = self.arms[arm].measures
        own: dict[Kind, JointSettings] = {kind: joint for kind, joint in self.joint.items() if measures in (None, kind)}
        if "learning" in own and leader is not None:
            own["learning"] = replace(own["learning"], search_trials=0, learns_like=leader)
        elif "learning" in own:
            most = min(own["learning"].confirmed * (1 + followers), len(own["learning"].settings))
            own["learning"] = replace(own["learning"], confirmed=most)
        return own
