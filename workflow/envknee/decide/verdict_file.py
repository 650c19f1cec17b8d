"""Reads verdict.json. A verdict that an earlier version of envknee wrote is decided again from the records.

Input: a results folder. Output: its `Verdict`. Writes nothing.
"""

import json
from collections.abc import Sequence
from typing import Any

from envknee.decide.follows import follows
from envknee.decide.read import load_study, studies_beside
from envknee.decide.study import decide
from envknee.record.read import load_records
from envknee.record.schema import Record
from envknee.study.errors import UserError, tell
from envknee.study.files import read_model
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.study import SCHEMA_VERSION, Verdict


def read_verdict(folder: StudyFolder, records: Sequence[Record] | None = None) -> Verdict:
    """Return the verdict of a folder, today's or decided again; `records` are the folder's, if they were read before.

    Raises:
        UserError: when there is no verdict, it is broken, or a newer version of envknee wrote it.
    """
    if not folder.verdict.exists():
        raise UserError(_nothing_there(folder))
    version = _version(folder)
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise UserError(
            f"{folder.verdict} has schema version {version}, and this envknee reads versions up to {SCHEMA_VERSION}."
            f" Use the newer envknee that wrote it, or decide again with `envknee verdict {folder.root}`."
        )
    if version is None or (isinstance(version, int) and version < SCHEMA_VERSION):
        return _decided_again(folder, version, records)
    return read_model(folder.verdict, Verdict, f"Write it with `envknee verdict {folder.root}`.")


def stale_verdict(folder: StudyFolder, decided: Verdict) -> str | None:
    """Return what to do if verdict.json is not what is `decided` from the records now, but for the last digits of numbers."""
    if follows(folder.verdict.read_text(encoding="utf-8", errors="replace"), decided):
        return None
    return f"{folder.verdict} does not follow from the records: `envknee verdict {folder.root}` writes it again"


def _version(folder: StudyFolder) -> Any:
    """Return the version in verdict.json, or None if it has none. A broken file counts as one of today, whose reader explains it."""
    try:
        content = json.loads(folder.verdict.read_text(encoding="utf-8"))
    except ValueError:  # cut off, or not UTF-8
        return SCHEMA_VERSION
    return content.get("schema_version") if isinstance(content, dict) else SCHEMA_VERSION


def _decided_again(folder: StudyFolder, version: int | None, records: Sequence[Record] | None) -> Verdict:
    study = load_study(folder)
    known = load_records(folder) if records is None else records
    written = "has no schema version" if version is None else f"has schema version {version}"
    tell(
        f"{folder.verdict} {written}, and today's is {SCHEMA_VERSION}: decided again from {len(known)} records by"
        f" {folder.study.name}. `envknee verdict {folder.root}` writes it."
    )
    return decide(known, study)


def _nothing_there(folder: StudyFolder) -> str:
    """Return why there is no verdict, and what to type."""
    if folder.study.exists():
        return f"{folder.root} holds no {folder.verdict.name} yet. Write it with `envknee verdict {folder.root}`."
    return f"{folder.root} holds no {folder.verdict.name} and no {folder.study.name}. {studies_beside(folder)}"
