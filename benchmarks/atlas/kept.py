"""What is kept of each task: `envknee keep`'s files of its search, and search.json beside them.

Input: a search's results. Output: results-published/atlas/<task>/, and from there what a page and a figure show.
"""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from envknee.decide.study import decide
from envknee.record.packed import study_folder
from envknee.record.read import load_records, without_skipped
from envknee.record.schema import Record
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.study import ArmVerdict, Verdict

from benchmarks.atlas import sittings
from benchmarks.atlas.sittings import Search

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "results-published" / "atlas"


class NotKept(Exception):
    """`envknee keep` refused; the text says why."""


class Measured(NamedTuple):
    """A task that was measured, as it is decided today."""

    search: Search
    records: list[Record]
    verdict: Verdict

    @property
    def arm(self) -> ArmVerdict:
        """The verdict of the only arm."""
        (arm,) = self.verdict.arms
        return arm


def keep(study: StudyFolder, search: Search, to: Path) -> None:
    """Keep what a search measured, and how long it took. Of one without a verdict only search.json is kept.

    Raises:
        NotKept: where `envknee keep` refuses what was measured.
    """
    refusal = None
    if study.verdict.exists():
        command = [sys.executable, "-m", "envknee", "keep", str(study.root), "--to", str(to)]
        ran = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        refusal = ran.stderr.strip() if ran.returncode else None
    sittings.write_search(to / search.task, search)
    if refusal is not None:
        raise NotKept(refusal)


def searches(folder: Path = FOLDER) -> list[Search]:
    """Return what is noted of every kept search, by name."""
    return [sittings.read_search(path.parent, "", "") for path in sorted(folder.glob(f"*/{sittings.FILE}"))]


def measured(folder: Path = FOLDER) -> list[Measured]:
    """Return every kept task that has a verdict, decided from its records now."""
    return [_read(folder, search) for search in searches(folder) if (folder / search.task / "study.json").exists()]


def without_verdict(folder: Path = FOLDER) -> list[Search]:
    """Return the searches of which nothing was measured."""
    return [search for search in searches(folder) if not (folder / search.task / "study.json").exists()]


def _read(folder: Path, search: Search) -> Measured:
    study = study_folder(folder / search.task)
    records = load_records(study)
    return Measured(search, without_skipped(records), decide(records, read_study(study.study)))
