"""The short answer as lines: a title, the card, a table of several arms, and as many whole sentences as there is room for. Pure."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from envknee.show import grid
from envknee.study.errors import printable
from envknee.verdict.schema.card import Card
from envknee.verdict.schema.study import ArmVerdict, Verdict
from envknee.words.answer import answer, answered_series, answers_table
from envknee.words.card import Part, card_parts
from envknee.words.numbers import counted
from envknee.words.scaling import loss_statement
from envknee.words.series import series_words
from envknee.words.statements import statement
from envknee.words.study import hardware_of, trials_done_briefly
from envknee.words.tables import Table

INDENT = " " * 9
"""Below the text of a named sentence."""

LEAST_TABLE = 8
"""Lines of the table of arms that are there however long the card is."""

ENDS = re.compile(r"(?<=\.) (?=[A-Z])")
"""Between two sentences."""


class Sentence(NamedTuple):
    """A sentence of the answer, or several, with a name."""

    name: str
    text: str

    def lines(self, width: int) -> list[str]:
        """Return the sentence, wrapped at words."""
        said = printable(f"{self.name:<8} {self.text}")
        return textwrap.wrap(said, width, subsequent_indent=INDENT, break_on_hyphens=False)

    def lines_within(self, width: int, room: int) -> list[str]:
        """Return the sentence, or the first ones of several, as far as they fit whole; nothing if not even the first one does."""
        parts = ENDS.split(self.text)
        for count in range(len(parts), 0, -1):
            lines = self._replace(text=" ".join(parts[:count])).lines(width)
            if len(lines) <= room:
                return lines
        return []


def answer_lines(verdict: Verdict, card: Card, width: int, room: int) -> list[str]:
    """Return the answer in lines of `width` characters: the whole card, then in `room` lines the first arms and sentences.

    What does not fit whole is left out. A training command is one line however long it is, because users copy it.
    """
    parts = card_parts(card)
    lines = [*_title(verdict, width), *part_lines(parts, width)]
    if len(verdict.arms) > 1 or not card.entries:
        shown = _arms_that_fit(verdict, width, max(room - len(lines) - 1, LEAST_TABLE))
        lines += grid.brief(_table(verdict, shown), width)
        if len(shown) < len(verdict.arms):
            lines.append(f"and {counted(len(verdict.arms) - len(shown), 'more arm')}")
    else:
        shown = verdict.arms
    for sentence in _sentences(verdict, shown, parts):
        lines += sentence.lines_within(width, room - len(lines))
    return lines


def card_lines(card: Card, width: int) -> list[str]:
    """Return the card: a heading for each question, and sentences with their names below it."""
    return part_lines(card_parts(card), width)


def part_lines(parts: Sequence[Part], width: int) -> list[str]:
    """Return the parts of a card as lines."""
    lines = list[str]()
    for part in parts:
        lines += textwrap.wrap(part.heading, width)
        for name, text in part.lines:
            lines += Sentence(name, text).lines(width)
        if part.command is not None:
            lines.append(printable(f"{'train':<8} {part.command}"))
    return lines


def _title(verdict: Verdict, width: int) -> list[str]:
    """Return study, progress, hardware, and the horizon and batch size that all answers share."""
    series = answered_series(verdict)
    known = [verdict.drill, verdict.study, trials_done_briefly(verdict), *hardware_of(verdict)]
    known.append(None if series is None else series_words(series))
    said = " · ".join(part for part in known if part)
    return textwrap.wrap(printable(said), width, break_on_hyphens=False)


def _table(verdict: Verdict, arms: Sequence[ArmVerdict]) -> Table:
    table = answers_table(verdict, arms)
    if len(verdict.arms) > 1:
        return table
    # A single arm needs no name.
    return Table(table.title, table.columns[1:], [row[1:] for row in table.rows])


def _arms_that_fit(verdict: Verdict, width: int, room: int) -> Sequence[ArmVerdict]:
    """Return the first arms, whose table leaves a line for the number of the others."""
    count = len(verdict.arms)
    while count > 1 and len(grid.brief(_table(verdict, verdict.arms[:count]), width)) > room:
        count -= 1
    return verdict.arms[:count]


def _sentences(verdict: Verdict, arms: Sequence[ArmVerdict], parts: Sequence[Part]) -> Iterator[Sentence]:
    """Yield what the answer says beside its card and its table, the most important first."""
    on_card = " ".join(text for part in parts for _, text in part.lines)
    yield from (said for said in _every_sentence(verdict, arms) if said.text.partition(": ")[2] not in on_card)


def _every_sentence(verdict: Verdict, arms: Sequence[ArmVerdict]) -> Iterator[Sentence]:
    several = len(verdict.arms) > 1
    for scaling in verdict.scaling:
        if scaling.fastest is not None:
            yield Sentence("scaling", f"{scaling.arm}: {statement(scaling.fastest)}")
            if scaling.fastest.loses and scaling.fastest.loss is not None:
                yield Sentence("loss", loss_statement(scaling.fastest, scaling.fastest.loss))
    for advice in (verdict.remedies, verdict.rules):
        if advice is not None:
            yield Sentence("advice", statement(advice))
    answers = {arm.arm: answer(arm, verdict.rules) for arm in arms}
    for arm, own in answers.items():
        yield from (Sentence("why", f"{arm}: {said}" if several else said) for said in own.evidence[:1])
    steps: dict[str, list[str]] = {}
    for arm, own in answers.items():
        if own.next_step:
            steps.setdefault(own.next_step, []).append(arm)
    for step, of_arms in steps.items():
        yield Sentence("next", f"{', '.join(of_arms)}: {step}" if several else step)
    for arm, own in answers.items():
        yield from (Sentence("why", f"{arm}: {said}" if several else said) for said in own.evidence[1:])
