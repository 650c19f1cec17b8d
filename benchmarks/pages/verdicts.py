"""docs/verdicts.md: the power of a plan, and what the page's own table of `make prove` says of processes that measured several sizes."""

import re
from functools import cache

from envknee.verdict.power import enough_repeats, power
from envknee.verdict.rule.schedule import as_planned

from benchmarks.pages.cells import table
from benchmarks.pages.published import ROOT

DELTA, CONFIDENCE = 0.10, 0.95
NOISES = (0.02, 0.05, 0.10, 0.15)
REPEATS = (3, 5, 8)


def of_a_plan() -> str:
    """Return the share of studies that show a plateau, by noise, repeats, and whether sizes share a process."""
    rows = []
    for noise in NOISES:
        cells = [f"{noise:.0%}"]
        for paired in (False, True):
            cells += [
                f"{power(repeats, noise, DELTA, CONFIDENCE, paired, as_planned(repeats)):.0%}" for repeats in REPEATS
            ]
            cells.append(f"{enough_repeats(noise, DELTA, CONFIDENCE, paired, 'as planned')}")
        rows.append(cells)
    heads = (
        "noise between processes", "a process for each trial: 3 repeats", "5", "8", "repeats for 80%",
        "all sizes in a process: 3", "5", "8", "for 80%",
    )  # fmt: skip
    return table(heads, rows)


def as_pairs_and_as_fresh() -> str:
    """Return how often simulated studies name a plateau, as pairs and as fresh repeats, by the variance that sizes share."""
    rows = []
    for share, rho in (("none", "0.0"), ("half", "0.5"), ("0.8", "0.8")):
        scenario = f"process blocks, plateau, rho {rho}"
        named = [
            f"{float(proven(name, repeats)['true limit named'].rstrip('%')):.0f}%"
            for name in (scenario, f"{scenario}, taken as fresh ones")
            for repeats in REPEATS
        ]
        rows.append((share, *named))
    heads = (
        "share of the variance that a process's sizes share", "3 processes", "5", "8", "as fresh repeats: 3", "5", "8",
    )  # fmt: skip
    return table(heads, rows)


def by_order() -> str:
    """Return how often simulated studies err where each further size costs 1%, by the order of sizes."""
    rows = []
    for order, shown in (("ascending", "ascending"), ("random", "random"), ("Williams", "Williams (1949)")):
        found = [proven(f"process blocks, at delta, each size costs 1%, {order} order", own) for own in REPEATS]
        rows.append((shown, *(own["false reached"] for own in found), *(own["gain or saving"] for own in found)))
    heads = (
        "order, the first size once more at the end", "false \"reached\", 3 processes", "5", "8", "coverage, 3 processes", "5", "8",
    )  # fmt: skip
    return table(heads, rows)


def proven(scenario: str, repeats: int) -> dict[str, str]:
    """Return a row of the table of `make prove` in docs/verdicts.md: column -> cell, without its mark of a miss."""
    return _proven_rows()[scenario, str(repeats)]


@cache
def _proven_rows() -> dict[tuple[str, str], dict[str, str]]:
    page = (ROOT / "docs/verdicts.md").read_text(encoding="utf-8")
    _, _, proof = page.partition("<!-- make prove -->")
    heads, _, *rows = [
        [cell.strip().removesuffix(" !") for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", proof.partition("<!-- end of make prove -->")[0], re.MULTILINE)
    ]
    return {(row[1], row[2]): dict(zip(heads, row, strict=True)) for row in rows}


BLOCKS = {"power-of-a-plan": of_a_plan, "power-of-pairs": as_pairs_and_as_fresh, "errors-by-order": by_order}
"""Written from the page's own table, so `make numbers` follows `make prove`."""
