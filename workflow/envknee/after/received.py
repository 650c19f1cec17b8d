"""An archive from elsewhere: unpacked only where nothing in it can do harm.

Input: a zip file that anybody may have made. Output: results/archives/<study>/, or nothing at all.

Only files that a study has are unpacked, bit by bit and never more bytes than `LARGEST_BYTES`. A study that would run, read or
contact anything besides envknee (`envknee.study.reach`) is listed and refused, unless its receiver trusts it. Hashes show that an
archive is as it was made; they do not show who made it.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import zipfile
import zlib
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from envknee.record.read import load_records
from envknee.study import claim
from envknee.study.command import ELSEWHERE
from envknee.study.errors import UserError
from envknee.study.files import sha256_of, write_atomically
from envknee.study.load import parse_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.reach import reach_of
from envknee.verdict.read import load_study

METADATA = "ro-crate-metadata.json"
UNFINISHED = ".unpacking-"

LARGEST_BYTES, LARGEST_JSON_BYTES = 4_000_000_000, 16_000_000
"""More is never unpacked, nor read as JSON: a study is megabytes."""

NAMES = re.compile(
    r"study\.json|resolved\.yaml|image\.json|replayed\.jsonl|records\.csv|verdict\.json|report\.html|ro-crate-metadata\.json"
    r"|figures/\w[\w.-]*\.(svg|png|html)|containers/\w[\w.-]*\.lock"
    r"|trials/\d{4,}/((request|environment|outcome|cost|record)\.json|metrics(\.interrupted-\d+)?\.jsonl|frames\.png)",
    re.ASCII,
)
"""What an archive may hold, and all that is packed."""

METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Python bounds what these give at once; other methods unpack a block of any size into memory."""

CHUNK_BYTES = 1 << 20


def check(path: Path, into: Path | None = None) -> dict[str, str]:
    """Return the sha256 of each file in an archive, by name, after making sure that it is whole and as it was made.

    With `into`, an empty folder, they are written there as they are read.

    Raises:
        UserError: when it is no archive of a study, is damaged, holds a file that was changed, added or taken out, or one that
            no study has, or more bytes than it says.
    """
    remedy = "Get the archive again from where it comes from; nothing was unpacked."
    digests: dict[str, str] = {}
    budget = LARGEST_BYTES
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                _check_member(member, digests, path, remedy)
                digest = hashlib.sha256()
                for chunk in _chunks(archive, member, into):
                    budget -= len(chunk)
                    if budget < 0:
                        raise UserError(f"{path} unpacks to more than {LARGEST_BYTES:,} bytes. {remedy}")
                    digest.update(chunk)
                digests[member.filename] = digest.hexdigest()
            entities = json.loads(_small(archive, METADATA))["@graph"]
        expected = {str(entity["@id"]): entity["sha256"] for entity in entities if entity["@type"] == "File"}
    except FileNotFoundError as error:
        raise UserError(
            f"{path} does not exist. Name an archive, as `make archive STUDY=results/<study>` writes one"
        ) from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is not an archive of a study: its {METADATA} is missing or broken ({error}). {remedy}"
        ) from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise UserError(f"{path} is not a whole zip file: {error}. {remedy}") from error
    for name in sorted((expected.keys() | digests.keys()) - {METADATA}):
        if expected.get(name) != digests.get(name):
            what = "is missing" if name not in digests else "was added" if name not in expected else "was changed"
            raise UserError(f"{path}: {name} {what} since the archive was made (sha256). {remedy}")
    return digests


def study_in(path: Path) -> Study:
    """Return the study of an archive, without its tracking store: what is measured here is nobody else's to receive.

    Raises:
        UserError: when it is not a legal study.
    """
    with zipfile.ZipFile(path) as archive:
        try:
            data = json.loads(_small(archive, "study.json"))
        except (KeyError, ValueError, RecursionError) as error:
            raise UserError(f"{path}: its study.json cannot be read ({error}). Nothing was unpacked") from error
    return parse_study(data, f"study.json in {path}", ELSEWHERE).shareable()


