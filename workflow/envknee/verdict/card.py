"""The card of a study: for each question the arm that answers it best, compared with the others. Pure.

Input: a verdict, and if they are known its records and further repeats. Output: a `Card`. It decides nothing: numbers and states are the
verdict's.

Where both arms ran a setting, and the records are known, their ratio is that of pairs with the same number of repeat, by Student's t on
logarithms, as `envknee compare` has it. Otherwise its interval follows from both arms' own by MOVER on logarithms (Zou and Donner 2008,
Statistics in Medicine 27:1693), which takes the arms as independent.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

from envknee.base.fields import KINDS, Kind
from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.verdict.disturbed import other_load
from envknee.verdict.rule import doublings
from envknee.verdict.schema.card import ArmRatio, Card, CardEntry, TrainingCommand
from envknee.verdict.schema.further import Further
from envknee.verdict.schema.joint import ConfirmedSetting, JointAnswer, Setting
from envknee.verdict.schema.learning import LearningLimit, Rules
from envknee.verdict.schema.limit import SeriesLimit
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.verdict.schema.throughput import OtherLoad, ThroughputLimit, ThroughputPoint
from envknee.verdict.series import Series

LEAST_PAIRS = 3
"""Fewest pairs whose spread is taken for their noise: two have one degree of freedom."""

CommandOf = Callable[[str, Setting], TrainingCommand | None]
"""Arm and setting -> the command that trains there."""


class Estimate(NamedTuple):
    """A result with its two-sided interval, if there is one."""

    value: float
    lower: float | None
    upper: float | None


def card_of(
    verdict: Verdict,
    records: Sequence[Record] = (),
    further: Sequence[Further] = (),
    command_of: CommandOf = lambda _arm, _setting: None,
    only: str | None = None,
) -> Card:
    """Return the card of a study; with `only`, that of one arm.

    Args:
        verdict: the study's
        records: its trials, of which the load of other processes is told
        further: repeats that may decide what is open
        command_of: returns the command that trains an arm at a setting
        only: the arm of every entry
    """
    if verdict.drill is not None:
        return Card(entries=[], not_measured=[])  # nothing in it is a result
    measured = without_skipped(records)
    entries, missing = list[CardEntry](), list[Kind]()
    for kind in reversed(KINDS):
        found = {arm.arm: entry for arm in verdict.arms if (entry := entry_of(arm, kind, verdict.rules, further))}
        own = [entry for arm, entry in found.items() if only in (None, arm)]
        if not own:
            missing.append(kind)
            continue
        best = min(own, key=_rank)
        entries.append(
            best.model_copy(
                update={
                    "ratios": _against_all(best, found, verdict, measured),
                    "load": best.load or _load(best, measured),
                    "command": None if best.setting is None else command_of(best.arm, best.setting),
                }
            )
        )
    return Card(entries=entries, not_measured=missing)


def _rank(entry: CardEntry) -> tuple[bool, float]:
    """Return a sort key: the best result first, and entries without one last."""
    if entry.value is None:
        return True, 0.0
    return False, entry.value if entry.kind == "learning" else -entry.value


def entry_of(arm: ArmVerdict, kind: Kind, rules: Rules | None, further: Sequence[Further]) -> CardEntry | None:
    """Return an arm's answer to one question; None if no trial of this kind ran."""
    joint = next((found for found in arm.joint if found.kind == kind), None)
    if joint is not None:
        return _of_joint(arm, joint, further)
    return _of_learning(arm, rules, further) if kind == "learning" else _of_throughput(arm, further)


def _of_throughput(arm: ArmVerdict, further: Sequence[Further]) -> CardEntry | None:
    headline, limit = arm.headline, arm.recommended
    if headline is None or limit is None:
        return None
    point, series = limit.point(headline.num_envs), headline.as_run
    entry = _answered(
        arm, "throughput", Setting.at(headline.num_envs, series), _fps_at(limit, point), len(point.fps_repeats)
    )
    told = {
        "share_of_best": headline.fps_share_of_best,
        "composed": limit.composed if point.is_composed else None,
        "limit": limit,
        "binds": headline.binds,
        "load": limit.other_load,
        "cost_s": _cost_s("throughput", _open_repeats(limit), further),
    }
    return entry.model_copy(update=told)


