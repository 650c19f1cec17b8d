"""Unpacks another user's archive, and only if nothing in it can do harm.

Input: a zip file that anybody may have made. Output: results/archives/<study>/, or nothing.

Only a study's own kinds of files are unpacked (`envknee.record.archive_file`). If the study would run, read or contact anything
outside envknee (`envknee.study.reach`), that is listed and the archive is refused, unless its receiver trusts it. Hashes show that an
archive is unchanged; they do not show who made it.
"""

import json
import shutil
import zipfile
from pathlib import Path

from envknee.decide.read import load_study
from envknee.machine.lock import locked
from envknee.record.archive_file import check, small_file
from envknee.record.read import load_records
from envknee.run import claim
from envknee.study.command import ELSEWHERE
from envknee.study.errors import UserError
from envknee.study.files import sha256_of, write_atomically
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.reach import reach_of

UNFINISHED = ".unpacking"


def study_in(path: Path) -> Study:
    """Return the study of an archive, without its tracking address: measurements of this machine stay with its user.

    Raises:
        UserError: when it is not a legal study.
    """
    with zipfile.ZipFile(path) as archive:
        try:
            content = small_file(archive, "study.json")
        except (KeyError, ValueError) as error:
            raise UserError(f"{path}: its study.json cannot be read ({error}). Nothing was unpacked") from error
    return _study_of(content, path)


def _study_of(content: bytes, path: Path) -> Study:
    """Read the study of an archive: nothing that it names is opened, and presets by path are refused."""
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: its study.json cannot be read ({error}). Nothing was unpacked") from error
    return parse_study(data, f"study.json in {path}", ELSEWHERE).shareable()


def unpack(path: Path, into: Path, trusted: bool = False) -> StudyFolder:
    """Check and unpack an archive, and return the folder, into/<study>.

    Raises:
        UserError: as `check`; when its study reaches outside and is not `trusted`; when its files do not follow from each other; or when
            that folder holds something else. Nothing is overwritten.
    """
    check(path)
    _demand_trust(path, study_in(path), trusted)
    into.mkdir(parents=True, exist_ok=True)
    folder = StudyFolder(into / UNFINISHED)
    with locked(into / f"{UNFINISHED}.lock"):
        shutil.rmtree(folder.root, ignore_errors=True)  # of a process that was killed
        folder.root.mkdir()
        try:
            digests = check(path, folder.root)
            study = _study_of(folder.study.read_bytes(), path)
            _demand_trust(path, study, trusted)  # again, because the file may have changed meanwhile
            claim.write_study(study, folder)
            digests["study.json"] = sha256_of(folder.study)
            load_records(folder)  # each follows from its request, metrics and outcome
            target = into / study.study
            if target.exists():
                _check_unpacked(target, digests)
            else:
                folder.root.replace(target)
        finally:
            shutil.rmtree(folder.root, ignore_errors=True)
    return StudyFolder(target)


def _demand_trust(path: Path, study: Study, trusted: bool) -> None:
    lines = "\n".join(f"  {reached}" for reached in reach_of(study))
    if lines and not trusted:
        raise UserError(
            f"{path} holds a study that does more than simulate:\n{lines}\nNothing was unpacked. If you know who made it and want"
            " all of this, run the same command with TRUST=1 before it (TRUST=1 make sweep FROM=...)"
        )


def hand_over_requests(unpacked: StudyFolder) -> None:
    """If the archive is a replay, copy its requests into its results folder, unless they are there: it asks for no others."""
    study = load_study(unpacked)
    own = claim.folder_of(study)
    if study.replay is not None and not own.replayed.exists():
        own.root.mkdir(parents=True, exist_ok=True)
        write_atomically(own.replayed, unpacked.replayed.read_bytes())


def _check_unpacked(folder: Path, digests: dict[str, str]) -> None:
    """Make sure that a folder is this archive, unpacked before. It may hold more files."""
    for name, digest in digests.items():
        if not (folder / name).exists() or sha256_of(folder / name) != digest:
            raise UserError(
                f"{folder} holds another study of that name, or was changed since it was unpacked: its {name} is not this archive's."
                " Move it away, or unpack elsewhere (--into); nothing there was touched"
            )
