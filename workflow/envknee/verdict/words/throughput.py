"""The throughput limit in sentences. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence

from envknee.study.model import Decide
from envknee.verdict.composed import Composition
from envknee.verdict.rule import doublings
from envknee.verdict.rule.union import LEAST_REPEATS, Decision
from envknee.verdict.schema.throughput import InfeasiblePoint, ThroughputLimit
from envknee.verdict.series import Ranks
from envknee.verdict.words.numbers import listed, percent, span
from envknee.verdict.words.states import what_would_decide


def throughput_notes(
    fps: Mapping[int, Sequence[float]],
    decision: Decision,
    infeasible: Sequence[InfeasiblePoint],
    not_counted: Mapping[str, int],
    ranks: Ranks,
    settings: Decide,
) -> list[str]:
    """Return notes on the verdict, a sentence each."""
    notes = []
    few = [num_envs for num_envs, values in fps.items() if len(values) < LEAST_REPEATS]
    if fps and all(len(values) == 1 for values in fps.values()):
        notes.append("one repeat per point: gains are estimates, and nothing tells them from noise")
    elif few:
        notes.append(f"fewer than {LEAST_REPEATS} repeats at {listed(few)}: doublings from or to there decide nothing")
    apart = [doubling.num_envs for doubling in decision.doublings if not doubling.contrast.blocks]
    if apart:
        pairs = ", ".join(f"{n:,} and {2 * n:,}" for n in apart)
        notes.append(
            f"no machine ran both {pairs}: what doubling gains there may be the machines', and decides nothing"
        )
    notes += [
        f"machines disagree about doubling {doubling.num_envs:,} (p = {doubling.contrast.disagreement:.2g}): gains of"
        f" {' and '.join(_share(part.log_gain) for part in doubling.contrast.parts)};"
        " each of them must show that it stops paying"
        for doubling in decision.doublings
        if doubling.contrast.parts
    ]
    if fps and not decision.doublings:
        notes.append(_why_no_doubling(fps))
    else:
        unpaired = [n for n in fps if 2 * n not in fps and (n % 2 or n // 2 not in fps)]
        if unpaired:
            notes.append(f"{listed(unpaired)} environments: measured, but neither half nor double was; in no doubling")
    if decision.resumes_at:
        gains = {doubling.num_envs: math.expm1(doubling.contrast.log_gain) for doubling in decision.doublings}
        again = ", ".join(f"{n:,} to {2 * n:,} gains {percent(gains[n])}" for n in decision.resumes_at)
        notes.append(f"not the end: {again}, more than delta ({settings.delta:.0%}) again")
    if infeasible:
        notes.append(
            f"infeasible (out of memory or refused): {listed(point.num_envs for point in infeasible)} environments{ranks.each}"
        )
    if not_counted:
        notes.append("not counted: " + ", ".join(f"{count} {status}" for status, count in not_counted.items()))
    return notes


def composed_notes(composed: Iterable[int], composition: Composition) -> list[str]:
    """Return what FPS of composed points rest on, or why they are not used; nothing if none of the num_envs is composed."""
    sizes = listed(sorted(composed))
    if not sizes:
        return []
    if composition.error is None:
        return [f"{sizes} environments: composed FPS are not used, for no point was composed and measured, too"]
    error = percent(math.expm1(composition.error))
    if not composition.used:
        return [f"{sizes} environments: composed FPS are not used, for one is {error} off where it was measured, too"]
    tests = ", ".join(f"{point.num_envs:,} × {point.horizon}" for point in sorted(composition.tests))
    median = ", by the median of several tests," if max(map(len, composition.tests.values())) > 1 else ""
    return [
        f"{sizes} environments: FPS composed from times at horizon {composition.horizon}; at most {error} off{median} where measured,"
        f" too ({tests}). Every bound allows for {percent(math.expm1(composition.margin))}"
    ]


def composed_horizons(limits: Sequence[ThroughputLimit]) -> list[str]:
    """Return a sentence on the horizons of an arm at which FPS are composed; none if all are measured."""
    horizons = [limit.horizon for limit in limits if any(point.composed for point in limit.points)]
    if not horizons:
        return []
    return [
        f"most FPS at horizon {listed(horizons)} are composed from times at horizon {min(own.horizon for own in limits)}"
    ]


def _why_no_doubling(fps: Mapping[int, Sequence[float]]) -> str:
    if len(fps) == 1:
        return f"one point ({listed(fps)} environments): a doubling needs two"
    return f"no measured num_envs is twice another ({listed(fps)}): no doubling to compare; list N, 2N, 4N, ..."


def throughput_statement(fps: Mapping[int, Sequence[float]], decision: Decision, ranks: Ranks, settings: Decide) -> str:
    """Return the throughput limit in one sentence."""
    if not fps:
        return "no data: no throughput trial was timed to its end"
    largest = f"{max(fps):,} environments{ranks.each}"
    if not decision.doublings:
        return f"undecided up to {largest}: {_why_no_doubling(fps)}"
    shown = next((d for d in decision.doublings if d.num_envs == decision.threshold), decision.doublings[-1])
    gain = percent(math.expm1(shown.contrast.log_gain))
    evidence = f"{repeats(shown.contrast.repeats)}, cut-off {settings.delta:.0%}"
    ends = span(shown.lower, shown.upper, _share)
    bound = f"{settings.confidence:.0%} interval {ends}, " if ends else ""
    if decision.state == "reached":
        if shown.fresh:
            evidence = f"{shown.contrast.repeats} fresh repeats; shown by all repeats, cut-off {settings.delta:.0%}"
        elif shown.upper_one_sided is not None:
            bound = f"{settings.confidence:.0%} upper bound {_share(shown.upper_one_sided)}, "
        doubled = f"doubling to {2 * shown.num_envs:,} gains {gain} ({bound}{evidence})"
        return f"reached at {shown.num_envs:,} environments{ranks.each}: {doubled}"
    last = f"the last doubling, {shown.num_envs:,} to {2 * shown.num_envs:,}, gains {gain}"
    if decision.still_pays is not None:
        return f"still pays at {2 * shown.num_envs:,} environments{ranks.each}: {last} (at least {_share(decision.still_pays)}, {evidence})"
    wanted = "measure both ends of each doubling on the same machine"
    if shown.contrast.blocks:
        wanted = what_would_decide(decision.more_repeats, "repeat")
    return f"undecided up to {largest}: {last} ({bound}{evidence}); {wanted}"


def gain_evidence(limit: ThroughputLimit) -> list[str]:
    """Return the gain of the deciding doubling, or else of the last one, with its bound, in a few words."""
    if not limit.gains:
        return []
    gain = next((own for own in limit.gains if own.num_envs == limit.threshold_num_envs), limit.gains[-1])
    if limit.state == "reached":
        bound = "" if gain.gain_upper_one_sided is None else f"at most {percent(gain.gain_upper_one_sided)}"
    elif limit.state == "still pays":
        bound = "" if gain.gain_lower_one_sided is None else f"at least {percent(gain.gain_lower_one_sided)}"
    else:
        bound = span(gain.gain_lower, gain.gain_upper)
    evidence = f"{bound}, {repeats(gain.repeats)}" if bound else repeats(gain.repeats)
    return [f"doubling {gain.num_envs:,} gains {percent(gain.gain)} ({evidence}; cut-off {limit.delta:.0%})"]


def repeats(count: int) -> str:
    """Return `one repeat` or `3 repeats`."""
    return "one repeat" if count == 1 else f"{count} repeats"


def _share(log_gain: float) -> str:
    return percent(doublings.expm1(log_gain))