def _of_learning(arm: ArmVerdict, rules: Rules | None, further: Sequence[Further]) -> CardEntry | None:
    limits = [limit for limit in arm.learning if limit.state != "no data"]
    if not limits:
        return None
    limit, point = arm.soonest or (limits[0], None)
    setting = estimate = None
    if point is not None:
        setting = Setting.at(point.num_envs, as_run(limit, point.num_envs, rules))
        cost = point.seconds_to_target
        assert cost is not None, "its seeds reached the target"
        estimate = Estimate(cost.value, cost.interval_lower, cost.interval_upper)
    entry = _answered(arm, "learning", setting, estimate, 0 if point is None else point.seeds, limit.series)
    return entry.model_copy(update={"limit": limit, "cost_s": _cost_s("learning", _open_repeats(limit), further)})


def _of_joint(arm: ArmVerdict, found: JointAnswer, further: Sequence[Further]) -> CardEntry:
    confirmed = None if found.soonest is None else found.confirmed[found.soonest]
    setting = estimate = None
    if confirmed is not None:
        setting, estimate = Setting.at(confirmed.num_envs, confirmed), _estimate_of(confirmed, found)
    entry = _answered(arm, found.kind, setting, estimate, 0 if confirmed is None else confirmed.seeds)
    return entry.model_copy(update={"joint": found, "cost_s": _cost_s(found.kind, found.more_seeds, further)})


def _answered(
    arm: ArmVerdict,
    kind: Kind,
    setting: Setting | None,
    estimate: Estimate | None,
    repeats: int,
    otherwise: Series | None = None,
) -> CardEntry:
    """Return an entry with what a setting gives and what fits there; without a setting, what fits in the series `otherwise`."""
    series = otherwise if setting is None else Series(arm.arm, setting.horizon, setting.batch_size)
    memory = arm.memory
    return CardEntry(
        arm=arm.arm,
        world_size=arm.world_size,
        rank_word=arm.rank_word,
        kind=kind,
        setting=setting,
        value=estimate and estimate.value,
        lower=estimate and estimate.lower,
        upper=estimate and estimate.upper,
        repeats=repeats,
        wall=None if memory is None or series is None else memory.wall(series),
        device_memory_gb=None if memory is None else memory.device_memory_gb,
    )


def as_run(limit: SeriesLimit, num_envs: int, rules: Rules | None) -> Series:
    """Return the horizon and batch size that ran at one size of a series."""
    ran = rules.as_run(limit, num_envs) if rules is not None and isinstance(limit, LearningLimit) else None
    return ran or limit.series


def _estimate_of(setting: ConfirmedSetting, found: JointAnswer) -> Estimate | None:
    """Return what fresh seeds of a setting give; FPS are one over the cost, so that the interval's ends change places."""
    if setting.cost is None:
        return None
    own = Estimate(setting.cost, setting.cost_lower, setting.cost_upper)
    if found.kind == "learning":
        return own
    return Estimate(1.0 / own.value, 1.0 / own.upper if own.upper else None, 1.0 / own.lower if own.lower else None)


def _open_repeats(limit: SeriesLimit) -> int | None:
    """Return the repeats that may decide a limit; None if it is decided, or they do not help."""
    if limit.state != "undecided" or not limit.gains or not limit.gains[-1].machines:
        return None
    return limit.more_repeats


def _cost_s(kind: Kind, repeats: int | None, further: Sequence[Further]) -> float | None:
    """Return the seconds of further repeats of every point, in all arms."""
    known = next((own for own in further if own.kind == kind), None)
    if known is None or not repeats:
        return None
    return known.seconds / known.repeats * repeats


def _load(entry: CardEntry, records: Sequence[Record]) -> OtherLoad | None:
    """Return the load of other processes during an arm's trials of one kind."""
    return other_load([own for own in records if own.request.arm == entry.arm and own.request.kind == entry.kind])


def _against_all(
    best: CardEntry, entries: dict[str, CardEntry], verdict: Verdict, records: Sequence[Record]
) -> list[ArmRatio]:
    """Return an entry's ratios to each other arm: at the best settings, then at each setting that both have."""
    ratios, own = list[ArmRatio](), estimates_of(best, verdict)
    for other in sorted((entry for arm, entry in entries.items() if arm != best.arm), key=_rank):
        theirs = estimates_of(other, verdict)
        both = sorted(own.keys() & theirs.keys(), key=lambda at: (at.num_envs, at.horizon, at.batch_size or 0))
        at_each = {at: _ratio_at(at, best, other, own[at], theirs[at], verdict, records) for at in both}
        if best.setting is not None and best.setting == other.setting and best.setting in at_each:
            ratios.append(at_each.pop(best.setting))
        else:
            ratios.append(_ratio(other.arm, None, _of_entry(best), _of_entry(other)))
        ratios += at_each.values()
    return ratios


