"""Who the two sides of a comparison are: study, days, machine, commit and versions. Pure."""

from collections.abc import Sequence

from envknee.after.compare.ratios import facts
from envknee.after.compare.sides import Side
from envknee.record.days import days_of
from envknee.record.schema import Record
from envknee.words.compare import values_words

FACTS = ("task", "hardware", "host CPU", "driver", "commit", "image")
"""Facts in rows of their own; versions of packages share one."""


def who(a: Side, b: Side) -> list[tuple[str, str, str]]:
    """Return rows of a table: the name of a fact, and its values on A and B. A fact that neither side has is left out."""
    of_a, of_b = _facts(a), _facts(b)
    return [(name, of_a[name], of_b[name]) for name in of_a if of_a[name] != "none" or of_b[name] != "none"]


def _facts(side: Side) -> dict[str, str]:
    known = facts(side.records)
    machines = [record.outcome.environment for record in side.records if record.outcome.environment]
    packages = sorted({name for machine in machines for name in machine.packages})
    versions = [f"Python {version}" for version in sorted({machine.python for machine in machines})]
    versions += [f"{name} {values_words(name, known[name])}" for name in packages]
    return {
        "study": side.study.study,
        "arm": side.arm,
        "trials": f"{len(side.records):,}",
        "measured on": _days(side.records),
        **{name: values_words(name, known.get(name, [])) for name in FACTS},
        "versions": ", ".join(versions) or "none",
    }


def _days(records: Sequence[Record]) -> str:
    """Return `2026-05-01`, or `2026-05-01 to 2026-05-03` (UTC)."""
    days = days_of(records)
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
