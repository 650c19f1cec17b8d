"""The throughput limit in sentences. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence

from envknee.verdict.composed import Composition
from envknee.verdict.rule import doublings
from envknee.verdict.rule.union import LEAST_REPEATS, Decision
from envknee.verdict.schema.throughput import ThroughputLimit
from envknee.verdict.series import Ranks
from envknee.words.numbers import listed, percent, span
from envknee.words.ranks import each
from envknee.words.states import repeats, what_would_decide, why_no_doubling


def throughput_notes(
    limit: ThroughputLimit,
    fps: Mapping[int, Sequence[float]],
    decision: Decision,
    not_counted: Mapping[str, int],
    ranks: Ranks,
) -> list[str]:
    """Return notes on the limit of a decision, a sentence each; `fps` has one value for each process."""
    notes = []
    few = [num_envs for num_envs, values in fps.items() if len(values) < LEAST_REPEATS]
    if fps and all(len(values) == 1 for values in fps.values()):
        notes.append("one repeat per point: gains are estimates, and nothing tells them from noise")
    elif few:
        notes.append(f"fewer than {LEAST_REPEATS} repeats at {listed(few)}: doublings from or to there decide nothing")
    pairs = ", ".join(f"{gain.num_envs:,} and {gain.doubled:,}" for gain in limit.gains if not gain.machines)
    if pairs:
        notes.append(
            f"no machine ran both {pairs}: what doubling gains there may be the machines', and decides nothing"
        )
    notes += [
        f"machines disagree about doubling {doubling.num_envs:,} (p = {doubling.contrast.disagreement:.2g}): gains of"
        f" {' and '.join(percent(doublings.expm1(part.log_gain)) for part in doubling.contrast.parts)};"
        " each of them must show that it stops paying"
        for doubling in decision.doublings
        if doubling.contrast.parts
    ]
    unpaired = [n for n in fps if 2 * n not in fps and (n % 2 or n // 2 not in fps)]
    if limit.gains and unpaired:
        notes.append(f"{listed(unpaired)} environments: measured, but neither half nor double was; in no doubling")
    if limit.resumes_at:
        again = [gain for gain in limit.gains if gain.num_envs in limit.resumes_at]
        gains = ", ".join(f"{gain.num_envs:,} to {gain.doubled:,} gains {percent(gain.gain)}" for gain in again)
        notes.append(f"not the end: {gains}, more than delta ({limit.delta:.0%}) again")
    if limit.infeasible:
        sizes = listed(point.num_envs for point in limit.infeasible)
        notes.append(f"infeasible (out of memory or refused): {sizes} environments{each(ranks)}")
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


def throughput_statement(limit: ThroughputLimit, ranks: Ranks) -> str:
    """Return the throughput limit in one sentence."""
    if not limit.points:
        return "no data: no throughput trial was timed to its end"
    largest = f"{limit.points[-1].num_envs:,} environments{each(ranks)}"
    shown = limit.named
    if shown is None:
        return f"undecided up to {largest}: {why_no_doubling([point.num_envs for point in limit.points])}"
    gain = percent(shown.gain)
    evidence = f"{repeats(shown.repeats)}, cut-off {limit.delta:.0%}"
    ends = span(shown.gain_lower, shown.gain_upper)
    bound = f"{limit.confidence:.0%} interval {ends}, " if ends else ""
    if limit.state == "reached":
        if shown.fresh:
            evidence = f"{shown.repeats} fresh repeats; shown by all repeats, cut-off {limit.delta:.0%}"
        elif shown.gain_upper_one_sided is not None:
            bound = f"{limit.confidence:.0%} upper bound {percent(shown.gain_upper_one_sided)}, "
        doubled = f"doubling to {shown.doubled:,} gains {gain} ({bound}{evidence})"
        return f"reached at {shown.num_envs:,} environments{each(ranks)}: {doubled}"
    last = f"the last doubling, {shown.num_envs:,} to {shown.doubled:,}, gains {gain}"
    if limit.still_gains is not None:
        return f"still pays at {shown.doubled:,} environments{each(ranks)}: {last} (at least {percent(limit.still_gains)}, {evidence})"
    wanted = what_would_decide(limit) if shown.machines else "measure both ends of each doubling on the same machine"
    return f"undecided up to {largest}: {last} ({bound}{evidence}); {wanted}"
