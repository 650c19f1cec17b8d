"""Opens a study's folder, whether its trials lie in a folder or in one archive, as published ones do.

Input: results/<study>/ or results-published/<study>/. Output: its `StudyFolder`. The archive is checked and unpacked into a temporary
folder when a trial is first read, and that folder goes when the process ends. Nothing in the study's folder is written.
"""

import tempfile
from functools import cache, cached_property
from pathlib import Path

from envknee.record.archive_file import check
from envknee.study.paths import StudyFolder


class PackedStudy(StudyFolder):
    """A study whose trials lie in trials.zip. They are read like any others, and what is written beside them is lost."""

    @cached_property
    def trials(self) -> Path:
        """The folder of all trials, unpacked.

        Raises:
            UserError: as `check`.
        """
        state = self.archive.stat()
        return StudyFolder(Path(_unpacked(self.archive.resolve(), state.st_mtime_ns, state.st_size).name)).trials


def study_folder(root: Path) -> StudyFolder:
    """Return the study in a folder. An archive of its trials counts before a folder of them, which an earlier version left there."""
    folder = StudyFolder(root)
    return PackedStudy(root) if folder.archive.exists() else folder


@cache
def _unpacked(archive: Path, mtime_ns: int, size_bytes: int) -> tempfile.TemporaryDirectory[str]:
    """Check and unpack an archive; one that did not change meanwhile is unpacked once."""
    folder = tempfile.TemporaryDirectory(prefix="envknee-", ignore_cleanup_errors=True)
    try:
        check(archive, Path(folder.name))
    except BaseException:
        folder.cleanup()
        raise
    return folder
