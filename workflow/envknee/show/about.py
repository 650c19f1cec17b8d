"""When and on what trials were measured: days, machine, commit and versions, as rows of a table. Pure."""

from collections.abc import Sequence

from envknee.record.days import days_of
from envknee.record.schema import Record
from envknee.verdict.machine_facts import machine_facts
from envknee.words.compare import values_words

FACTS = ("hardware", "host CPU", "driver", "commit", "image")
"""Facts in rows of their own; versions of packages share one."""

UNKNOWN = "none"


def about(records: Sequence[Record]) -> dict[str, str]:
    """Return the name of each fact, and its values in words; `UNKNOWN` for what no trial has."""
    known = machine_facts(records)
    machines = [record.outcome.environment for record in records if record.outcome.environment]
    packages = sorted({name for machine in machines for name in machine.packages})
    versions = [f"Python {version}" for version in sorted({machine.python for machine in machines})]
    versions += [f"{name} {values_words(name, known[name])}" for name in packages]
    return {
        "measured on": _days(records),
        **{name: values_words(name, known[name]) for name in FACTS},
        "versions": ", ".join(versions) or UNKNOWN,
    }


def _days(records: Sequence[Record]) -> str:
    """Return `2026-05-01`, or `2026-05-01 to 2026-05-03` (UTC)."""
    days = days_of(records)
    if not days:
        return UNKNOWN
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
