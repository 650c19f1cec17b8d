"""Who the two sides of a comparison are: study, days, machine, commit and versions. Pure."""

from envknee.after.compare.sides import Side
from envknee.show.about import UNKNOWN, about
from envknee.verdict.machine_facts import each_once
from envknee.words.compare import values_words


def who(a: Side, b: Side) -> list[tuple[str, str, str]]:
    """Return rows of a table: the name of a fact, and its values on A and B. A fact that neither side has is left out."""
    of_a, of_b = _facts(a), _facts(b)
    return [(name, of_a[name], of_b[name]) for name in of_a if of_a[name] != UNKNOWN or of_b[name] != UNKNOWN]


def _facts(side: Side) -> dict[str, str]:
    return {
        "study": side.study.study,
        "arm": side.arm,
        "trials": f"{len(side.records):,}",
        "task": values_words("task", each_once([record.request.task_id for record in side.records])),
        **about(side.records),
    }
