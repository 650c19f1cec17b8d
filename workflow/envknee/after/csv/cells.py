"""What a cell says: numbers as people write them, units, repeats, spreads, bounds, and out of memory. Pure.

In: the text of a cell. Out: its numbers as plain decimals with their unit, or `None` where it is no number.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

NOTHING = ("", "-", "--", "–", "—", "n/a", "na", "none", "null", "tbd", "?", "x", "✗")
"""Cells without a value."""

MARKS = re.compile(r"[*`†‡]|<[^<>]{0,40}>|\[\^?\d+\]")
"""Bold, code, daggers, tags of HTML, and numbers of footnotes."""
REMARK = re.compile(r"\s*[(（].*$")
ABOUT = re.compile(r"^(?:~|≈|≃|∼|ca\.?|approx\.?|about|around)\s*", re.IGNORECASE)
BOUND = re.compile(r"^(?P<bound>>=|<=|>|<|≥|≤)\s*")
RANGE = re.compile(r"(?P<low>[\d][\d.,]*)\s*[-–—]\s*(?P<high>[\d][\d.,]*\s*(?:[^\d\s].*)?)")
"""`10-13k`: from one number to another."""
SPREAD = re.compile(r"\s*(?:±|\+/-|\+-|\\pm)\s*")
REPEATS = re.compile(r"\s+/\s+|(?<=\d)\s*/\s*(?=\d)")
OUT_OF_MEMORY = re.compile(
    r"\boom\b|out[ -_]of[ -_](?:gpu[ -_])?memory|(?:did|does) not fit|outofmemory", re.IGNORECASE
)
DENIED = re.compile(r"\b(?:no|not|without|never)\b[^.]{0,12}$", re.IGNORECASE)

SPACES = "\\s\u00a0\u2009\u202f"
NUMBER = re.compile(rf"(?P<number>[+-]?(?:\d[\d.,'’_{SPACES}]*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?P<unit>[^\d\s].*)?")
GROUPED = re.compile(rf"(?<=\d)['’_{SPACES}](?=\d{{3}}(?!\d))")
COMMAS = re.compile(r"[+-]?\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?|[+-]?\d+,\d{3}(?:,\d{3})*(?:\.\d+)?")
DECIMAL_COMMA = re.compile(r"[+-]?(?:\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+)(?:\D.*)?")
POINTS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+")
PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")

LONGEST_EXPONENT = 4
"""Most digits of an exponent: a larger one would make a number of gigabytes."""


@dataclass(frozen=True)
class Number:
    """One number of a cell, in the unit of its cell."""

    text: str
    """In plain digits with a point before decimals; the cell's own text where it is no number."""
    unit: str = ""
    bound: str = ""
    """`>` or `<` where the cell gives a bound alone."""
    spread: str = ""
    """What follows a ±, in the same unit; "" without."""

    @property
    def is_number(self) -> bool:
        """Whether the text is a number."""
        return PLAIN.fullmatch(self.text) is not None

    @property
    def last_digit(self) -> float:
        """The size of one in its last digit, as far as decimals or a unit show it: 0.1 for `13.5`, and 1 for `13,000`."""
        if not self.is_number or len(self.text.lower().partition("e")[2]) > LONGEST_EXPONENT:
            return 0.0
        exponent = Decimal(self.text).as_tuple().exponent
        return float(Decimal(1).scaleb(exponent)) if isinstance(exponent, int) else 0.0


def plain(cell: str) -> str:
    """Return a cell without marks; "" where it has no value."""
    text = MARKS.sub("", cell).replace("\\~", "~").strip()
    return "" if text.lower() in NOTHING or REMARK.sub("", text).lower() in ("-", "–", "—", "n/a") else text


def says_out_of_memory(cell: str) -> bool:
    """Tell whether a cell says that memory did not suffice."""
    found = OUT_OF_MEMORY.search(cell)
    return found is not None and DENIED.search(cell[: found.start()]) is None


