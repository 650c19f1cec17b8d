"""docs/tutorial.md: the output of a published study, and the decision that follows."""

from benchmarks.pages.cells import table
from benchmarks.pages.findings import LEARNING, most_fps, printed, soonest


def decision() -> str:
    """Return the two limits on an H200."""
    found, (head, _) = soonest(), most_fps("stock")
    rows = [
        ("learning", f"{found.limit.threshold_num_envs:,} environments at horizon {found.limit.horizon}"),
        ("throughput", f"{head.num_envs:,}"),
    ]
    return table(("limit on H200s", "size"), rows)


BLOCKS = {
    "output-learning": lambda: printed(LEARNING),
    "decision": decision,
}
