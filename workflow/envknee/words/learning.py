"""The learning limit in sentences. Pure."""

from envknee.verdict.schema.learning import LearningLimit, LearningPoint
from envknee.words.intervals import contradiction_notes, interval_name
from envknee.words.numbers import counted, listed, percent, span
from envknee.words.ranks import each
from envknee.words.series import series_words
from envknee.words.states import what_would_decide, why_no_doubling

METHOD = (
    "costs: interquartile mean over seeds, stratified bootstrap (1,000 resamples); doublings: log-normal model, spread pooled over"
    " num_envs unless Bartlett's test tells them apart, seeds that did not arrive censored; threshold: smallest tested num_envs"
    " whose doubling is shown to save less than delta, by a fixed sequence from the largest down or by Holm, each at half of 1 -"
    " confidence; p-values and bounds hold at every look at the study, as for throughput"
)


def learning_notes(limit: LearningLimit) -> list[str]:
    """Return notes on the verdict, a sentence each."""
    notes = []
    ran = [point for point in limit.points if point.seeds]
    few = [point for point in ran if point.seeds < limit.least_repeats]
    if few:
        seeds = " or ".join(sorted({str(point.seeds) for point in few}))
        word = "seed" if seeds == "1" else "seeds"
        notes.append(
            f"{seeds} {word} at {listed(point.num_envs for point in few)}: too few to decide ({limit.least_repeats} at least)"
        )
    timeout, failed = sum(point.timeout for point in ran), sum(point.failed for point in ran)
    if timeout or failed:
        parts = [f"{timeout} spent the budget first"] * bool(timeout)
        parts += [f"{failed} became NaN or diverged"] * bool(failed)
        notes.append(
            f"of {sum(point.seeds for point in ran)} trials {' and '.join(parts)}: costs with them are lower bounds,"
            " and a doubling with them stays undecided below six seeds"
        )
    if ran and not limit.gains:
        notes.append(why_no_doubling([point.num_envs for point in ran]))
    notes += contradiction_notes(limit)
    if limit.resumes_at:
        notes.append(
            f"not the end: doubling from {listed(limit.resumes_at)} saves more than delta ({limit.delta:.0%}) again"
        )
    notes += [
        f"{point.without_memory} of {point.trials} trials at {point.num_envs:,} environments ran out of memory or were refused:"
        " seconds there are of the others"
        for point in ran
        if point.without_memory
    ]
    infeasible = [point.num_envs for point in limit.points if not point.seeds]
    if infeasible:
        notes.append(f"infeasible (out of memory or refused): {listed(infeasible)} environments")
    return notes


def learning_statement(limit: LearningLimit) -> str:
    """Return the learning limit in one sentence, with the arm's scaling rule if it has one."""
    rule = "" if limit.scaled_from is None else f", under rule {limit.scaled_from}"
    return _statement(limit) + rule


def _statement(limit: LearningLimit) -> str:
    ranks = limit.ranks
    ran = [point for point in limit.points if point.seeds]
    if not ran:
        return "no data: no learning trial ran"
    share = f"{sum(point.reached for point in ran)} of {sum(point.trials for point in ran)} trials reached the target"
    largest = f"{ran[-1].num_envs:,} environments{each(ranks)}"
    shown = limit.named
    if shown is None:
        return f"undecided up to {largest}: no doubling to compare; {share}"
    evidence = f"{counted(shown.repeats, 'seed')}, pays from {limit.delta:.0%} saved"
    if limit.state == "reached":
        assert shown.gain_upper_one_sided is not None
        bound = _saves(shown.gain_upper_one_sided, "at most ", "at least ")
        return (
            f"reached at {shown.num_envs:,} environments{each(ranks)}: doubling to {shown.doubled:,} {_saves(shown.gain)}"
            f" of the seconds to target ({bound}, {evidence})"
        )
    last = f"doubling {shown.num_envs:,} {_saves(shown.gain)} of the seconds to target"
    if limit.still_gains is not None:
        least = percent(limit.still_gains)
        return (
            f"still pays at {shown.doubled:,} environments{each(ranks)}: {last} (at least {least}, {evidence}); {share}"
        )
    why = what_would_decide(limit) if shown.decides else "too few seeds reached the target to decide"
    ends = span(shown.gain_lower, shown.gain_upper)
    interval = f"{interval_name(limit)} {ends}, " if ends else ""
    return f"undecided up to {largest}: {last} ({interval}{evidence}); {why}; {share}"


def soonest_at(limit: LearningLimit, best: LearningPoint) -> str:
    """Return `512 environments per GPU, horizon 16, batch 128 in 12.3 s`.

    A scaling rule gives each size a horizon and batch size of its own: then the rule is named instead.
    """
    environments = f"{best.num_envs:,} environments{each(limit.ranks)}"
    if limit.scaled_from is not None:
        return f"{environments} in {seconds_told(best)}, under rule {limit.scaled_from}"
    return f"{environments}, {series_words(limit.series)} in {seconds_told(best)}"


def seconds_told(point: LearningPoint) -> str:
    """Return `12.3 s` of a point that ran, with a caveat if some of its trials did not fit the memory."""
    assert point.seconds_to_target is not None, "it ran"
    caveat = f" (though {point.without_memory} of {point.trials} trials there ran out of memory or were refused)"
    return f"{point.seconds_to_target.value:,.1f} s{caveat if point.without_memory else ''}"


def _saves(saving: float, most: str = "", least: str = "") -> str:
    """Return `saves 12%`, or `takes 15% more`; with `at most` or `at least` before the number."""
    return f"saves {most}{percent(saving)}" if saving >= 0.0 else f"takes {least}{percent(-saving)} more"
