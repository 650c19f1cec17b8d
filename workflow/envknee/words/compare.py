"""A comparison of two studies in words. Pure."""

from collections.abc import Mapping, Sequence

from envknee.record.status import SUCCESS, Status
from envknee.verdict.schema.comparison import (
    Bound,
    Comparison,
    Difference,
    LeftOut,
    MeasureName,
    Outcome,
    Place,
    Ratio,
    SideLimit,
)
from envknee.verdict.schema.power import ENOUGH, MOST_REPEATS
from envknee.words.intervals import threshold_interval
from envknee.words.numbers import shown_batch, span
from envknee.words.series import series_words
from envknee.words.statements import statement

MEASURES: dict[MeasureName, str] = {
    "fps_total": "FPS, total",
    "fps_env_step_inference": "FPS, collecting",
    "memory_peak_gb": "peak memory",
    "setup_s": "start-up",
    "seconds_to_target": "seconds to target",
    "frames_to_target": "environment steps to target",
}

NO_RATIO = "no pair of trials counts for a ratio"

ANSWERS = {"pass": "Pass", "fail": "Regression", "inconclusive": "Inconclusive"}
"""The gate's answers as a heading says them."""

WORTH_SAYING = 0.005
"""Smaller changes at single points are only in the JSON: memory always differs by some bytes."""

MISSING = {"commit": "unknown"}
"""What a value that a trial lacks is called, if not `none`."""


QUANTITIES: dict[MeasureName, str] = {
    "fps_total": "total throughput",
    "fps_env_step_inference": "throughput of collecting",
    "memory_peak_gb": "peak memory",
    "setup_s": "start-up time",
    "seconds_to_target": "time to target",
    "frames_to_target": "number of environment steps to target",
}
"""The measures inside a sentence."""

LEADING: tuple[MeasureName, ...] = ("seconds_to_target", "fps_total", "memory_peak_gb")
"""The measures that a heading names, the first one that is known."""


def finding(comparison: Comparison) -> str:
    """Return the leading ratio in a sentence without its full stop: `B's time to target is 0.484 times A's (...)`."""
    by_measure = {ratio.measure: ratio for ratio in comparison.overall}
    leading = [by_measure[measure] for measure in LEADING if measure in by_measure]
    if not leading:
        return NO_RATIO
    ratio = leading[0]
    within = "one pair: no interval"
    if ratio.lower is not None:
        within = f"{comparison.confidence:.0%} interval {interval(ratio)}"
    times = f"{ratio.ratio:.3f} times A's ({within})"
    quantity = QUANTITIES[ratio.measure]
    if ratio.change == "none shown":
        return f"B's {quantity} is {times}: no difference is shown"
    return f"B's {quantity} is {times}"


def place_words(place: Place) -> str:
    """Return `throughput, 64 environments, horizon 16, batch 128`."""
    batch = shown_batch(place.batch_size)
    return f"{place.kind}, {place.num_envs:,} environments, horizon {place.horizon}, {batch}"


def interval(ratio: Ratio) -> str:
    """Return the ends of a ratio's interval, such as `0.981 to 1.02`."""
    return span(ratio.lower, ratio.upper, lambda end: f"{end:.3f}" if end < 10.0 else f"{end:.3g}") or "one pair"


def p_value(ratio: Ratio) -> str:
    """Return the corrected p-value; "" without one."""
    if ratio.p_holm is None:
        return ""
    return f"{ratio.p_holm:.3f}" if ratio.p_holm >= 0.001 else "< 0.001"


def curves_finding(comparison: Comparison, measure: MeasureName) -> str:
    """Return at how many common points B is shown better and worse in a measure, in a sentence without its full stop."""
    changes = [ratio.change for ratio in comparison.by_place if ratio.measure == measure]
    quantity = QUANTITIES[measure]
    if not changes:
        return f"The {quantity} of both sides: {NO_RATIO}"
    better, worse = changes.count("better"), changes.count("worse")
    if len(changes) == 1:
        shown = {"better": "shown better", "worse": "shown worse", "none shown": "not shown to differ"}
        return f"B's {quantity} is {shown[changes[0]]} at the only common point"
    return f"B's {quantity} is shown better at {better} of {len(changes)} common points, worse at {worse or 'none'}"


