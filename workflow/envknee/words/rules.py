"""Scaling rules in sentences. Pure."""

from envknee.verdict.schema.learning import RuleLimit, Rules
from envknee.words.numbers import span

METHOD = (
    "soonest: the size with the fewest seconds to the target (interquartile mean over seeds) where every seed reached it; as soon:"
    " sizes whose own interval begins below the end of the soonest one's. Ideally the next size takes the same environment steps and,"
    " in the ratio of sizes, fewer seconds for each: what environment steps lose names PPO, what seconds per environment step lose the"
    " simulator, and seeds that no longer reach the target the rule"
)


def rule_statement(rule: RuleLimit) -> str:
    """Return the limit of a rule in a sentence or two."""
    soonest, later = rule.point(rule.soonest_num_envs), rule.point(rule.next_num_envs)
    if soonest is None or soonest.seconds_to_target is None:
        reached = sum(point.reached for point in rule.points)
        seeds = sum(point.seeds for point in rule.points)
        return f"{rule.scaled_from}: no size has every seed at the target ({reached} of {seeds} trials reached it)"
    cost = soonest.seconds_to_target
    ends = span(cost.interval_lower, cost.interval_upper, lambda seconds: f"{seconds:,.1f}")
    interval = f" ({ends} s)" if ends else ""
    start = f"{rule.scaled_from}: soonest at {soonest.num_envs:,} environments in {cost.value:,.1f} s{interval}"
    if rule.soonest_lowest is not None and rule.soonest_lowest != rule.soonest_highest:
        start += f"; {rule.soonest_lowest:,} to {rule.soonest_highest:,} are not shown to be slower"
    if later is None:
        return f"{start}. No larger size ran: no limit seen"
    if later.reached < later.seeds:
        return f"{start}. The rule is the limit: at {later.num_envs:,}, {later.reached} of {later.seeds} trials reached the target"
    ideal = rule.ideal_seconds_per_frame_ratio
    if rule.frames_ratio is None or rule.seconds_per_frame_ratio is None or ideal is None:
        return start
    what = {
        "PPO": "PPO is the limit: environment steps to the target lose more than seconds per environment step",
        "simulator": "Simulator and learner are the limit: seconds per environment step lose more than environment steps to the target",
    }.get(rule.limit, "")
    return (
        f"{start}. {what}. At {later.num_envs:,}: {rule.frames_ratio:.2f} times the environment steps (ideal 1.00),"
        f" {rule.seconds_per_frame_ratio:.2f} times the seconds per environment step (ideal {ideal:.2f})"
    )


def rules_statement(rules: Rules) -> str:
    """Return whether rules move the learning limit, in one sentence or two."""
    sizes: dict[int, list[str]] = {}
    for rule in rules.rules:
        if rule.soonest_num_envs is not None:
            sizes.setdefault(rule.soonest_num_envs, []).append(rule.arm)
    where = "; ".join(f"{size:,} environments ({', '.join(arms)})" for size, arms in sorted(sizes.items()))
    if not sizes:
        return "No rule has a size where every seed reached the target"
    if len(rules.rules) == 1:
        return f"One rule, soonest at {where}: a second one would show whether the limit is the rule's"
    if rules.has_moved is None:
        return f"Soonest at {where}. Too few seeds for intervals: whether a rule moves the limit is undecided"
    if rules.has_moved:
        return (
            f"The limit moves with the rule: soonest at {where}. Sizes that are not shown to be slower do not overlap"
        )
    return f"No rule is shown to move the limit: soonest at {where}, and sizes that are not shown to be slower overlap"
