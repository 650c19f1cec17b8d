"""The tables of the joint proof, as Markdown. Pure.

Promised, as in `benchmarks.prove`: at most 5% of studies with a false claim, and 95% intervals and sets that hold the truth in at least
93%. A miss is marked with !, unless chance explains it in as many studies.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scipy.stats import binom

from benchmarks.joint.counts import Tally
from benchmarks.joint.rows import DELTAS, ROWS
from benchmarks.joint.samplers import TRIALS
from benchmarks.prove import CHANCE, LARGEST_FALSE_SHARE, LEAST_COVERAGE

AXES = ("num_envs", "horizon")


class Column(NamedTuple):
    """A column of a table: what it counts, and what is promised of it."""

    heading: str
    counts: str
    is_mean: bool = False
    least: float | None = None
    most: float | None = None
    as_number: bool = False
    """Whether a mean is shown as a number, and not as a percentage."""


CLAIMS = (
    Column("model's pick above the best", "pick regret", is_mean=True),
    Column("soonest above the best", "soonest regret", is_mean=True),
    Column("soonest's interval", "soonest covered", least=LEAST_COVERAGE),
    Column("best shown slower", "best shown slower", most=LARGEST_FALSE_SHARE),
    Column("an equal one shown slower", "equal shown slower"),
    Column('"at most so much slower" false', "false bound", most=LARGEST_FALSE_SHARE),
    Column("rough", "rough"),
    Column("set holds the best", "set holds the best", least=LEAST_COVERAGE),
    Column("settings in it", "set size", is_mean=True, as_number=True),
    Column("profile's intervals", "profile covered", least=LEAST_COVERAGE),
    Column("best mini-batches left out", "false mini-batches", most=LARGEST_FALSE_SHARE),
)
"""What is claimed of settings."""


ALIKE = (
    Column("falsely shown to learn alike", "false alike", most=LARGEST_FALSE_SHARE),
    Column("rightly shown", "alike"),
    Column("settings differ", "varies"),
    Column("seeds missed the target", "missed"),
)
"""What is claimed of two arms."""


def of_thresholds() -> Sequence[Column]:
    """Return the columns of what is claimed of doublings."""
    return [
        column
        for delta in DELTAS
        for axis in AXES
        for column in (
            Column(
                f"{axis}, {delta:.0%}: false reached", f"false reached: {axis} {delta:.0%}", most=LARGEST_FALSE_SHARE
            ),
            Column("false still pays", f"false pays: {axis} {delta:.0%}", most=LARGEST_FALSE_SHARE),
            Column("named", f"named: {axis} {delta:.0%}"),
        )
    ]


def value_of(column: Column, tally: Tally) -> float | None:
    """Return a cell's value; None without a case."""
    return tally.mean(column.counts) if column.is_mean else tally.share(column.counts)


def misses(column: Column, tally: Tally, chance: float = CHANCE) -> bool:
    """Tell whether a promise was not kept: if it were just kept, a share so bad would come with this probability at most.

    Intervals of one study lean on the same trials, so there are as many independent ones as studies.
    """
    value = value_of(column, tally)
    if value is None or (column.least is None and column.most is None):
        return False
    cases = min(tally.of[column.counts], tally.studies)
    if column.most is not None:
        return value > float(binom.ppf(1.0 - chance, cases, column.most)) / cases
    return value < float(binom.ppf(chance, cases, column.least)) / cases


def missed(tally: Tally, chance: float = CHANCE) -> list[str]:
    """Return the promises that a row did not keep, in the words of its columns."""
    claims = [column.heading for column in (*CLAIMS, *ALIKE) if misses(column, tally, chance)]
    return claims + [
        column.counts.replace("pays:", "still pays:") for column in of_thresholds() if misses(column, tally, chance)
    ]


def cell(column: Column, tally: Tally) -> str:
    """Return a cell."""
    value = value_of(column, tally)
    if value is None:
        return ""
    shown = f"{value:.1f}" if column.as_number else f"{value:.1%}"
    return f"{shown} !" if misses(column, tally) else shown


def table(columns: Sequence[Column], tallies: Mapping[str, Tally]) -> str:
    """Return a table with a line for each row that has counts."""
    lines = [f"| row | {' | '.join(column.heading for column in columns)} |  |"]
    lines.append("|" + " --- |" * (len(columns) + 2))
    for name, tally in tallies.items():
        note = "breaks an assumption" if name in ROWS and not ROWS[name].in_scope else ""
        lines.append(f"| {name} | {' | '.join(cell(column, tally) for column in columns)} | {note} |")
    return "\n".join(lines) + "\n"


def summary(tallies: Mapping[str, Tally]) -> str:
    """Return in a few sentences what was promised, and which rows missed it."""
    counts = sorted({tally.studies for tally in tallies.values()})
    studies = f"{counts[0]:,}" if counts[0] == counts[-1] else f"{counts[0]:,} to {counts[-1]:,}"
    said = [
        f"{studies} studies per row. Promised: false claims in at most {LARGEST_FALSE_SHARE:.0%} of the studies, coverage of 95% intervals"
        f" and sets at least {LEAST_COVERAGE:.0%} (! marks a miss that chance does not explain)."
    ]
    promised = {name: missed(tally) for name, tally in tallies.items() if ROWS[name].in_scope}
    missing = {name: own for name, own in promised.items() if own}
    elsewhere = {name: own for name, tally in tallies.items() if not ROWS[name].in_scope and (own := missed(tally))}
    if missing:
        said.append(f"Missed in {len(missing)} of {len(promised)} rows:\n\n{_listed(missing)}")
    else:
        said.append(f"Kept in all {len(promised)} rows.")
    if elsewhere:
        said.append(f"Where an assumption is broken on purpose:\n\n{_listed(elsewhere)}")
    return "\n\n".join(said) if missing or elsewhere else " ".join(said)


def _listed(missing: Mapping[str, Sequence[str]]) -> str:
    return "\n".join(f"- {name}: {', '.join(own)}." for name, own in missing.items())


def of_samplers(tallies: Mapping[str, Tally]) -> str:
    """Return the table of regret against trials."""
    heads = [f"{trials} trials: above the best | within 5% | best seen above the best | it claims" for trials in TRIALS]
    lines = [f"| sampler | {' | '.join(heads)} |", "|" + " --- |" * (1 + 4 * len(TRIALS))]
    for name, tally in tallies.items():
        cells = [
            f"{_percent(tally.mean(f'picked: {trials}'))} | {_percent(tally.share(f'near: {trials}'))}"
            f" | {_percent(tally.mean(f'seen: {trials}'))} | {_percent(tally.mean(f'told: {trials}'))}"
            for trials in TRIALS
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _percent(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"


def all_of_it(rows: Mapping[str, Tally], samplers: Mapping[str, Tally], alike: Mapping[str, Tally] = {}) -> str:
    """Return what was promised and every table that has counts."""
    said: list[str] = []
    if rows:
        said += [summary(rows), "What is claimed of settings:", table(CLAIMS, rows).rstrip()]
        said += ["What is claimed of doublings:", table(of_thresholds(), rows).rstrip()]
    if alike:
        studies = max(tally.studies for tally in alike.values())
        said += [f"What is claimed of two arms, in {studies:,} comparisons each:", table(ALIKE, alike).rstrip()]
    if samplers:
        studies = max(tally.studies for tally in samplers.values())
        said += [f"What samplers leave, in {studies:,} studies each:", of_samplers(samplers).rstrip()]
    return "\n\n".join(said) + "\n"
