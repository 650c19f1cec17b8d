"""Studies measured on GPUs (results-published), as pages and tests read them."""

import shutil
from pathlib import Path

from envknee.study.paths import StudyFolder

from benchmarks.pages.published import PUBLISHED, ROOT, records_of, uuid_of, verdict_of

__all__ = ["PUBLISHED", "ROOT", "as_measured", "records_of", "uuid_of", "verdict_of"]


def as_measured(name: str, to: Path) -> StudyFolder:
    """Write a published study to `to` as a sweep leaves it, with its trials in a folder and without a verdict."""
    folder, published = StudyFolder(to), PUBLISHED[name]
    shutil.copytree(published.trials, folder.trials)
    shutil.copyfile(published.study, folder.study)
    return folder
