"""Scaling rules side by side: seconds, environment steps and seconds for each to the target against num_envs."""

from matplotlib.figure import Figure

from envknee.show.evidence import Evidence
from envknee.show.figures import canvas
from envknee.show.figures.style import looks_of
from envknee.verdict.series import Series
from envknee.words.rules import rules_statement


def draw_rules(evidence: Evidence) -> Figure:
    """Return the costs of each rule against num_envs: three quantities, one above the other."""
    verdict = evidence.verdict
    rules = [rule for rule in verdict.rules.rules if any(p.seeds for p in rule.points)] if verdict.rules else []
    if not rules or verdict.rules is None:
        return canvas.in_words("Rules", "No learning trial of an arm under a rule ran.", verdict)
    every = [Series(rule.arm, rule.scaled_from.horizon, rule.scaled_from.batch_size) for rule in rules]
    looks = looks_of(verdict, every)
    figure, (seconds, frames, speeds) = canvas.panels(
        rules_statement(verdict.rules), verdict, height=8.4, ratios=(1.0, 1.0, 1.0), gaps=(0.0, 0.12)
    )
    for rule, series in zip(rules, every, strict=True):
        look = looks[series]
        canvas.cost_line(seconds, [(p.num_envs, p.seconds_to_target) for p in rule.points], look)
        canvas.cost_line(frames, [(p.num_envs, p.frames_to_target) for p in rule.points], look)
        speed = [
            (p.num_envs * look.dodge, p.seconds_per_million_frames) for p in rule.points if p.seconds_per_million_frames
        ]
        speeds.plot(
            [x for x, _ in speed], [y for _, y in speed], look.marker, color=look.colour, markersize=6, linestyle="-", linewidth=1.4,
            markeredgecolor="white", markeredgewidth=0.8,
        )  # fmt: skip
    seconds.set_ylabel("Wall seconds\nto the target")
    frames.set_ylabel("Environment steps\nto the target")
    speeds.set_ylabel("Seconds per million\nenvironment steps")
    sizes = {point.num_envs for rule in rules for point in rule.points if point.seeds}
    canvas.sizes_axis(speeds, sizes, canvas.num_envs_label(verdict))  # the panels share it
    for axes in (seconds, frames, speeds):
        canvas.costs_axis(axes)
    keys = [canvas.key(f"interquartile mean of\nseeds, {verdict.confidence:.0%} interval")]
    if any(point.seeds > point.reached for rule in rules for point in rule.points):
        keys.append(canvas.key("some seeds did not reach\nit: more than this", "^", hollow=True))
    canvas.series_legend(seconds, looks.values(), keys)
    return figure
