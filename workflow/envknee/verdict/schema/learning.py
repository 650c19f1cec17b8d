"""What is said of the seconds to a target reward, as frozen models."""

from typing import Literal

from pydantic import Field

from envknee.record.schema import Frozen, ScaledFrom
from envknee.verdict.series import OfSeries


class Cost(Frozen):
    """What reaching the target costs, as an interquartile mean over seeds."""

    value: float
    lower_bound: bool
    """True where a seed that did not reach the target takes part: the real cost is larger."""
    interval_lower: float | None
    """Two-sided interval; None with one seed, or where `value` is a lower bound."""
    interval_upper: float | None
    seeds: int


class LearningPoint(Frozen):
    """Learning at one num_envs."""

    num_envs: int
    seeds: int
    """Trials that ran, whether they reached the target or not."""
    reached: int
    share_reached: float | None
    """Of all trials of the point, those without the memory to run among them; None where none ran."""
    timeout: int
    """Censored: the budget was spent first."""
    failed: int
    """Became NaN or diverged."""
    oom: int
    refused: int
    seconds_to_target: Cost | None
    """Wall seconds of training; None where no trial ran."""
    expected_running_time_s: float | None
    """Wall seconds of all seeds over the number that reached the target; None where none did."""
    gpu_seconds_to_target: Cost | None
    """Wall seconds times the GPUs that train together; None on a CPU."""
    frames_to_target: Cost | None

    @property
    def without_memory(self) -> int:
        """Trials that ran out of memory or were refused beside others that ran; 0 where none ran: that is infeasible."""
        return self.oom + self.refused if self.seeds else 0

    @property
    def trials(self) -> int:
        """Trials that could have reached the target: those that ran, and those without memory beside them."""
        return self.seeds + self.without_memory


class Saving(Frozen):
    """What doubling saves: 0.25 stands for 25% fewer seconds to the target with twice the environments."""

    num_envs: int
    doubled: int
    seeds: int
    """Of that end which has fewer."""
    saving: float | None
    """By the model of `rule.censored`, in which every seed counts."""
    decides: bool
    """False where seeds that did not reach the target forbid a decision: fewer than six seeds, or fewer than three that arrived."""
    saving_lower: float | None
    """Two-sided interval of this doubling alone, where it is known."""
    saving_upper: float | None
    saving_upper_one_sided: float | None
    p_value: float | None
    p_holm: float | None
    """Of a saving of at least delta, corrected for the number of doublings: shown to be below it at most at (1 - confidence) / 2."""
    shown_below_delta: bool


class BestPoint(Frozen):
    """The measured point with the fewest seconds to the target."""

    num_envs: int
    horizon: int
    batch_size: int | None
    seconds_to_target: Cost
    """Of the trials that ran."""
    share_reached: float
    """Of all trials of the point."""
    without_memory: int = 0
    """Trials there that ran out of memory or were refused. Such a point is named only where there is no other."""

    @property
    def order(self) -> tuple[bool, float]:
        """What sorts points, the one to name first."""
        return self.without_memory > 0, self.seconds_to_target.value

    @property
    def caveat(self) -> str:
        """Return what must stand behind the seconds; nothing where every trial of the point ran."""
        trials = self.seconds_to_target.seeds + self.without_memory
        return (
            f" (though {self.without_memory} of {trials} trials there ran out of memory or were refused)"
            if self.without_memory
            else ""
        )


class LearningLimit(OfSeries):
    """The learning limit of one series."""

    scaled_from: ScaledFrom | None = Field(default=None, exclude_if=lambda value: value is None)
    """The arm's rule, under which this limit holds; horizon and batch_size are then those of its base."""

    target_reward: float | None
    budget_s: float | None
    delta: float
    confidence: float
    state: Literal["reached", "still pays", "undecided", "no data"]
    threshold_num_envs: int | None
    threshold_lowest: int | None
    threshold_highest: int | None
    """None: the measurements set no upper end."""
    largest_num_envs: int | None
    """At which a trial ran."""
    still_saves: float | None
    """Where it still pays: what the largest doubling saves at least."""
    more_seeds: int | None
    """Where undecided: how many more of each point would decide with 80% power, were the estimates true; None: over 200."""
    resumes_at: list[int]
    points: list[LearningPoint]
    savings: list[Saving]
    best: BestPoint | None
    """None where no point has a cost free of seeds that did not reach the target."""
    method: str
    notes: list[str]
    statement: str
