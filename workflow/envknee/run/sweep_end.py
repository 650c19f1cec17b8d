"""What a sweep does once Snakemake has run its jobs. Pure, but for looking at files.

Input: the study's folder and the files that a whole study has. Output: commands to run, and what is missing.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from envknee.record.schema import Outcome
from envknee.record.status import DOES_NOT_RUN
from envknee.study.files import read_model
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


def why_none_ran(folder: StudyFolder) -> str | None:
    """Return an error where no trial of a study ran at any size: the log's words, what crashed, and what to do; None otherwise."""
    outcomes = [
        (path.parent, read_model(path, Outcome, f"Delete {path.parent} to measure this trial again."))
        for path in folder.trial_files("outcome.json")
    ]
    ran = [outcome for _, outcome in outcomes if outcome.status not in (*DOES_NOT_RUN, "skipped")]
    crashed = [(trial, outcome) for trial, outcome in outcomes if outcome.status == "crashed"]
    if ran or not crashed:
        return None
    trial, first = crashed[0]
    return "\n".join(
        (
            f"{first.reason}",
            f"{len(crashed)} of {len(outcomes)} trials crashed, and none ran at any size.",
            f"The whole log of the first: {trial / 'trial.log'}",
            "Run the command by itself at the smallest size, and mend what it says.",
            f"Then delete {folder.root}, or give the study another name, and run the sweep again.",
        )
    )


def why_incomplete(records: Sequence[Path]) -> str | None:
    """Return a sentence on records that are missing although all jobs ended well; None if all are there."""
    missing = [path.parent.name for path in records if not path.exists()]
    if not missing:
        return None
    return (
        f"{len(missing)} of {len(records)} trials were not measured: {', '.join(missing)}."
        " Something else changed this study's folder meanwhile. Run the sweep again: it measures these alone."
    )
