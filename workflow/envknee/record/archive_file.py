"""Reads the file that holds a study: whole, unchanged, and never more than a bounded part of it at once.

Input: a zip file that anybody may have made (`envknee.after.archive` writes one). Output: the sha256 of each file in it, and the files in
a folder, if one is given.
"""

import hashlib
import json
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Container
from pathlib import Path

from envknee.study.errors import UserError

METADATA = "ro-crate-metadata.json"

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
            entities = json.loads(small_file(archive, METADATA))["@graph"]
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


def small_file(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a file that is read as JSON.

    Raises:
        ValueError: when it has more than `LARGEST_JSON_BYTES`.
        KeyError: when there is none of that name.
    """
    with archive.open(name) as source:
        content = source.read(LARGEST_JSON_BYTES + 1)
    if len(content) > LARGEST_JSON_BYTES:
        raise ValueError(f"{name} has more than {LARGEST_JSON_BYTES:,} bytes")
    return content


def _check_member(member: zipfile.ZipInfo, seen: Container[str], path: Path, remedy: str) -> None:
    name, method, is_link = member.filename, member.compress_type, stat.S_ISLNK(member.external_attr >> 16)
    if not NAMES.fullmatch(name) or member.is_dir() or is_link or name in seen or method not in METHODS:
        raise UserError(
            f"{path} holds {name!r}, and plain files that a study has were expected, each once, and packed by method 0 or 8 (deflate;"
            f" this one: {method}). {remedy}"
        )
