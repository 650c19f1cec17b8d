"""A comparison in the terminal: ratios of FPS, memory and seconds, with intervals, and the phases that changed.

Input: two sides, as `sides` reads them. Output: tables in the terminal, with --output a JSON file, and with --html a page. The exit status
is that of a gate.

Trials that did not succeed (`record.status.SUCCESS`) have neither FPS nor seconds and environment steps to target. Leaving them out
silently would favour the side that lost more of them, so the output lists the statuses at every such point. Fewer successes of B are a
loss that is counted, not tested; no margin excuses it. If a seed of a learning point missed its target on either side, that point has
no ratio of seconds and environment steps to target: the seeds that reach it are the quick ones. Memory and start-up of a learning trial
that spent its budget count.

A ratio is the geometric mean over points of the geometric means of their pairs. Its interval is Student's t on the logarithms of the
pairs, by point (strata); at 95% it covers the truth in 94 to 96 of 100 cases (tests/unit/after/test_compare.py counts them). p-values are
Holm-corrected over all measures, and for each measure over its points.
"""

import argparse
import shlex
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from envknee.after.compare.ratios import compare
from envknee.after.compare.sides import sides
from envknee.study.errors import EXIT_UNDECIDED, EXIT_WORSE
from envknee.study.files import canonical_json, check_page_place, write_atomically
from envknee.verdict.schema.comparison import Comparison
from envknee.words import compare as words


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print a comparison: all points together, the points that changed, phases, limits, and the gate's answer."""

    def say(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    say(f"A  {comparison.a}\nB  {comparison.b}")
    for difference in comparison.differs:
        say(f"   {words.difference_line(difference)}")
    for note in words.notes(comparison):
        say(f"note  {note}")
    if comparison.overall:
        console.print(_table(comparison))
    else:
        say(words.no_measure(comparison))
    for line in words.further_lines(comparison):
        say(line)
    for reason in words.reasons(comparison):
        if comparison.gate.answer == "fail":
            console.print(f"REGRESSION {reason}", style="bold red", soft_wrap=True)
        else:
            say(f"inconclusive: {reason}")
    if comparison.gate.answer == "pass":
        say(words.passed_line(comparison))


def _table(comparison: Comparison) -> Table:
    """Return the ratios over all points."""
    table = Table(
        caption=words.caption(comparison), box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True
    )
    for heading in words.COLUMNS:
        table.add_column(heading, justify="left" if heading in ("measure", "") else "right", no_wrap=True)
    for ratio in comparison.overall:
        table.add_row(*words.table_row(ratio))
    return table


def main() -> int:
    """Compare two studies, or two arms, trial by trial; exit 0: no loss beyond the margin, 3: a loss or lost trials, 4: inconclusive."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "a", help="what was: a folder of results, FOLDER:ARM, FOLDER@COMMIT, FOLDER@IMAGE or FOLDER@COMMIT:ARM"
    )
    parser.add_argument("b", help="what is now: likewise")
    parser.add_argument("more", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--margin", type=float, default=0.05, help="loss that is still accepted (default: %(default)s)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of intervals and tests (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="write everything to this JSON file, too")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one self-contained page, too")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    arguments = parser.parse_args()
    if arguments.more:
        parser.error(
            f"two sides are compared, and {2 + len(arguments.more)} were given. For more: envknee history"
            f" {shlex.join([arguments.a, arguments.b, *arguments.more])}"
        )
    for name, lowest in (("margin", 0.0), ("confidence", 0.5)):
        if not lowest <= (given := getattr(arguments, name)) < 1.0:
            parser.error(f"--{name} must be at least {lowest:g} and below 1 (0.05 is 5%), and {given:g} was given")
    if arguments.html is not None:
        check_page_place(arguments.html)
    pairs = sides(arguments.a, arguments.b)
    comparisons = [compare(a, b, arguments.confidence, arguments.margin) for a, b in pairs]
    text = canonical_json([comparison.model_dump(mode="json") for comparison in comparisons])
    if arguments.json:
        print(text, end="")
    else:
        for comparison in comparisons:
            print_comparison(comparison, Console(markup=False, emoji=False))
    if arguments.output is not None:
        write_atomically(arguments.output, text)
    if arguments.html is not None:
        from envknee.after.compare.page import page  # drawing takes 0.5 s to import

        write_atomically(arguments.html, page(list(zip(comparisons, pairs, strict=True))))
        if not arguments.json:
            print(f"{arguments.html}: written")
    answers = {comparison.gate.answer for comparison in comparisons}
    if "fail" in answers:
        return EXIT_WORSE
    return EXIT_UNDECIDED if "inconclusive" in answers else 0