def sides_line(comparison: Comparison) -> str:
    """Return the line below the title of a figure."""
    return f"A: {comparison.a} · B: {comparison.b}"


COLUMNS = ("measure", "ratio", "interval", "p", "points", "pairs", "")
"""Headings of the table of ratios."""


def table_row(ratio: Ratio) -> tuple[str, ...]:
    """Return the cells of a ratio, below `COLUMNS`."""
    counts = (str(ratio.points), str(ratio.pairs))
    return MEASURES[ratio.measure], f"{ratio.ratio:.3f}", interval(ratio), p_value(ratio), *counts, ratio.change


def caption(comparison: Comparison) -> str:
    """Return the line below the table of ratios."""
    return f"B / A over points in common; interval at {comparison.confidence:.0%}, p corrected (Holm)"


def difference_line(difference: Difference) -> str:
    """Return `observations: stock → lean`."""
    a, b = (values_words(difference.name, values) for values in (difference.a, difference.b))
    return f"{difference.name}: {a} → {b}"


def values_words(name: str, values: Sequence[str | None]) -> str:
    """Return the values of a setting, version or part of the hardware; `none` without one."""
    missing = MISSING.get(name, "none")
    separator = "; " if name == "hardware" else ", "
    return separator.join(missing if value is None else value for value in values) or missing


def no_measure(comparison: Comparison) -> str:
    """Return why there is no ratio at all."""
    machines = comparison.apart.machines
    if not machines or not comparison.gate.one_machine:
        return "no measure to compare: no pair of trials succeeded on both sides"
    are = "pair across machines is" if machines == 1 else "pairs across machines are"
    return (
        "no measure to compare: of the pairs on one machine none succeeded on both sides."
        f" {machines} {are} left out: what differs may be the machines'"
    )


def notes(comparison: Comparison) -> list[str]:
    """Return other possible causes of the ratios: pairs across machines or GPUs."""
    apart = comparison.apart
    said = []
    if apart.machines:
        said.append(
            f"pairs across machines: {apart.machines} of {apart.pairs} (another name, CPU or number of cores): what differs may"
            " be theirs, so ratios leave them out where other pairs share a machine"
        )
    if apart.gpus:
        said.append(
            f"pairs across GPUs: {apart.gpus} of {apart.pairs} (of one machine, or of several that are named alike): what"
            " differs may be theirs"
        )
    return said


def further_lines(comparison: Comparison) -> list[str]:
    """Return what stands below the table: points that changed, phases, limits, and the trials that did not count."""
    said = [
        change_line(ratio)
        for ratio in comparison.by_place
        if ratio.change != "none shown" and abs(ratio.ratio - 1.0) >= WORTH_SAYING
    ]
    if comparison.phases:
        said.append(phases_line(comparison.phases))
    said += [limit_line(side) for side in comparison.limits]
    if comparison.left_out:
        left_out = shortened([left_out_line(left_out) for left_out in comparison.left_out])
        said.append(f"left out, because one side alone has it: {left_out}")
    return said + [f"outcomes at {outcome_line(outcome)}" for outcome in comparison.outcomes]


def change_line(ratio: Ratio) -> str:
    """Return the ratio at one point, which must have one."""
    assert ratio.place is not None
    where = place_words(ratio.place)
    return f"{ratio.change:>6}  {MEASURES[ratio.measure]} at {where}: {ratio.ratio:.3f} ({interval(ratio)})"


def phases_line(phases: Mapping[str, float]) -> str:
    """Return the four phases that changed most."""
    largest = ", ".join(f"{phase} {share:+.1%}" for phase, share in list(phases.items())[:4])
    return f"time of an iteration, by phase, in parts of A's: {largest}"


def limit_line(side: SideLimit) -> str:
    """Return the throughput limit of one side alone."""
    limit = side.limit
    if limit is None:
        return f"{side.side}: no throughput trial was timed to its end"
    return f"{side.side}: {statement(limit)}; threshold {threshold_interval(limit)} ({series_words(limit.series)})"