def unpack(path: Path, into: Path, trusted: bool = False) -> StudyFolder:
    """Unpack an archive that `check` finds good, and return the folder: into/<study>, as it was where it was measured.

    Raises:
        UserError: as `check`; when its study reaches outside and is not `trusted`; when its files do not follow from each other; or
            there is something else in that folder, which may be measurements: nothing is ever written over.
    """
    check(path)
    _demand_trust(path, study_in(path), trusted)
    into.mkdir(parents=True, exist_ok=True)
    _remove_unfinished(into)
    unfinished = into / f"{UNFINISHED}{secrets.token_hex(4)}"
    unfinished.mkdir()
    try:
        with _locked(unfinished):
            digests = check(path, unfinished)
            folder = StudyFolder(unfinished)
            study = load_study(folder).shareable()
            _demand_trust(path, study, trusted)  # of what was unpacked: the file may be another by now
            claim.write_study(study, folder)
            digests["study.json"] = sha256_of(folder.study)
            load_records(folder)  # each follows from its request, metrics and outcome
            target = into / study.study
            if target.exists():
                _check_unpacked(target, digests)
                return StudyFolder(target)
            unfinished.replace(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return StudyFolder(target)


def _demand_trust(path: Path, study: Study, trusted: bool) -> None:
    lines = "\n".join(f"  {reached}" for reached in reach_of(study))
    if lines and not trusted:
        raise UserError(
            f"{path} holds a study that does more than simulate:\n{lines}\nNothing was unpacked. If you know who made it and want"
            " all of this, run the same command with TRUST=1 before it (TRUST=1 make sweep FROM=...)"
        )


def _remove_unfinished(into: Path) -> None:
    """Remove what unpacking left behind that was killed."""
    for left in into.glob(f"{UNFINISHED}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, or raise BlockingIOError where somebody else does."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def hand_over_requests(unpacked: StudyFolder) -> None:
    """Give a replay's own results folder, where there is none yet, the requests that it is to run: it asks for no others."""
    study = load_study(unpacked)
    own = claim.folder_of(study)
    if study.replay is not None and not own.replayed.exists():
        own.root.mkdir(parents=True, exist_ok=True)
        write_atomically(own.replayed, unpacked.replayed.read_bytes())


def _check_unpacked(folder: Path, digests: dict[str, str]) -> None:
    """Make sure that a folder is this archive, unpacked before; what has been added to it since may stay."""
    remedy = "Move it away, or unpack elsewhere (--into); nothing there was touched"
    metadata = folder / METADATA
    if not metadata.exists() or sha256_of(metadata) != digests[METADATA]:
        raise UserError(
            f"{folder} holds another study of that name, which was not unpacked from this archive. {remedy}"
        )
    for name, digest in digests.items():
        if not (folder / name).exists() or sha256_of(folder / name) != digest:
            raise UserError(f"{folder} was unpacked from this archive, and its {name} was changed since. {remedy}")


def _check_member(member: zipfile.ZipInfo, seen: Container[str], path: Path, remedy: str) -> None:
    name = member.filename
    if not NAMES.fullmatch(name) or member.is_dir() or stat.S_ISLNK(member.external_attr >> 16):
        raise UserError(f"{path} holds {name!r}, and plain files that a study has were expected. {remedy}")
    if name in seen:
        raise UserError(f"{path} holds two files of one name. {remedy}")
    if member.compress_type not in METHODS:
        raise UserError(
            f"{path} packs {name!r} by method {member.compress_type}, and 0 or 8 (deflate) was expected. {remedy}"
        )


def _chunks(archive: zipfile.ZipFile, member: zipfile.ZipInfo, into: Path | None) -> Iterator[bytes]:
    """Give a file's content bit by bit, each of which is written below `into` once the next is asked for."""
    target = Path(os.devnull) if into is None else into / member.filename
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(member) as source, target.open("wb") as written:
        while chunk := source.read(CHUNK_BYTES):
            yield chunk
            written.write(chunk)


def _small(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as source:
        content = source.read(LARGEST_JSON_BYTES + 1)
    if len(content) > LARGEST_JSON_BYTES:
        raise ValueError(f"{name} has more than {LARGEST_JSON_BYTES:,} bytes")
    return content
