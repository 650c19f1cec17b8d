"""What of joint answers was right, and how often. Pure.

A `Tally` counts hits and cases of each share, and sums what has a mean. Tallies of parts of a row add up to the row's.
"""

import math
from collections import Counter, defaultdict

from envknee.base.fields import Kind
from envknee.base.point import Point
from envknee.record.schema import Frozen
from envknee.verdict.joint.prior import Array
from envknee.verdict.schema.joint import ConfirmedSetting, JointAnswer, Setting

from benchmarks.joint.landscapes import MINI_BATCHES, profile, savings
from benchmarks.joint.studies import PLACE_OF, Simulated

TIED = 1e-9
"""True ln costs so near each other are the same."""


class Tally(Frozen):
    """Counts of a number of studies."""

    studies: int = 0
    seconds: float = 0.0
    """Of processor time."""
    hits: dict[str, int] = {}
    of: dict[str, int] = {}
    sums: dict[str, float] = {}
    """Over all studies, or over those that have such a figure: then `of` has their number."""

    def __add__(self, other: "Tally") -> "Tally":
        """Return the tally of both."""
        return Tally(
            studies=self.studies + other.studies,
            seconds=self.seconds + other.seconds,
            hits=Counter(self.hits) + Counter(other.hits),
            of=Counter(self.of) + Counter(other.of),
            sums={name: self.sums.get(name, 0.0) + other.sums.get(name, 0.0) for name in {**self.sums, **other.sums}},
        )

    def share(self, name: str) -> float | None:
        """Return how often something was so; None without a case."""
        return self.hits.get(name, 0) / self.of[name] if self.of.get(name) else None

    def mean(self, name: str) -> float | None:
        """Return the mean of a figure; None without a case."""
        return self.sums[name] / self.of[name] if self.of.get(name) else None


class Counting:
    """Counts of studies, one after the other."""

    def __init__(self) -> None:
        self.studies = 0
        self.hits: Counter[str] = Counter()
        self.of: Counter[str] = Counter()
        self.sums: defaultdict[str, float] = defaultdict(float)

    def tally(self, seconds: float) -> Tally:
        """Return all counts so far."""
        return Tally(
            studies=self.studies, seconds=seconds, hits=dict(self.hits), of=dict(self.of), sums=dict(self.sums)
        )

    def share(self, name: str, hit: bool) -> None:
        """Count a case of a share."""
        self.hits[name] += hit
        self.of[name] += 1

    def figure(self, name: str, value: float) -> None:
        """Count a case of a figure."""
        self.sums[name] += value
        self.of[name] += 1

    def study(self, simulated: Simulated, costs: Array, kind: Kind) -> None:
        """Count what was right of a study over true ln costs, shape (settings,)."""
        self.studies += 1
        least = float(costs.min())
        self.figure("pick regret", math.expm1(float(costs[int(simulated.searched.mean.argmin())]) - least))
        first = simulated.answers[0]
        self.confirmed(first, costs, least)
        self.model(first, costs, least)
        for answer in simulated.answers:
            self.thresholds(answer, costs, kind)

    def confirmed(self, answer: JointAnswer, costs: Array, least: float) -> None:
        """Count what fresh seeds claim."""
        truths = [true_cost(own, costs) for own in answer.confirmed]
        best = min(truths)
        if answer.soonest is not None:
            truth = truths[answer.soonest]
            self.figure("soonest regret", math.expm1(truth - least))
            self.share("soonest covered", covers(answer.confirmed[answer.soonest], truth))
        equal = [own for own, truth in zip(answer.confirmed, truths, strict=True) if truth <= best + TIED]
        # Hsu's promise is about one best setting that is fixed beforehand; of several that are alike any other may be shown slower.
        self.share("best shown slower", not min(equal, key=place_of).may_be_best)
        if len(equal) > 1:
            self.share("equal shown slower", not all(own.may_be_best for own in equal))
        bounded = [
            (math.log1p(own.most_slower), truth - best)
            for own, truth in zip(answer.confirmed, truths, strict=True)
            if own.most_slower is not None
        ]
        self.share("false bound", any(bound < slower - TIED for bound, slower in bounded))

    def model(self, answer: JointAnswer, costs: Array, least: float) -> None:
        """Count what the model of all trials claims; nothing where the surface is rough."""
        self.share("rough", answer.is_rough)
        if answer.is_rough:
            return
        holds = any(true_cost(own, costs) <= least + TIED for own in answer.likely)
        self.share("set holds the best", holds)
        self.figure("set size", len(answer.likely))
        by_number = {2 ** round(own): float(costs[own == MINI_BATCHES].min()) for own in set(MINI_BATCHES.tolist())}
        best_number = min(by_number, key=lambda number: by_number[number])
        self.share(
            "false mini-batches",
            any(own.value == best_number and not own.not_slower for own in answer.mini_batches),
        )
        for threshold in answer.thresholds:
            truth = profile(costs, threshold.axis)
            for own in threshold.profile:
                assert own.cost_lower is not None and own.cost_upper is not None
                self.share("profile covered", math.log(own.cost_lower) <= truth[own.value] <= math.log(own.cost_upper))

    def thresholds(self, answer: JointAnswer, costs: Array, kind: Kind) -> None:
        """Count what is claimed of both axes at one delta."""
        log_limit = limit_of(answer.delta, kind)
        for threshold in answer.thresholds:
            of_axis = f"{threshold.axis} {answer.delta:.0%}"
            true_savings = savings(costs, threshold.axis)
            pays = {value for value, saving in true_savings.items() if saving >= log_limit - TIED}
            not_pays = [value for value in true_savings if value not in pays]
            self.share(f"false reached: {of_axis}", threshold.threshold in pays)
            self.share(f"false by fresh: {of_axis}", threshold.by_fresh in pays)
            self.share(f"false by model: {of_axis}", threshold.by_model in pays)
            self.share(f"named: {of_axis}", threshold.threshold is not None)
            if not_pays:
                self.share(f"found: {of_axis}", threshold.threshold == not_pays[0])
            if true_savings[max(true_savings)] <= log_limit + TIED:
                self.share(f"false pays: {of_axis}", threshold.state == "still pays")
            self.share(f"pays: {of_axis}", threshold.state == "still pays")


def limit_of(delta: float, kind: Kind) -> float:
    """Return the ln cost that a doubling must save to pay: a gain of delta in FPS, or a saving of delta of the seconds."""
    return math.log1p(delta) if kind == "throughput" else -math.log1p(-delta)


def true_cost(own: Setting, costs: Array) -> float:
    """Return the true ln cost of a setting."""
    return float(costs[place_of(own)])


def place_of(own: Setting) -> int:
    """Return the place of a setting in `SETTINGS`."""
    return PLACE_OF[Point(own.num_envs, own.horizon, own.batch_size)]


def covers(own: ConfirmedSetting, truth: float) -> bool:
    """Tell whether a setting's interval holds its true ln cost."""
    assert own.cost_lower is not None and own.cost_upper is not None
    return math.log(own.cost_lower) <= truth <= math.log(own.cost_upper)
