"""Every sentence of a verdict, for terminal and report. Pure: they repeat a verdict."""

from collections.abc import Iterator

from envknee.record.schema import Frozen
from envknee.verdict.schema.learning import RuleLimit
from envknee.verdict.schema.limit import SeriesLimit
from envknee.verdict.schema.study import Verdict
from envknee.words.series import series_words
from envknee.words.statements import STATEMENTS

SENTENCES = {
    "what_would_move_it": "next", "saves": "saves", "notes": "note", "reason": "broke", "dump": "dump", "hints": "may help",
}  # fmt: skip
"""Fields that are sentences themselves, with their names for a reader."""


def sentences(verdict: Verdict) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return the sentences of each arm, then those of all together: a heading, and (name, text) of each sentence."""
    beside = {"scaling": verdict.scaling, "cost": verdict.spending, "broke": verdict.broken}
    told = []
    for arm in verdict.arms:
        lines = [*_of("arm", arm)]
        for name, parts in beside.items():
            lines += _of(name, [part for part in parts if part.arm == arm.arm])
        told.append((f"{arm.arm} on {', '.join(arm.hardware) or 'no hardware yet'}", lines))
    total = [spending for spending in verdict.spending if spending.arm is None]
    told.append(("All arms", [*_of("advice", [verdict.remedies, verdict.rules]), *_of("cost", total)]))
    return [(heading, lines) for heading, lines in told if lines]


def _of(name: str, part: object) -> Iterator[tuple[str, str]]:
    """Yield the sentences of a part of a verdict: its own, then those of its fields by their names."""
    if isinstance(part, list):
        for item in part:
            yield from _of(name, item)
    elif isinstance(part, str) and name in SENTENCES:
        yield SENTENCES[name], part
    elif isinstance(part, Frozen):
        if type(part) in STATEMENTS:
            yield name.replace("_", " "), STATEMENTS[type(part)](part)
        elif isinstance(said := getattr(part, "statement", None), str):
            said = f"{said} ({series_words(part.series)})" if isinstance(part, SeriesLimit) else said
            yield name.replace("_", " "), f"{part.arm}: {said}" if isinstance(part, RuleLimit) else said
        for field, value in part:
            yield from _of(field, value)
