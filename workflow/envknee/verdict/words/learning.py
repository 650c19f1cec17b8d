"""The learning limit in sentences. Pure."""

from collections.abc import Sequence

from envknee.study.model import Decide
from envknee.verdict.learning_cost import LEAST_SEEDS
from envknee.verdict.rule import doublings
from envknee.verdict.rule.union import Decision
from envknee.verdict.schema.learning import LearningLimit, LearningPoint, Saving
from envknee.verdict.series import Ranks
from envknee.verdict.words.numbers import counted, listed, percent, span
from envknee.verdict.words.states import what_would_decide

HOUR_S = 3600.0


def learning_notes(points: Sequence[LearningPoint], decision: Decision, settings: Decide) -> list[str]:
    """Return notes on the verdict, a sentence each."""
    notes = []
    ran = [point for point in points if point.seeds]
    few = [point for point in ran if point.seeds < LEAST_SEEDS]
    if few:
        seeds = " or ".join(sorted({str(point.seeds) for point in few}))
        word = "seed" if seeds == "1" else "seeds"
        notes.append(
            f"{seeds} {word} at {listed(point.num_envs for point in few)}: too few to decide ({LEAST_SEEDS} at least)"
        )
    timeout, failed = sum(point.timeout for point in ran), sum(point.failed for point in ran)
    if timeout or failed:
        parts = [f"{timeout} spent the budget first"] * bool(timeout)
        parts += [f"{failed} became NaN or diverged"] * bool(failed)
        notes.append(
            f"of {sum(point.seeds for point in ran)} trials {' and '.join(parts)}: costs with them are lower bounds,"
            " and a doubling with them stays undecided below six seeds"
        )
    if len(ran) == 1:
        notes.append(f"one point ({listed(point.num_envs for point in ran)} environments): a doubling needs two")
    elif ran and not decision.doublings:
        notes.append(
            f"no measured num_envs is twice another ({listed(point.num_envs for point in ran)}): no doubling to compare"
        )
    if decision.resumes_at:
        notes.append(
            f"not the end: doubling from {listed(decision.resumes_at)} saves more than delta ({settings.delta_learning:.0%}) again"
        )
    notes += [
        f"{point.without_memory} of {point.trials} trials at {point.num_envs:,} environments ran out of memory or were refused:"
        " seconds there are of the others"
        for point in ran
        if point.without_memory
    ]
    infeasible = [point.num_envs for point in points if not point.seeds]
    if infeasible:
        notes.append(f"infeasible (out of memory or refused): {listed(infeasible)} environments")
    return notes


def learning_statement(
    ran: Sequence[LearningPoint], decision: Decision, savings: Sequence[Saving], ranks: Ranks, settings: Decide
) -> str:
    """Return the learning limit in one sentence."""
    if not ran:
        return "no data: no learning trial ran"
    share = f"{sum(point.reached for point in ran)} of {sum(point.trials for point in ran)} trials reached the target"
    largest = f"{ran[-1].num_envs:,} environments{ranks.each}"
    if not savings:
        return f"undecided up to {largest}: no doubling to compare; {share}"
    shown = next((saving for saving in savings if saving.num_envs == decision.threshold), savings[-1])
    evidence = f"{counted(shown.seeds, 'seed')}, pays from {settings.delta_learning:.0%} saved"
    if decision.state == "reached":
        assert shown.saving_upper_one_sided is not None
        bound = _saves(shown.saving_upper_one_sided, "at most ", "at least ")
        return (
            f"reached at {shown.num_envs:,} environments{ranks.each}: doubling to {shown.doubled:,} {_saves(shown.saving)}"
            f" of the seconds to target ({bound}, {evidence})"
        )
    last = f"doubling {shown.num_envs:,} {_saves(shown.saving)} of the seconds to target"
    if decision.still_pays is not None:
        least = percent(-doublings.expm1(-decision.still_pays))
        return (
            f"still pays at {shown.doubled:,} environments{ranks.each}: {last} (at least {least}, {evidence}); {share}"
        )
    why = "too few seeds reached the target to decide"
    if shown.decides:
        why = what_would_decide(decision.more_repeats, "seed")
    ends = span(shown.saving_lower, shown.saving_upper)
    interval = f"{settings.confidence:.0%} interval {ends}, " if ends else ""
    return f"undecided up to {largest}: {last} ({interval}{evidence}); {why}; {share}"


def saving_evidence(limit: LearningLimit) -> list[str]:
    """Return the saving of the deciding doubling, or else of the last one, with its bound, in a few words."""
    if not limit.savings:
        return []
    saving = next((own for own in limit.savings if own.num_envs == limit.threshold_num_envs), limit.savings[-1])
    most, bound = saving.saving_upper_one_sided, span(saving.saving_lower, saving.saving_upper)
    if limit.state == "reached" and most is not None:
        bound = f"at most {percent(most)}" if most >= 0.0 else f"at least {percent(-most)}"
        if saving.saving < 0.0 <= most:
            bound = f"saves {bound}"
    elif limit.state == "still pays" and limit.still_saves is not None:
        bound = f"at least {percent(limit.still_saves)}"
    seeds = counted(saving.seeds, "seed")
    evidence = f"{bound}, {seeds}" if bound else seeds
    longer = saving.saving < 0.0
    said = f"takes {percent(-saving.saving)} longer" if longer else f"saves {percent(saving.saving)} of the time"
    return [f"doubling {saving.num_envs:,} {said} ({evidence}; pays from {limit.delta:.0%} saved)"]


def hours_saved(limit: LearningLimit, num_envs: int, ranks: Ranks) -> str | None:
    """Return the GPU-hours (on a CPU, CPU-hours) that a point spends to the target, beside the next larger point; None without both."""
    costs = {point.num_envs: point.gpu_seconds_to_target or point.seconds_to_target for point in limit.points}
    other = min((size for size, cost in costs.items() if size > num_envs and cost is not None), default=num_envs)
    cost, against = costs.get(num_envs), costs.get(other)
    if other == num_envs or cost is None or against is None or cost.lower_bound:
        return None
    on_gpu = any(point.gpu_seconds_to_target is not None for point in limit.points)
    # If a seed of the other point did not arrive, that point spends at least so much: the saving is a lower bound, too.
    saved, least = 1.0 - cost.value / against.value, "at least " if against.lower_bound else ""
    share = f"{least}{saved:.0%} less" if saved >= 0.0 else f"{'at most ' if least else ''}{-saved:.0%} more"
    return (
        f"{num_envs:,} environments{ranks.each} spend {cost.value / HOUR_S:.3g} {'GPU' if on_gpu else 'CPU'}-hours to the target,"
        f" {share} than {other:,} with {least}{against.value / HOUR_S:.3g}"
    )


def _saves(saving: float, most: str = "", least: str = "") -> str:
    """Return `saves 12%`, or `takes 15% more`; with `at most` or `at least` before the number."""
    return f"saves {most}{percent(saving)}" if saving >= 0.0 else f"takes {least}{percent(-saving)} more"
