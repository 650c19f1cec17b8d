"""A comparison in the terminal: ratios of FPS, memory and seconds, with intervals, and the phases that changed.

Input: two sides, as `sides` reads them. Output: tables in the terminal, and with --output a JSON file. The exit status is that of a gate.

Trials that did not succeed (`record.status.SUCCESS`) have neither FPS nor seconds and frames to target. Leaving them out silently would
favour the side that lost more of them, so the output lists the statuses at every such point. Fewer successes of B are a loss that is
counted, not tested; no margin excuses it. If a seed of a learning point missed its target on either side, that point has no ratio of
seconds and frames to target: the seeds that reach it are the quick ones. Memory and start-up of a learning trial that spent its budget
count.

A ratio is the geometric mean over points of the geometric means of their pairs. Its interval is Student's t on the logarithms of the
pairs, by point (strata); at 95% it covers the truth in 94 to 96 of 100 cases (tests/unit/test_compare.py counts them). p-values are
Holm-corrected over all measures, and for each measure over its points.
"""

import argparse
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from envknee.after.compare.ratios import Comparison, compare, interval, shortened
from envknee.after.compare.sides import sides
from envknee.study.files import canonical_json, write_atomically

REGRESSION = 3
"""Exit status if the gate fails."""

INCONCLUSIVE = 4
"""Exit status if it neither passes nor fails."""

WORTH_SAYING = 0.005
"""Smaller changes at single points are only in the file: memory always differs by some bytes."""


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print a comparison: all points together, the points that changed, phases, thresholds."""

    def say(line: str) -> None:
        console.print(line, highlight=False, soft_wrap=True)

    say(f"A  {comparison.a}\nB  {comparison.b}")
    for difference in comparison.differs:
        say(f"   {difference}")
    for note in comparison.notes:
        say(f"note  {note}")
    caption = f"B / A over points in common; interval at {comparison.confidence:.0%}, p corrected (Holm)"
    table = Table(caption=caption, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    for heading in ("measure", "ratio", "interval", "p", "points", "pairs", ""):
        table.add_column(heading, justify="left" if heading in ("measure", "") else "right", no_wrap=True)
    for ratio in comparison.overall:
        p_value = "" if ratio.p_holm is None else f"{ratio.p_holm:.3f}" if ratio.p_holm >= 0.001 else "< 0.001"
        counts = map(str, (ratio.points, ratio.pairs))
        table.add_row(ratio.measure, f"{ratio.ratio:.3f}", interval(ratio), p_value, *counts, ratio.change)
    if comparison.overall:
        console.print(table)
    else:
        say("no measure to compare: no pair of trials succeeded on both sides")
    for ratio in comparison.by_place:
        if ratio.change != "none shown" and abs(ratio.ratio - 1.0) >= WORTH_SAYING:
            say(f"{ratio.change:>6}  {ratio.measure} at {ratio.place}: {ratio.ratio:.3f} ({interval(ratio)})")
    if comparison.phases:
        largest = ", ".join(f"{phase} {share:+.1%}" for phase, share in list(comparison.phases.items())[:4])
        say(f"time of an iteration, by phase, in parts of A's: {largest}")
    for line in comparison.thresholds:
        say(line)
    if comparison.left_out:
        say(f"left out, because one side alone has it: {shortened(comparison.left_out)}")
    for outcome in comparison.outcomes:
        say(f"outcomes at {outcome}")
    for reason in comparison.gate.reasons:
        if comparison.gate.answer == "fail":
            console.print(f"REGRESSION {reason}", style="bold red", soft_wrap=True)
        else:
            say(f"inconclusive: {reason}")
    if comparison.gate.answer == "pass":
        gating = ", ".join(bound.measure for bound in comparison.gate.bounds)
        say(f"passed: a loss of {comparison.margin:.0%} or more is excluded in {gating}")


def main() -> int:
    """Compare two studies, or two arms, trial by trial; exit 0: no loss beyond the margin, 3: a loss or lost trials, 4: inconclusive."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument(
        "a", help="what was: a folder of results, FOLDER:ARM, FOLDER@COMMIT, FOLDER@IMAGE or FOLDER@COMMIT:ARM"
    )
    parser.add_argument("b", help="what is now: likewise")
    parser.add_argument("--margin", type=float, default=0.05, help="loss that is still accepted (default: %(default)s)")
    parser.add_argument("--confidence", type=float, default=0.95, help="of intervals and tests (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="write everything to this JSON file, too")
    arguments = parser.parse_args()
    for name, lowest in (("margin", 0.0), ("confidence", 0.5)):
        if not lowest <= (given := getattr(arguments, name)) < 1.0:
            parser.error(f"--{name} must be at least {lowest:g} and below 1 (0.05 is 5%), and {given:g} was given")
    comparisons = [compare(a, b, arguments.confidence, arguments.margin) for a, b in sides(arguments.a, arguments.b)]
    for comparison in comparisons:
        print_comparison(comparison, Console(markup=False, emoji=False))
    if arguments.output is not None:
        write_atomically(
            arguments.output, canonical_json([comparison.model_dump(mode="json") for comparison in comparisons])
        )
    answers = {comparison.gate.answer for comparison in comparisons}
    return REGRESSION if "fail" in answers else INCONCLUSIVE if "inconclusive" in answers else 0
