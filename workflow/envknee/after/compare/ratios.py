"""Ratios of paired trials, with intervals, and shifts of phases. Pure."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtr

from envknee.after.compare.gate import Estimate, bound, gate
from envknee.after.compare.pairing import (
    Pairs,
    apart,
    left_out,
    on_one_machine,
    order,
    outcomes,
    paired,
    succeeded,
)
from envknee.after.compare.sides import Side
from envknee.base.fields import Kind
from envknee.decide.study import decide
from envknee.record.schema import PHASES, Phase, Record
from envknee.study.arm import Memory
from envknee.study.errors import UserError
from envknee.verdict.machine_facts import each_once, machine_facts
from envknee.verdict.memory_sample import counted_peak_gb
from envknee.verdict.rule import doublings
from envknee.verdict.schema.comparison import (
    Bound,
    Comparison,
    Difference,
    MeasureName,
    Place,
    Ratio,
    SideLimit,
)
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.words.compare import place_words, shortened

SETTINGS = ("trainer", "world_size", "observations", "frontend", "strategy", "sync_every", "deterministic", "phases")
"""Fields of a request that are listed if the sides differ in them."""

TARGET = ("target_reward", "target_episodes")
"""The same, of learning trials."""


@dataclass(frozen=True)
class Measure:
    """A measure that is compared."""

    name: MeasureName
    value_of: Callable[[Record], float | None]
    more_is_better: bool
    kind: Kind | None = None
    """Kind of its trials; None: any."""
    gates: bool = False
    """Whether the gate needs its loss to be within the margin."""


def _fps_total(record: Record) -> float | None:
    return None if record.fps_total is None else record.fps_total.median


def _fps_collecting(record: Record) -> float | None:
    fps = record.fps_env_step_inference
    return None if fps is None else fps.median


MEASURES = (
    Measure("fps_total", _fps_total, True, "throughput", gates=True),
    Measure("fps_env_step_inference", _fps_collecting, True, "throughput"),
    Measure("memory_peak_gb", counted_peak_gb, False, gates=True),
    Measure("setup_s", lambda record: record.outcome.setup_s, False),
    Measure("seconds_to_target", lambda record: record.seconds_to_target, False, "learning", gates=True),
    # Equal on both sides that learn equally well; then speed alone changes the seconds.
    Measure("frames_to_target", lambda record: record.frames_to_target, False, "learning"),
)


def compare(a: Side, b: Side, confidence: float, margin: float) -> Comparison:
    """Compare two sides. Pure.

    Raises:
        UserError: when they have no common point.
    """
    every, *alone = paired(a.records, b.records)
    if not every:
        only_a, only_b = (shortened([place_words(place) for place in sorted(places, key=order)]) for places in alone)
        raise UserError(
            f"{a.name} and {b.name} have no point in common: {only_a} against {only_b}."
            " Sweep the same num_envs, horizon and batch_size on both sides"
        )
    same_machine = on_one_machine(every)
    pairs = same_machine or every
    overall: list[Ratio] = []
    by_place: list[Ratio] = []
    bounds: list[Bound] = []
    for measure in MEASURES:
        if not (strata := _logarithms(pairs, measure)):
            continue
        overall.append(_ratio(measure, None, strata, confidence))
        of_places = [_ratio(measure, place, {place: logs}, confidence) for place, logs in strata.items()]
        by_place += _corrected(of_places, confidence)
        if measure.gates:
            pooled, count = stratified(list(strata.values())), sum(map(len, strata.values()))
            bounds.append(bound(measure.name, pooled, count, confidence, margin, more_is_better=measure.more_is_better))
    overall = _corrected(overall, confidence)
    unsuccessful = outcomes(every)
    fewer = [outcome for outcome in unsuccessful if outcome.b_succeeded < outcome.a_succeeded]
    worse = [ratio for ratio in overall if ratio.change == "worse" and abs(ratio.ratio - 1.0) > margin]
    only_a, only_b = alone
    return Comparison(
        a=a.name,
        b=b.name,
        confidence=confidence,
        margin=margin,
        differs=differences(a.records, b.records),
        overall=overall,
        by_place=by_place,
        phases=_phases(pairs),
        limits=[SideLimit(side=side.name, limit=_limit(side)) for side in (a, b)],
        left_out=[*left_out(a.name, only_a, every), *left_out(b.name, only_b, every)],
        outcomes=[outcome for outcome in unsuccessful if outcome not in fewer],
        apart=apart(every),
        gate=gate(bounds, worse if same_machine else [], fewer, bool(same_machine)),
    )


def _logarithms(pairs_of: Pairs, measure: Measure) -> dict[Place, list[float]]:
    """Return ln(B / A) of every pair with values of a measure, by point."""

    def tells(record: Record) -> bool:
        spent = record.request.kind == "learning" and record.outcome.status == "timeout"
        return succeeded(record) or (measure.kind is None and spent)

    by_place: dict[Place, list[float]] = {}
    for place, pairs in pairs_of.items():
        if measure.kind not in (None, place.kind):
            continue
        telling = [pair for pair in pairs if tells(pair.a) and tells(pair.b)]
        if measure.kind == "learning" and len(telling) < len(pairs):
            continue
        values = [(measure.value_of(pair.a), measure.value_of(pair.b)) for pair in telling]
        if logarithms := [math.log(of_b / of_a) for of_a, of_b in values if of_a and of_b]:
            by_place[place] = logarithms
    return by_place


def stratified(strata: Sequence[Sequence[float]]) -> Estimate:
    """Return the mean over strata of their means, with Satterthwaite's degrees of freedom.

    A stratum of one value gets the pooled variance of the others. If all have one value, the strata are the sample.

    Let k strata have n_i values with variances s_i^2, let m of them have one value, and let free = sum of (n_i - 1). The mean of the k
    means has the error variance (1 / k^2) sum of v_i / n_i. For a single value, v is the pooled variance, sum of (n_j - 1) s_j^2 / free.
    Collecting terms, each s_i^2 with n_i > 1 has the factor c_i = 1 / n_i + m (n_i - 1) / free, and n_i - 1 degrees of freedom; a single
    value adds none. Satterthwaite 1946 (Biometrics Bulletin 2:110) gives the degrees of freedom of such a sum of independent c_i s_i^2:
    total^2 / sum of (c_i s_i^2)^2 / (n_i - 1).
    """
    means = [statistics.fmean(values) for values in strata]
    free = sum(len(values) - 1 for values in strata)
    if free == 0:
        return Estimate(means[0], None, 0.0) if len(means) == 1 else stratified([means])
    singles = sum(len(values) == 1 for values in strata)
    several = [(statistics.variance(values), len(values)) for values in strata if len(values) > 1]
    parts = [variance * (1.0 / n + singles * (n - 1) / free) / len(strata) ** 2 for variance, n in several]
    return Estimate(statistics.fmean(means), *doublings.summed(parts, [n - 1 for _, n in several]))


def _ratio(
    measure: Measure, place: Place | None, by_place: Mapping[Place, Sequence[float]], confidence: float
) -> Ratio:
    pooled = stratified(list(by_place.values()))
    lower, upper = doublings.interval(pooled.mean, pooled.variance, pooled.degrees, confidence)
    p_value = None if pooled.variance is None else float(pooled.mean == 0.0)
    if pooled.variance:
        p_value = 2.0 * float(stdtr(pooled.degrees, -abs(pooled.mean) / math.sqrt(pooled.variance)))
    return Ratio(
        measure=measure.name, place=place, ratio=math.exp(pooled.mean), lower=lower, upper=upper, p_value=p_value,
        p_holm=None, points=len(by_place), pairs=sum(map(len, by_place.values())),
        change="better" if (pooled.mean > 0.0) == measure.more_is_better else "worse",
    )  # fmt: skip


def _corrected(ratios: Sequence[Ratio], confidence: float) -> list[Ratio]:
    """Return the ratios with Holm-corrected p-values, and with their change only if these show it."""
    corrected = []
    for ratio, p_holm in zip(ratios, doublings.holm([ratio.p_value for ratio in ratios]), strict=True):
        shown = p_holm is not None and p_holm <= 1.0 - confidence and ratio.ratio != 1.0
        change = ratio.change if shown else "none shown"
        corrected.append(ratio.model_copy(update={"p_holm": p_holm, "change": change}))
    return corrected


def _phases(pairs_of: Pairs) -> dict[str, float]:
    """Return the shift of each phase, the largest first; none if a side has no phases.

    It uses the same pairs as the ratios. A trial without a counterpart, maybe on another machine, would look like a phase's shift.
    """
    of_places: list[dict[Phase, float]] = []
    for place, pairs in pairs_of.items():
        timed = [
            (pair.a.phases_s, pair.b.phases_s)
            for pair in pairs
            if pair.succeeded and pair.a.phases_s and pair.b.phases_s
        ]
        if place.kind == "throughput" and timed:
            of_a, of_b = (
                {phase: statistics.fmean(phases_s[phase].median for phases_s in side) for phase in PHASES}
                for side in zip(*timed, strict=True)
            )
            of_places.append({phase: (of_b[phase] - of_a[phase]) / sum(of_a.values()) for phase in PHASES})
    shifts = {phase: statistics.fmean(own[phase] for own in of_places) for phase in PHASES if of_places}
    return dict(sorted(shifts.items(), key=lambda shift: -abs(shift[1])))


def differences(a: Sequence[Record], b: Sequence[Record]) -> list[Difference]:
    """Return the differences of settings, hardware, versions and commits."""
    of_a, of_b = facts(a), facts(b)
    common = of_a.keys() & of_b.keys()
    return [
        Difference(name=name, a=of_a.get(name, []), b=of_b.get(name, []))
        for name in of_a | of_b
        # Without a target on both sides, no learning trials are compared.
        if of_a.get(name) != of_b.get(name) and (name not in TARGET or name in common)
    ]


def facts(records: Sequence[Record]) -> dict[str, list[str | None]]:
    """Return settings, target, hardware, versions and commits of trials by name, each value once; None where a trial has none."""
    requests = [record.request for record in records]
    overridden = dict.fromkeys(name for request in requests for name in request.overrides)
    learned = [request for request in requests if request.target_reward is not None]
    values: dict[str, list[Any]] = {"task": [request.task_id for request in requests]}
    values |= {name: [getattr(request, name) for request in requests] for name in SETTINGS}
    values |= {
        f"memory.{name}": [getattr(request.memory, name) for request in requests] for name in Memory.model_fields
    }
    values |= {
        name: [request.overrides[name] for request in requests if name in request.overrides] for name in overridden
    }
    if learned:
        values |= {name: [getattr(request, name) for request in learned] for name in TARGET}
    return {name: each_once(own) for name, own in values.items()} | machine_facts(records)


def _limit(side: Side) -> ThroughputLimit | None:
    """Return the throughput limit of the recommended series, by the verdict on this side alone."""
    (arm,) = (arm for arm in decide(side.records, side.study).arms if arm.arm == side.arm)
    return arm.recommended
