"""Unpacks another user's archive, and only if nothing in it can do harm.

Input: a zip file that anybody may have made. Output: results/archives/<study>/, or nothing.

Only a study's own kinds of files are unpacked, in chunks and at most `LARGEST_BYTES`. If the study would run, read or contact anything
outside envknee (`envknee.study.reach`), that is listed and the archive is refused, unless its receiver trusts it. Hashes show that an
archive is unchanged; they do not show who made it.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Container
from pathlib import Path

from envknee.decide.read import load_study
from envknee.machine.lock import locked
from envknee.record.read import load_records
from envknee.run import claim
from envknee.study.command import ELSEWHERE
from envknee.study.errors import UserError
from envknee.study.files import sha256_of, write_atomically
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.reach import reach_of

METADATA = "ro-crate-metadata.json"
UNFINISHED = ".unpacking"

LARGEST_BYTES, LARGEST_JSON_BYTES = 4_000_000_000, 16_000_000
"""Most bytes that are unpacked, and most that are read as JSON. A study has megabytes."""

NAMES = re.compile(
    r"study\.json|resolved\.yaml|image\.json|replayed\.jsonl|records\.csv|verdict\.json|report\.html|ro-crate-metadata\.json"
    r"|figures/\w[\w.-]*\.(svg|png|html)|containers/\w[\w.-]*\.lock"
    r"|trials/\d{4,}/((request|environment|outcome|cost|record)\.json|metrics(\.interrupted-\d+)?\.jsonl|frames\.png)",
    re.ASCII,
)
"""The files of an archive."""

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Python unpacks these in bounded chunks; other methods unpack a block of any size into memory."""

CHUNK_BYTES = 1 << 20


def check(path: Path, into: Path | None = None) -> dict[str, str]:
    """Make sure that an archive is whole and unchanged; return the sha256 of each file, by name.

    With `into`, an empty folder, the files are also written there.

    Raises:
        UserError: when it is no archive of a study, is damaged or too large, or holds files that were changed, added or removed, or
            that no study has.
    """
    remedy = "Get the archive again from where it comes from; nothing was unpacked."
    digests: dict[str, str] = {}
    budget = LARGEST_BYTES
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _check_member(member, digests, path, remedy)
                digest = hashlib.sha256()
                target = Path(os.devnull) if into is None else into / member.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as written:
                    while chunk := source.read(CHUNK_BYTES):
                        budget -= len(chunk)
                        if budget < 0:
                            raise UserError(f"{path} unpacks to more than {LARGEST_BYTES:,} bytes. {remedy}")
                        digest.update(chunk)
                        written.write(chunk)
                digests[member.filename] = digest.hexdigest()
            entities = json.loads(_small(archive, METADATA))["@graph"]
        expected = {str(entity["@id"]): entity["sha256"] for entity in entities if entity["@type"] == "File"}
    except FileNotFoundError as error:
        raise UserError(
            f"{path} does not exist. Name an archive, as `make archive STUDY=results/<study>` writes one"
        ) from error
    except (KeyError, TypeError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(
            f"{path} is not a whole archive of a study, a zip file with {METADATA} in it: {error!r}. {remedy}"
        ) from error
    for name in sorted((expected.keys() | digests.keys()) - {METADATA}):
        if expected.get(name) != digests.get(name):
            what = "was changed" if name in expected else "was added"
            if name not in digests:
                what = "is missing"
            raise UserError(f"{path}: {name} {what} since the archive was made (sha256). {remedy}")
    return digests


def study_in(path: Path) -> Study:
    """Return the study of an archive, without its tracking address: measurements of this machine stay with its user.

    Raises:
        UserError: when it is not a legal study.
    """
    with zipfile.ZipFile(path) as archive:
        try:
            content = _small(archive, "study.json")
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


def _check_member(member: zipfile.ZipInfo, seen: Container[str], path: Path, remedy: str) -> None:
    name, method, is_link = member.filename, member.compress_type, stat.S_ISLNK(member.external_attr >> 16)
    if not NAMES.fullmatch(name) or member.is_dir() or is_link or name in seen or method not in METHODS:
        raise UserError(
            f"{path} holds {name!r}, and plain files that a study has were expected, each once, and packed by method 0 or 8 (deflate;"
            f" this one: {method}). {remedy}"
        )


def _small(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as source:
        content = source.read(LARGEST_JSON_BYTES + 1)
    if len(content) > LARGEST_JSON_BYTES:
        raise ValueError(f"{name} has more than {LARGEST_JSON_BYTES:,} bytes")
    return content
