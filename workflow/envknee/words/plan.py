"""A plan in lines: what a study would measure and could show. Pure."""

from collections.abc import Sequence

from envknee.verdict.schema.plan import (
    DevicesOfWorkers,
    IllegalPoints,
    NoiseSource,
    Place,
    PlanTime,
    Power,
    RulePlan,
    RulePoint,
    SectionPlan,
    StudyPlan,
)
from envknee.verdict.schema.power import ENOUGH, MOST_REPEATS
from envknee.words.numbers import counted, listed
from envknee.words.progress import seconds_range

MOST_NAMED = 3
"""Illegal points that a line names."""

PLACES: dict[Place, tuple[str, str]] = {
    "machine": ("this machine has", "measure on a larger machine"),
    "site": ("max_gpus of the site is", "raise max_gpus"),
    "allocation": ("these nodes have", "ask for more nodes"),
}
"""How many devices there are, and what to do for more."""

NOISE_SOURCES: dict[NoiseSource, str] = {
    "this machine": "from earlier studies of this machine",
    "published GPU studies": "from published GPU studies",
    "published CPU studies": "from published CPU studies",
}


def plan_lines(plan: StudyPlan) -> list[str]:
    """Return what a study measures, kind by kind, what it leaves out, and its statistical power."""
    arms = _arms(plan.arms)
    lines = [f"Study {plan.study}: {counted(plan.trials, 'trial')} at most, {arms}"]
    if plan.changed:
        changed = ", ".join(f"{field} {value}" for field, value in plan.changed.items())
        lines.append(f"Task {plan.task}; the study sets {changed}")
    for section in plan.sections:
        lines.append(section_line(section))
        for rule in section.rules:
            lines += rule_lines(rule)
    lines += [illegal_line(section.kind, section.illegal) for section in plan.sections if section.illegal is not None]
    lines += [few_line(section) for section in plan.sections if section.few_for_model]
    for section in plan.sections:
        if section.workers is not None and section.too_few_devices is not None:
            lines.append(workers_line(section.kind, section.workers, section.too_few_devices))
    lines += time_lines(plan.time)
    if not plan.has_doubling:
        lines.append("Power: one num_envs is no doubling; list at least two, such as {from: 512, to: 4096}")
    if plan.power is not None:
        lines.append(power_line(plan.power))
    return lines


def time_lines(time: PlanTime) -> list[str]:
    """Return how long a study takes, and on GPUs how many GPU-hours: by earlier trials, or else by the limits of its own."""
    if time.least_s is None or time.most_s is None:
        known = [f"{own.kind} {seconds_range(own.least_s, own.most_s)}" for own in time.kinds if own.most_s is not None]
        known.append(f"{seconds_range(0.0, time.limit_s)} in all, if every trial took its limit_s")
        lines = [f"Time: not known before trials of each kind ran here; {', '.join(known)}"]
        if time.gpu_hours_limit is not None:
            lines.append(f"Cost: at most {time.gpu_hours_limit:.3g} GPU-hours")
        return lines
    each = ""
    if len(time.kinds) > 1:
        each = f" ({', '.join(f'{own.kind} {seconds_range(own.least_s, own.most_s)}' for own in time.kinds)})"
    earlier = counted(time.earlier_trials, "earlier trial")
    lines = [f"Time: {seconds_range(time.least_s, time.most_s)}{each}, by {earlier} of this task on this machine"]
    if time.gpu_hours_least is not None and time.gpu_hours_most is not None:
        lines.append(f"Cost: {_between(f'{time.gpu_hours_least:.2g}', f'{time.gpu_hours_most:.2g}')} GPU-hours")
    return lines


def _between(least: str, most: str) -> str:
    return f"about {most}" if least == most else f"{least} to {most}"


