"""The throughput limit in sentences. Pure."""

from envknee.verdict.schema.throughput import ComposedFps, OtherLoad, ThroughputLimit
from envknee.words.intervals import contradiction_notes, interval_name
from envknee.words.numbers import listed, percent, span
from envknee.words.ranks import each
from envknee.words.states import repeats, what_would_decide, why_no_doubling
from envknee.words.statuses import STATUS_WORDS

METHOD = (
    "t on ln FPS within machines: paired where processes measured both ends, else Welch over repeats in separate processes;"
    " threshold: smallest tested num_envs whose doubling is shown to gain less than delta, by a fixed sequence from the largest"
    " doubling down or by Holm, each at half of 1 - confidence; still pays: one-sided lower bound of the largest doubling; the"
    " threshold's interval: inverted Bonferroni band; p-values and bounds hold at every look at the study (q = min k p / 0.8 after k"
    " repeats, or p / 0.8 where the number of repeats was fixed beforehand)"
)


LAW_METHOD = (
    "robust least squares (Huber) of the logarithm of iteration times, t0 and c at least 0;"
    " intervals: bootstrap of its residuals"
)


def throughput_notes(limit: ThroughputLimit) -> list[str]:
    """Return notes on the limit, a sentence each."""
    notes = []
    if limit.points and all(point.independent_repeats == 1 for point in limit.points):
        notes.append("one repeat per point: gains are estimates, and nothing tells them from noise")
    elif limit.too_few:
        notes.append(
            f"fewer than {limit.least_repeats} repeats at {listed(limit.too_few)}: doublings from or to there decide nothing"
        )
    pairs = ", ".join(f"{gain.num_envs:,} and {gain.doubled:,}" for gain in limit.gains if not gain.machines)
    if pairs:
        notes.append(
            f"no machine ran both {pairs}: what doubling gains there may be the machines', and decides nothing"
        )
    notes += [
        f"machines disagree about doubling {gain.num_envs:,} (p = {gain.disagreement.p_value:.2g}): gains of"
        f" {' and '.join(percent(share) for share in gain.disagreement.gains)}; each of them must show that it stops paying"
        for gain in limit.gains
        if gain.disagreement is not None
    ]
    notes += contradiction_notes(limit)
    if limit.gains and limit.unpaired:
        notes.append(
            f"{listed(limit.unpaired)} environments: measured, but neither half nor double was; in no doubling"
        )
    if limit.resumes_at:
        again = [gain for gain in limit.gains if gain.num_envs in limit.resumes_at]
        gains = ", ".join(f"{gain.num_envs:,} to {gain.doubled:,} gains {percent(gain.gain)}" for gain in again)
        notes.append(f"not the end: {gains}, more than delta ({limit.delta:.0%}) again")
    notes += infeasible_notes(limit)
    if limit.not_counted:
        notes.append(
            "not counted: "
            + ", ".join(f"{count} {STATUS_WORDS[status]}" for status, count in limit.not_counted.items())
        )
    if limit.composed is not None:
        notes.append(_composed(limit.composed))
    if limit.other_load is not None:
        notes.append(_other_load(limit, limit.other_load))
    return notes


def infeasible_notes(limit: ThroughputLimit) -> list[str]:
    """Return notes on num_envs that did not run, for lack of memory or because the program crashed."""
    notes = []
    memory = [point.num_envs for point in limit.infeasible if point.lacks_memory]
    crashed = [point.num_envs for point in limit.infeasible if not point.lacks_memory]
    if memory:
        notes.append(f"infeasible (out of memory or refused): {listed(memory)} environments{each(limit.ranks)}")
    if crashed:
        notes.append(f"crashed: {listed(crashed)} environments{each(limit.ranks)}")
    return notes


