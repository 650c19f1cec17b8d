"""The comparison of two studies, or of parts of them, as frozen models."""

from typing import Literal, NamedTuple

from envknee.base.fields import Kind
from envknee.record.schema import Frozen
from envknee.record.status import Status
from envknee.verdict.schema.throughput import ThroughputLimit

MeasureName = Literal[
    "fps_total", "fps_env_step_inference", "memory_peak_gb", "setup_s", "seconds_to_target", "frames_to_target"
]
"""A measure that is compared, by its name in record.json or outcome.json."""

Change = Literal["better", "worse", "none shown"]


class Place(NamedTuple):
    """The kind and the point of a trial."""

    kind: Kind
    num_envs: int
    horizon: int
    batch_size: int | None


class Ratio(Frozen):
    """The ratio of one measure, B / A."""

    measure: MeasureName
    place: Place | None
    """The point; None for all points together."""
    ratio: float
    """B / A."""
    lower: float | None
    """Two-sided interval; None for a single pair, whose noise is unknown."""
    upper: float | None
    p_value: float | None
    """Two-sided, for no difference, before Holm's correction."""
    p_holm: float | None
    points: int
    pairs: int
    change: Change


class Difference(Frozen):
    """A setting, version or part of the hardware in which the sides differ."""

    name: str
    a: list[str | None]
    """Its values among A's trials; None where a trial has none. Empty if no trial has one."""
    b: list[str | None]


class LeftOut(Frozen):
    """Trials of a point that only one side has."""

    side: str
    place: Place
    repeats: list[int]
    whole_point: bool
    """Whether the other side has no trial of the point at all."""
    lost: dict[Status, int]
    """Trials among them that did not succeed, by status."""


class Outcome(Frozen):
    """A common point at which a paired trial did not succeed."""

    place: Place
    pairs: int
    a_succeeded: int
    b_succeeded: int
    a_lost: dict[Status, int]
    """Trials of A that did not succeed, by status."""
    b_lost: dict[Status, int]
    lost_repeats: list[tuple[int, int]]
    """A's and B's repeat of each pair in which a trial did not succeed."""


class Apart(Frozen):
    """Pairs whose trials ran on different machines or GPUs, which may be the cause of a difference."""

    machines: int
    gpus: int
    pairs: int
    """Pairs of which it is known where they ran."""


class Bound(Frozen):
    """The loss in one measure, with its bound."""

    measure: MeasureName
    loss: float
    """Estimate: 0.02 is 2% worse, negative is better."""
    loss_upper: float | None
    """One-sided bound; None for a single pair, whose noise is unknown."""
    passes: bool
    pairs_for_power: int | None
    """Pairs with which 80% of comparisons would pass if there is no difference; None: over 50, or unknown."""


class Gate(Frozen):
    """The answer, with what it follows from."""

    answer: Literal["pass", "fail", "inconclusive"]
    bounds: list[Bound]
    losses: list[Ratio]
    """Measures with a loss that is shown and exceeds the margin."""
    fewer_succeeded: list[Outcome]
    """Points at which fewer trials of B than of A succeeded."""
    one_machine: bool
    """Whether any machine ran both sides."""


class SideLimit(Frozen):
    """The throughput limit of one side alone."""

    side: str
    limit: ThroughputLimit | None
    """None if no throughput trial was timed to its end."""


class Comparison(Frozen):
    """The comparison of one arm of B with one of A."""

    a: str
    b: str
    confidence: float
    margin: float
    differs: list[Difference]
    overall: list[Ratio]
    by_place: list[Ratio]
    phases: dict[str, float]
    """Change of each phase's time, as a share of A's whole iteration, averaged over points; the largest first."""
    limits: list[SideLimit]
    left_out: list[LeftOut]
    outcomes: list[Outcome]
    """Points at which a paired trial did not succeed. Those where fewer of B's did are the gate's."""
    apart: Apart
    gate: Gate


Comparisons = list[Comparison]
"""What `envknee compare` prints as JSON: one for each pair of arms."""
