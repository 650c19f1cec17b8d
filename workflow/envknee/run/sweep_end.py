"""What a sweep does once Snakemake has run its jobs. Pure, but for looking at files.

Input: the study's folder and the files that a whole study has. Output: commands to run, and what is missing.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from envknee.study.paths import StudyFolder


def commands(folder: StudyFolder, products: Iterable[Path]) -> list[str]:
    """Return envknee's commands that are run on a whole study, in order; none where one of its `products` is missing.

    The report is written once more if runs were published after it: it has links to them then.
    """
    if not all(path.exists() for path in (*products, folder.verdict, folder.report)):
        return []
    published_later = (
        folder.published.exists() and folder.report.stat().st_mtime_ns < folder.published.stat().st_mtime_ns
    )
    return ["report", "summary"] if published_later else ["summary"]


def why_incomplete(records: Sequence[Path]) -> str | None:
    """Return a sentence on records that are missing although all jobs ended well; None if all are there."""
    missing = [path.parent.name for path in records if not path.exists()]
    if not missing:
        return None
    return (
        f"{len(missing)} of {len(records)} trials were not measured: {', '.join(missing)}."
        " Something else changed this study's folder meanwhile. Run the sweep again: it measures these alone."
    )