def _composed(composed: ComposedFps) -> str:
    """Return what composed FPS rest on, or why they are not used."""
    sizes = listed(composed.num_envs)
    if composed.error is None:
        return f"{sizes} environments: composed FPS are not used, for no point was composed and measured, too"
    error = percent(composed.error)
    if not composed.used:
        return f"{sizes} environments: composed FPS are not used, for one is {error} off where it was measured, too"
    tests = ", ".join(f"{test.num_envs:,} × {test.horizon}" for test in composed.tests)
    median = ", by the median of several tests," if any(test.processes > 1 for test in composed.tests) else ""
    return (
        f"{sizes} environments: FPS composed from times at horizon {composed.horizon}; at most {error} off{median} where measured,"
        f" too ({tests}). Every bound allows for {percent(composed.margin)}"
    )


def _other_load(limit: ThroughputLimit, load: OtherLoad) -> str:
    """Return how busy other processes kept the machine, and what that means for the gains."""
    sentences = load_sentences(load)
    if load.touched:
        sentences += _by_load(limit, load.least_repeats)
    if load.unknown:
        sentences.append(f"Of {load.unknown} more trials the load is not known.")
    return " ".join(sentences)


def load_sentences(load: OtherLoad) -> list[str]:
    """Return how busy other processes kept the machine, and how many trials they touched."""
    sentences = []
    if load.is_high:
        sentences.append(
            f"Other processes kept {load.cores:.1f} cores busy or more: this holds for a machine that busy."
        )
    if load.touched:
        sentences.append(
            f"During {load.touched} of {load.trials} trials others took over half a core more than during the calmest."
        )
    return sentences


def _by_load(limit: ThroughputLimit, least_repeats: int) -> list[str]:
    """Return how each doubling with a load that varied was decided."""
    loaded = [gain for gain in limit.gains if gain.loaded]
    ways = (
        (
            "all repeats count, corrected to the least load",
            [gain for gain in loaded if gain.decides and not gain.of_calm],
        ),
        (
            f"below {least_repeats} repeats only the calm ones count",
            [gain for gain in loaded if gain.decides and gain.of_calm],
        ),
        (
            f"too few calm repeats; {least_repeats} of any kind would do",
            [gain for gain in loaded if not gain.decides],
        ),
    )
    return [f"Doubling {listed([gain.num_envs for gain in own])}: {how}." for how, own in ways if own]


def throughput_statement(limit: ThroughputLimit) -> str:
    """Return the throughput limit in one sentence."""
    finding, shown = throughput_finding(limit), limit.named
    if shown is None or limit.state == "reached" or limit.still_gains is not None:
        return finding
    wanted = what_would_decide(limit) if shown.machines else "measure both ends of each doubling on the same machine"
    return f"{finding}; {wanted}"


def throughput_finding(limit: ThroughputLimit) -> str:
    """Return the throughput limit in one sentence, without what would decide it."""
    if not limit.points:
        return "no data: no throughput trial was timed to its end"
    largest = f"{limit.points[-1].num_envs:,} environments{each(limit.ranks)}"
    shown = limit.named
    if shown is None:
        return f"undecided up to {largest}: {why_no_doubling([point.num_envs for point in limit.points])}"
    gain = percent(shown.gain)
    evidence = f"{repeats(shown.repeats)}, cut-off {limit.delta:.0%}"
    ends = span(shown.gain_lower, shown.gain_upper)
    bound = f"{interval_name(limit)} {ends}, " if ends else ""
    if limit.state == "reached":
        if shown.fresh:
            evidence = f"{shown.repeats} fresh repeats; shown by all repeats, cut-off {limit.delta:.0%}"
        elif shown.gain_upper_one_sided is not None:
            bound = f"{limit.confidence:.0%} upper bound {percent(shown.gain_upper_one_sided)}, "
        doubled = f"doubling to {shown.doubled:,} gains {gain} ({bound}{evidence})"
        return f"reached at {shown.num_envs:,} environments{each(limit.ranks)}: {doubled}"
    last = f"the last doubling, {shown.num_envs:,} to {shown.doubled:,}, gains {gain}"
    if limit.still_gains is not None:
        least = percent(limit.still_gains)
        return f"still pays at {shown.doubled:,} environments{each(limit.ranks)}: {last} (at least {least}, {evidence})"
    return f"undecided up to {largest}: {last} ({bound}{evidence})"
