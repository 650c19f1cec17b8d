"""What the headings of a table mean: columns by their aliases, with units and what distinguishes several of a kind. Pure."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from envknee.after.csv import cells
from envknee.after.csv.aliases import (
    ALIASES,
    HARDWARE,
    NAMES_OF_ROWS,
    NOISE,
    NOT_FPS,
    NUMBERED_SETTINGS,
    SETTINGS,
    UNITS,
)

GROUP = re.compile(r"\s*[(\[{（]([^)\]}）]*)[)\]}）]")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])")
PER = {
    "/s": "seconds|second|secs|sec|s", "/h": "hours|hour|hrs|hr|h", "/min": "minutes|minute|min",
    "/iter": "iterations|iteration|iters|iter|it", "/step": "step", "/env": "environments|environment|envs|env|world",
    "/gpu": "gpus|gpu|device|rank|card",
}  # fmt: skip
RATES = [(re.compile(rf"\s*(?:/|\bper\b)\s*(?:{names})\b"), short) for short, names in PER.items()]
PATH = re.compile(rf"^.*/(?!(?:{'|'.join(short[1:] for short in PER)})\b)")
"""Groups of a log's names, such as `Perf/`."""

SLOWER = {"/h": 1 / Decimal(3600), "/min": 1 / Decimal(60)}
"""Rates that are not a second's."""

ONE_WORD_UNITS = re.compile(
    r"^(?P<name>.*?)\s*\b(?P<unit>gib|mib|gb|mb|bytes|ms|msec|us|sec|secs|seconds|k|x1000|thousands|millions|million|mio)$"
)
KILO_RATE = re.compile(r"^(?P<unit>k|m|million|thousand) ?(?P<name>(?:fps|sps|.*steps/s|frames/s|samples/s)\b.*)$")


class Meaning(NamedTuple):
    """What a heading may stand for."""

    column: str
    rank: int
    """0 is the column's own name; of several headings for a column the lowest counts."""
    factor: Decimal
    """Of its unit, to the column's own."""
    qualifier: str = ""
    """What its name has besides that of FPS, such as `before`."""


def canonical(heading: str) -> str:
    """Return a heading in lower case, with rates as `/s` and without punctuation: `Env-Steps per sec` is `env steps/s`."""
    text = CAMEL.sub(" ", cells.MARKS.sub("", heading)).lower()
    text = re.sub(r"[_.\-:–—]+", " ", text)
    for pattern, short in RATES:
        text = pattern.sub(f"{short} ", text)
    text = re.sub(r"[^\w#/% ]+", " ", text)
    return re.sub(r"\s+(?=/)|\s+$|^\s+", "", re.sub(r"\s+", " ", text))


def meaning(heading: str, first_cell: str, column: str) -> Meaning | None:
    """Return how well a heading names a column; None if it does not.

    If the column needs a unit, a heading without one counts if the `first_cell` has a unit.
    """
    if heading.strip().lower() == column and column in ALIASES:
        return Meaning(column, 0, Decimal(1))
    found = []
    for name, unit in _readings(heading):
        factor = _factor(unit, first_cell, column)
        if factor is not None and (named := _named(name, column)) is not None:
            rank, qualifier = named
            slower = next((share for rate, share in SLOWER.items() if rate in name), Decimal(1))
            found.append(Meaning(column, rank, factor * slower, qualifier))
    return min(found, key=lambda one: one.rank, default=None)


def meanings(heading: str, first_cell: str) -> list[Meaning]:
    """Return every column that a heading may stand for, the best first."""
    found = [meaning(heading, first_cell, column) for column in ALIASES]
    return sorted((one for one in found if one is not None), key=lambda one: (bool(one.qualifier), one.rank))


def names_environments(header: Sequence[str]) -> bool:
    """Tell whether a heading stands for a number of environments."""
    return any(meaning(cell, "", column) is not None for cell in header for column in ("num_envs", "total_envs"))


def is_setting(heading: str) -> bool:
    """Tell whether a heading names a setting, such as the GPU or the task."""
    return _is_among(heading, SETTINGS | NUMBERED_SETTINGS | NAMES_OF_ROWS)


def is_numbered_setting(heading: str) -> bool:
    """Tell whether a heading names a setting that is a number, such as a resolution."""
    return _is_among(heading, NUMBERED_SETTINGS)


def names_hardware(heading: str) -> bool:
    """Tell whether a heading names the hardware, whose cells may count GPUs, as in `4x A100`."""
    return _is_among(heading, HARDWARE)


def may_name_rows(heading: str) -> bool:
    """Tell whether a heading names a setting that may have a value of its own in every row, such as a date."""
    return _is_among(heading, NAMES_OF_ROWS)


def _is_among(heading: str, names: frozenset[str]) -> bool:
    name = canonical(GROUP.sub("", heading))
    return name in names or PATH.sub("", name) in names or name.rpartition(" ")[2] in names & {"resolution", "backend"}


def _readings(heading: str) -> Iterator[tuple[str, str]]:
    """Yield name and unit of a heading in each way that it may be read, the most literal first."""
    groups = [canonical(group.lower()) for group in GROUP.findall(heading)]
    name = canonical(GROUP.sub(" ", heading))
    units = [group for group in groups if any(group in known for known in UNITS.values())] or [""]
    per = "".join(group for group in groups if group in ("/gpu", "/env"))
    words = " ".join(group for group in groups if group not in (*units, "/gpu", "/env") and "/" not in group)
    if (small := re.match(r"(?P<unit>ms|us|µs)/(?P<per>\w+)$", name)) is not None:
        yield f"s/{small['per']}", small["unit"]
    for rate in groups:
        if "/" in rate or rate in ("fps", "sps"):  # `default (steps/s)` names its FPS last
            yield f"{rate} {name}".strip(), ""
    for text in dict.fromkeys((name, PATH.sub("", name))):
        for full in dict.fromkeys((f"{text}{per}", f"{text} {words}".strip())):
            yield full, units[0]
            for pattern in (ONE_WORD_UNITS, KILO_RATE):
                if not units[0] and (match := pattern.match(full)) is not None:
                    yield match["name"].strip(), match["unit"]


def _factor(unit: str, first_cell: str, column: str) -> Decimal | None:
    """Return the factor of a unit to the column's own; None if the column has no such unit, or needs one and has none."""
    units = UNITS.get(column, {"": Decimal(1)})
    if unit in units:
        return units[unit]
    if unit:
        return None
    (first, *_) = cells.numbers(first_cell)
    return Decimal(1) if first.unit.lower() in units else None


def _named(name: str, column: str) -> tuple[int, str] | None:
    """Return the rank of a name among a column's aliases, and what it has besides one; None if it is none of them."""
    names, noise = ALIASES[column], NOISE.get(column, frozenset[str]())
    if name in names and name:
        return 1 + names.index(name), ""
    bare = " ".join(word for word in name.split() if word not in noise)
    if bare in names and name:
        return 1 + len(names) + names.index(bare), ""
    if column != "fps":
        return None
    words = bare.split()
    for rank, alias in enumerate(names):
        rest = _beside(words, alias.split())
        if rest and NOT_FPS.isdisjoint(rest):
            return 1 + 2 * len(names) + rank, " ".join(rest)
    return None


def _beside(words: Sequence[str], own: Sequence[str]) -> Sequence[str]:
    """Return the words before or after `own`, which stands at an end of `words`; none where it does not."""
    if list(words[: len(own)]) == own:
        return words[len(own) :]
    if list(words[-len(own) :]) == own:
        return words[: -len(own)]
    return []