def shows_decimal_commas(cells: Iterable[str]) -> bool:
    """Tell whether a table writes decimals behind a comma: a number with one that cannot be a separator of thousands."""
    return any(DECIMAL_COMMA.fullmatch(plain(cell)) is not None for cell in cells)


def numbers(cell: str, decimal_comma: bool = False) -> list[Number]:
    """Return the numbers of a cell: several where it has repeats, as in `71,000 / 69,200`.

    The text of a cell without a number is returned as it stands, for a message.
    """
    text = plain(cell)
    parts = REPEATS.split(text)
    several = [_number(part, decimal_comma) for part in parts]
    if len(parts) > 1 and all(part.is_number for part in several):
        unit = several[-1].unit  # `41 / 42 k`
        return [Number(part.text, part.unit or unit, part.bound, part.spread) for part in several]
    return [_number(text, decimal_comma)]


def _number(text: str, decimal_comma: bool) -> Number:
    bare = ABOUT.sub("", text.strip())
    bound = BOUND.match(bare)
    if bound is not None:
        bare = bare[bound.end() :]
    bare = ABOUT.sub("", bare)
    if (between := RANGE.fullmatch(REMARK.sub("", bare))) is not None:
        return _between(between, text, decimal_comma)
    value, *spread = SPREAD.split(bare, maxsplit=1)
    if not spread:
        value = REMARK.sub("", value)
    match = NUMBER.fullmatch(value.strip())
    if match is None:
        return Number(text)
    digits = _in_digits(match["number"].strip(), decimal_comma)
    if digits is None:
        return Number(text)
    unit = (match["unit"] or "").strip()
    around = ""
    if spread and (other := NUMBER.fullmatch(REMARK.sub("", spread[0]).strip())) is not None:
        around = _in_digits(other["number"].strip(), decimal_comma) or ""
        unit = unit or (other["unit"] or "").strip()
        if other["unit"] and other["unit"].strip() == "%":
            around, unit = _share(digits, around), (match["unit"] or "").strip()
    return Number(digits, unit, bound["bound"][0].replace("≥", ">").replace("≤", "<") if bound else "", around)


def _between(ends: re.Match[str], text: str, decimal_comma: bool) -> Number:
    """Return the middle of a range, with half of it as the spread."""
    high = _number(ends["high"], decimal_comma)
    low = _in_digits(ends["low"], decimal_comma)
    if low is None or not high.is_number or not Decimal(low) < Decimal(high.text):
        return Number(text)
    middle, half = (Decimal(low) + Decimal(high.text)) / 2, (Decimal(high.text) - Decimal(low)) / 2
    return Number(format(middle, "f"), high.unit, "", format(half, "f"))


def _share(digits: str, percent: str) -> str:
    """Return so many percent of a number."""
    try:
        return str(Decimal(digits) * Decimal(percent) / 100)
    except (InvalidOperation, OverflowError):
        return ""


def _in_digits(number: str, decimal_comma: bool) -> str | None:
    """Return a number with a point before decimals and no separators; None where separators contradict each other."""
    text = GROUPED.sub("", number)
    if decimal_comma:
        text = text.replace(".", "") if "," in text or POINTS.fullmatch(text) else text
        text = text.replace(",", ".", 1)
    elif COMMAS.fullmatch(text):
        text = text.replace(",", "")
    elif text.count(".") > 1 and POINTS.fullmatch(text):
        text = text.replace(".", "")
    return text if PLAIN.fullmatch(text) else None


def times(text: str, factor: Decimal) -> str:
    """Return a number times a factor, in digits; a text that is no number as it stands."""
    if factor == 1 or not PLAIN.fullmatch(text) or len(text.lower().partition("e")[2]) > LONGEST_EXPONENT:
        return text
    try:
        return format(Decimal(text) * factor, "f")
    except ArithmeticError:
        return text
