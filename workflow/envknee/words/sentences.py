"""Every sentence of a verdict, part by part, for terminal and report. Pure."""

from collections.abc import Iterable

from envknee.record.schema import Frozen
from envknee.verdict.schema.learning import Rules
from envknee.verdict.schema.levers import Remedies
from envknee.verdict.schema.limit import SeriesLimit
from envknee.verdict.schema.scaling import Scaling
from envknee.verdict.schema.study import ArmVerdict, Broken, Verdict
from envknee.words.headline import headline_statement, hours_saved, what_would_move_it
from envknee.words.joint import joint_lines
from envknee.words.numbers import listed
from envknee.words.series import series_words
from envknee.words.statements import notes, statement

Lines = list[tuple[str, str]]
"""(name, text) of each sentence."""


def sentences(verdict: Verdict) -> list[tuple[str, Lines]]:
    """Return the sentences of each arm, then those of all together, each behind a heading."""
    found = []
    for arm in verdict.arms:
        lines = arm_lines(arm)
        for scaling in verdict.scaling:
            if scaling.arm == arm.arm:
                lines += _scaling(scaling)
        lines += [("cost", statement(spending)) for spending in verdict.spending if spending.arm == arm.arm]
        for broken in verdict.broken:
            if broken.arm == arm.arm:
                lines += _broken(broken)
        for crashed in verdict.crashed:
            if crashed.arm == arm.arm:
                lines.append(("crashed", f"{listed(crashed.num_envs)} environments: `{crashed.line}`"))
        found.append((f"{arm.arm} on {', '.join(arm.hardware) or 'no hardware yet'}", lines))
    together = [*_remedies(verdict.remedies), *_rules(verdict.rules)]
    together += [("cost", statement(spending)) for spending in verdict.spending if spending.arm is None]
    found.append(("All arms", together))
    return [(heading, lines) for heading, lines in found if lines]


def arm_lines(arm: ArmVerdict) -> Lines:
    """Return the sentences of an arm, without its scaling, its cost and what broke."""
    lines = [line for found in arm.joint for line in joint_lines(found, arm.ranks)]
    lines += _headline(arm)
    # Single axes of a joint search: the model chose their trials, so that they are no claim.
    searched = [found.kind for found in arm.joint if found.replaces_series]
    limits = [("throughput", limit) for limit in arm.throughput if "throughput" not in searched]
    limits += [("learning", limit) for limit in arm.learning]
    for name, limit in limits:
        lines += _limit(name, limit)
    memory = [] if arm.memory is None else [arm.memory]
    lines += _each("memory", memory)
    lines += _each("phases", arm.phases)
    lines += _each("batch", arm.batch)
    lines += _each("noise scale", arm.noise_scales)
    return lines + _notes(arm)


def _headline(arm: ArmVerdict) -> Lines:
    headline = arm.headline
    if headline is None:
        return []
    lines = [("headline", headline_statement(arm, headline)), ("next", what_would_move_it(arm, headline))]
    if headline.saves is not None:
        lines.append(("saves", hours_saved(headline.saves, arm.ranks)))
    return lines


def _limit(name: str, limit: SeriesLimit) -> Lines:
    return [(name, f"{statement(limit)} ({series_words(limit.series)})"), *_notes(limit)]


def _each(name: str, parts: Iterable[Frozen]) -> Lines:
    """Return the sentence and the notes of each part."""
    lines: Lines = []
    for part in parts:
        lines += [(name, statement(part)), *_notes(part)]
    return lines


def _notes(part: Frozen) -> Lines:
    return [("note", note) for note in notes(part)]


def _scaling(scaling: Scaling) -> Lines:
    points = [("points", statement(point)) for point in scaling.points]
    return [("scaling", statement(scaling)), *points, *_notes(scaling)]


def _broken(broken: Broken) -> Lines:
    lines = [("broke", broken.reason)]
    if broken.dump is not None:
        lines.append(("dump", broken.dump))
    return lines + [("may help", hint) for hint in broken.hints]


def _remedies(remedies: Remedies | None) -> Lines:
    if remedies is None:
        return []
    each = [("remedies", statement(remedy)) for remedy in remedies.remedies]
    return [("advice", statement(remedies)), *each, *_notes(remedies)]


def _rules(rules: Rules | None) -> Lines:
    if rules is None:
        return []
    return [
        ("advice", statement(rules)),
        *(("rules", f"{rule.arm}: {statement(rule)}") for rule in rules.rules),
    ]