def section_line(section: SectionPlan) -> str:
    """Return the trials of one kind of its arms, by name, and the sizes that they choose from."""
    arms = _arms(section.arms)
    repeats = counted(section.repeats, "repeat")
    if section.chooses_trials:
        repeats = f"up to {section.repeats} repeats"
    once_more = ""
    if section.measured_again:
        alone = " (in the first repeat alone, with time_limit_s)" if section.again_in_first_repeat else ""
        once_more = f" + {counted(section.measured_again, 'first point')} once more, which show drift{alone}"
    batch = "library" if section.batch_size is None else listed(section.batch_size)
    trials = f"{counted(section.points, 'point')} × {repeats} × {arms}"
    if section.search_trials is not None:
        searching = [name for name in section.arms if name not in section.learns_like]
        trials = f"{section.search_trials} among {counted(section.points, 'point')} × {_arms(searching)}"
    fresh = ""
    if section.confirmed is not None and section.fresh_seeds is not None:
        fresh = f" + {counted(section.confirmed, 'setting')} × {counted(section.fresh_seeds, 'fresh seed')} × {arms}"
        fresh += "".join(f" + those of {arm} with {leader}" for arm, leader in section.learns_like.items())
    workers = "" if section.workers is None else f"; {counted(section.workers, 'worker')}"
    return (
        f"{section.kind}: {counted(section.trials, 'trial')} = {trials}"
        f" (sampler {section.sampler}){once_more}{fresh};"
        f" num_envs {listed(section.num_envs)}; horizon {listed(section.horizon)}; batch_size {batch}{workers}"
    )


def rule_lines(rule: RulePlan) -> list[str]:
    """Return a heading, and a line for each size."""
    heading = f"  arm {rule.arm}, rule {rule.rule} from {rule.num_envs:,} environments:"
    return [heading, *map(_rule_point, rule.points)]


def _rule_point(point: RulePoint) -> str:
    count = point.num_mini_batches
    rate = "the task's own" if point.learning_rate is None else f"{point.learning_rate:.4g}"
    epochs = "the task's own" if point.epochs is None else f"{point.epochs}"
    return (
        f"    {point.num_envs:>6,} environments: horizon {point.horizon}, batch {point.batch_size:,},"
        f" {count} mini-batch{'' if count == 1 else 'es'}, learning rate {rate}, epochs {epochs}"
    )


def illegal_line(kind: str, illegal: IllegalPoints) -> str:
    """Return which points of a section are not measured, and why."""
    points = illegal.points
    named = [f"{point.batch_size} of {point.num_envs} x {point.horizon}" for point in points[:MOST_NAMED]]
    more = f" and {len(points) - MOST_NAMED} more" if len(points) > MOST_NAMED else ""
    ranks = ", in equal parts of each rank," if illegal.several_ranks else ""
    verb = "is" if len(points) == 1 else "are"
    return (
        f"{kind}: {len(points)} of {illegal.listed} points {verb} not measured, because batch_size must divide num_envs x"
        f" horizon{ranks} and does not: {', '.join(named)}{more}"
    )


def workers_line(kind: str, workers: int, devices: DevicesOfWorkers) -> str:
    """Return that there are too few devices for a section's workers, and what to set."""
    has, more = PLACES[devices.place]
    return (
        f"{kind}: workers {workers} need {counted(workers * devices.each, 'device')} (GPUs, or a CPU as one), and {has}"
        f" {devices.here}. A sweep refuses that. Set workers: {max(1, devices.here // devices.each)}, or {more}"
    )


def few_line(section: SectionPlan) -> str:
    """Return that few points are left for one model over all axes, and how to have more."""
    return (
        f"{section.kind}: {counted(section.points, 'legal point')} for one model over all axes, whose trend has more terms: it will tell"
        " little. List more num_envs and horizons, or batch sizes that divide more rollouts, such as powers of two"
    )


def power_line(power: Power) -> str:
    """Return the statistical power, with the noise that it assumes."""
    if power.repeats < power.least_repeats:
        few = "1 repeat decides" if power.repeats == 1 else f"{power.repeats} repeats decide"
        first = f"Power: {few} nothing, {power.least_repeats} are the least."
    else:
        first = f"Power: with {power.repeats} repeats a plateau is shown in {power.plateau_shown:.0%} of such studies."
    more = ""
    if power.plateau_shown < ENOUGH:
        enough = power.enough_repeats or f"over {MOST_REPEATS}"
        more = f" {enough} repeats would show it in {ENOUGH:.0%}."
    pairs = "; sizes compared within each process" if power.paired else ""
    source = NOISE_SOURCES[power.noise_source]
    return f"{first}{more} (cut-off {power.delta:.0%}; noise between processes {power.cv:.1%}, {source}{pairs})"


def _arms(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'arm')} ({', '.join(names)})"