def left_out_line(left_out: LeftOut) -> str:
    """Return the trials of a point that only one side has, with repeats and failures."""
    repeats = "" if left_out.whole_point else f", {_repeats([str(repeat) for repeat in left_out.repeats])}"
    return f"only {left_out.side}: {place_words(left_out.place)}{repeats}{_lost(left_out.lost)}"


def outcome_line(outcome: Outcome) -> str:
    """Return the point, `5 of 5 target_reached, then 2 of 5 (3 timeout)`, and the consequence for the comparison."""
    kind, pairs = outcome.place.kind, outcome.pairs
    repeats = _repeats([str(a) if a == b else f"{a} and {b}" for a, b in outcome.lost_repeats])
    follows = f"left out: {repeats}"
    if kind == "learning":
        follows = f"no ratio of seconds and environment steps to target here, for seeds did not arrive ({repeats})"
    of_a = f"{outcome.a_succeeded} of {pairs} {SUCCESS[kind]}{_lost(outcome.a_lost)}"
    of_b = f"{outcome.b_succeeded} of {pairs}{_lost(outcome.b_lost)}"
    return f"{place_words(outcome.place)}: {of_a}, then {of_b}; {follows}"


def _repeats(repeats: Sequence[str]) -> str:
    """Return `repeat 2`, or `repeats 2, 3`."""
    return f"repeat{'s' if len(repeats) > 1 else ''} {', '.join(repeats)}"


def _lost(lost: Mapping[Status, int]) -> str:
    """Return ` (3 timeout)`, the trials that did not succeed; "" if all did."""
    counts = ", ".join(f"{count} {status}" for status, count in lost.items())
    return f" ({counts})" if counts else ""


def reasons(comparison: Comparison) -> list[str]:
    """Return why the gate's answer is fail or inconclusive; nothing if it is pass."""
    gate, margin = comparison.gate, comparison.margin
    if gate.answer == "pass":
        return []
    if gate.answer == "fail":
        losses = [_loss(loss, margin) for loss in gate.losses]
        return losses + [f"in outcomes: {outcome_line(outcome)}" for outcome in gate.fewer_succeeded]
    said = []
    if not gate.one_machine:
        said.append("no machine ran both sides: what differs may be the machines'")
    said += [bound_line(bound, margin) for bound in gate.bounds if not bound.passes]
    if not gate.bounds:
        said.append("nothing to compare")
    return said


def answer_lines(comparison: Comparison) -> list[str]:
    """Return what the gate's answer follows from."""
    return [passed_line(comparison)] if comparison.gate.answer == "pass" else reasons(comparison)


def _loss(loss: Ratio, margin: float) -> str:
    return f"beyond {margin:.0%}: {MEASURES[loss.measure]}: {loss.ratio - 1.0:+.1%} ({interval(loss)})"


def bound_line(bound: Bound, margin: float) -> str:
    """Return why a bound does not pass, and how many pairs would do."""
    measure = MEASURES[bound.measure]
    if bound.loss_upper is None:
        return f"{measure}: one pair tells no noise"
    enough = f"over {MOST_REPEATS}" if bound.pairs_for_power is None else bound.pairs_for_power
    return (
        f"{measure} may be up to {bound.loss_upper:.1%} worse, and {margin:.0%} is accepted; without any difference"
        f" {enough} pairs would pass in {ENOUGH:.0%} of comparisons"
    )


def passed_line(comparison: Comparison) -> str:
    """Return what a pass excludes."""
    measures = ", ".join(MEASURES[bound.measure] for bound in comparison.gate.bounds)
    return f"passed: a loss of {comparison.margin:.0%} or more is excluded in {measures}"


def shortened(texts: Sequence[str]) -> str:
    """Return the first two texts of a list, followed by `; and 7 more` if there are others."""
    more = f"; and {len(texts) - 2} more" if len(texts) > 2 else ""
    return "; ".join(texts[:2]) + more