def _ratio_at(
    setting: Setting,
    best: CardEntry,
    other: CardEntry,
    own: Estimate,
    theirs: Estimate,
    verdict: Verdict,
    records: Sequence[Record],
) -> ArmRatio:
    """Return the ratio at a setting that both arms have: of pairs, or of both arms' own results."""
    if best.joint is None and other.joint is None:
        logs = _log_ratios(*(_by_repeat(records, entry.kind, entry.arm, setting) for entry in (best, other)))
        if len(logs) >= LEAST_PAIRS:
            mean, variance = statistics.fmean(logs), statistics.variance(logs) / len(logs)
            lower, upper = doublings.interval(mean, variance, len(logs) - 1, verdict.confidence)
            return ArmRatio(other=other.arm, setting=setting, ratio=math.exp(mean), lower=lower, upper=upper)
    return _ratio(other.arm, setting, own, theirs)


def _by_repeat(records: Sequence[Record], kind: Kind, arm: str, setting: Setting) -> dict[int, float | None]:
    """Return repeat -> FPS, or seconds to the target, of an arm's trials at a setting; None for a trial without."""
    found = dict[int, float | None]()
    for record in records:
        request = record.request
        if (request.kind, request.arm) == (kind, arm) and Setting.at(request.num_envs, request) == setting:
            fps = None if record.fps_total is None else record.fps_total.median
            found[request.repeat] = fps if kind == "throughput" else record.seconds_to_target
    return found


def _log_ratios(own: dict[int, float | None], theirs: dict[int, float | None]) -> list[float]:
    """Return ln(own / theirs) of each repeat that both have; nothing if one of them has no result, such as a seed that did not arrive."""
    pairs = [(own[repeat], theirs[repeat]) for repeat in sorted(own.keys() & theirs.keys())]
    logs = [math.log(first / second) for first, second in pairs if first and second]
    return logs if len(logs) == len(pairs) else []


def _of_entry(entry: CardEntry) -> Estimate | None:
    return None if entry.value is None else Estimate(entry.value, entry.lower, entry.upper)


def estimates_of(entry: CardEntry, verdict: Verdict) -> dict[Setting, Estimate]:
    """Return what an arm gives at each setting: fresh seeds of a joint answer, or else every point of its series."""
    if entry.joint is not None:
        found = {
            Setting.at(own.num_envs, own): _estimate_of(own, entry.joint)
            for own in entry.joint.confirmed
            if not own.lost
        }
        return {at: estimate for at, estimate in found.items() if estimate is not None}
    (arm,) = (own for own in verdict.arms if own.arm == entry.arm)
    limits: Sequence[SeriesLimit] = arm.throughput if entry.kind == "throughput" else arm.learning
    estimates = dict[Setting, Estimate]()
    for limit in limits:
        for num_envs, estimate in _of_limit(limit).items():
            estimates[Setting.at(num_envs, as_run(limit, num_envs, verdict.rules))] = estimate
    return estimates


def _of_limit(limit: SeriesLimit) -> dict[int, Estimate]:
    """Return the results of a series by num_envs; a point at which some seed missed the target has none."""
    if isinstance(limit, ThroughputLimit):
        return {point.num_envs: _fps_at(limit, point) for point in limit.points}
    assert isinstance(limit, LearningLimit)
    costs = {point.num_envs: point.seconds_to_target for point in limit.points}
    return {
        num_envs: Estimate(cost.value, cost.interval_lower, cost.interval_upper)
        for num_envs, cost in costs.items()
        if cost is not None and not cost.lower_bound
    }


def _fps_at(limit: ThroughputLimit, point: ThroughputPoint) -> Estimate:
    """Return the FPS at a point; where some are composed, the interval also has what those may be off by."""
    margin = 1.0
    if point.composed and limit.composed is not None:
        margin += limit.composed.margin
    lower = None if point.fps_lower is None else point.fps_lower / margin
    upper = None if point.fps_upper is None else point.fps_upper * margin
    return Estimate(point.fps, lower, upper)


def _ratio(arm: str, setting: Setting | None, own: Estimate | None, other: Estimate | None) -> ArmRatio:
    """Return `own` over `other`, with MOVER's interval on logarithms."""
    if own is None or other is None:
        return ArmRatio(other=arm, setting=setting, ratio=None, lower=None, upper=None)
    ratio = own.value / other.value
    lower = upper = None
    if own.lower and own.upper and other.lower and other.upper:
        lower = ratio * math.exp(-math.hypot(math.log(own.value / own.lower), math.log(other.upper / other.value)))
        upper = ratio * math.exp(math.hypot(math.log(own.upper / own.value), math.log(other.value / other.lower)))
    return ArmRatio(other=arm, setting=setting, ratio=ratio, lower=lower, upper=upper)
