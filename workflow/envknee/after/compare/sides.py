"""The two sides of a comparison: the trials of a folder, an arm or a commit."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envknee.after.received import unpack
from envknee.decide.read import load_measured
from envknee.record.packed import study_folder
from envknee.record.read import without_skipped
from envknee.record.schema import Record
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder

SHORTEST_HASH = 4
"""Fewest digits that name a commit or an image."""


@dataclass(frozen=True)
class Side:
    """One arm of a study."""

    name: str
    study: Study
    records: list[Record]
    arm: str


def sides(a: str, b: str) -> list[tuple[Side, Side]]:
    """Return the pairs of arms to compare: the named arms, the only arms, or every common arm.

    Raises:
        UserError: as `arms_of`, and when it is not clear which arm is meant.
    """
    of_a, of_b = arms_of(a), arms_of(b)
    if len(of_a) == len(of_b) == 1:
        return list(zip(of_a.values(), of_b.values(), strict=True))
    common = sorted(of_a.keys() & of_b.keys())
    if not common or a == b:
        known, arms = (a, of_a) if len(of_a) > 1 else (b, of_b)
        raise UserError(
            f"{known} has {len(arms)} arms. Name one of them: {', '.join(f'{known}:{name}' for name in arms)}"
        )
    return [(of_a[arm], of_b[arm]) for arm in common]


def arms_of(text: str) -> dict[str, Side]:
    """Return the arms with a finished trial of what a user names.

    That is `FOLDER` or an archive, then maybe `@BUILD` (a commit or an image) and `:ARM`.

    Raises:
        UserError: when the folder holds no study, no record, no such arm, no trial of that arm, commit or image, or trials of an arm
            that its study lacks.
    """
    path, _, arm = text.rpartition(":") if ":" in text and not Path(text).exists() else (text, "", "")
    path, _, build = path.rpartition("@") if "@" in path and not Path(path).exists() else (path, "", "")
    study, records = load_measured(_folder(Path(path)))
    if arm and arm not in study.arms:
        arms = ", ".join(f"{path}:{name}" for name in sorted(study.arms))
        raise UserError(f"{path} has no arm {arm!r}. Name one of them: {arms}")
    records = without_skipped(records)
    by_arm: dict[str, list[Record]] = {}
    for record in _of_build(records, build, path) if build else records:
        if arm in ("", record.request.arm):
            by_arm.setdefault(record.request.arm, []).append(record)
    if not by_arm:
        raise UserError(f"{text} holds no finished trial of arm {arm!r}. Run the sweep first")
    if unknown := sorted(by_arm.keys() - study.arms.keys()):
        arms = ", ".join(f"{path}:{name}" for name in sorted(study.arms))
        raise UserError(
            f"{path} holds trials of arm {unknown[0]!r}, which its study.json lacks: these files are not of one study."
            f" Name an arm that it has: {arms}, or restore the study.json that the trials were measured with"
        )
    # A name that a user gave without an arm gets one where there are several.
    names = {own: text if arm or len(by_arm) == 1 else f"{text}:{own}" for own in sorted(by_arm)}
    return {own: Side(name, study, by_arm[own], own) for own, name in names.items()}


def _folder(path: Path) -> StudyFolder:
    """Return the study in a folder, or in an archive of `envknee archive`, of which nothing runs."""
    if path.suffix != ".zip" or not path.is_file():
        return study_folder(path)
    state = path.stat()
    return unpack(path, Path(_place_for(path.resolve(), state.st_mtime_ns, state.st_size).name), trusted=True)


@cache
def _place_for(archive: Path, mtime_ns: int, size_bytes: int) -> tempfile.TemporaryDirectory[str]:
    """Return where an archive is unpacked: a folder that goes when the process ends. One that did not change keeps it."""
    return tempfile.TemporaryDirectory(prefix="envknee-", ignore_cleanup_errors=True)


def _builds(record: Record) -> list[str]:
    """Return the hashes of a trial's git commit, and of its image's content and file."""
    environment = record.outcome.environment
    if environment is None:
        return []
    image = environment.image
    builds = [environment.git_commit, *((image.content_sha256, image.sif_sha256) if image else ())]
    return [build.removeprefix("sha256:") for build in builds if build]


def _of_build(records: Sequence[Record], build: str, path: str) -> list[Record]:
    """Return the records of one commit or image, named by the first digits of its hash."""
    wanted = build.lower().removeprefix("sha256:")
    known = Counter(name for record in records for name in _builds(record))
    matching = [name for name in known if name.startswith(wanted)]
    if len(matching) != 1 or len(wanted) < SHORTEST_HASH:
        why = "fits several" if matching else "fits none"
        if len(wanted) < SHORTEST_HASH:
            why = "is too short"
        listed = ", ".join(f"{name[:12]} ({count} trials)" for name, count in known.most_common())
        raise UserError(
            f"{path}@{build}: {build!r} {why} of the commits and images that its trials ran with: {listed or 'none known'}."
            f" Give at least {SHORTEST_HASH} digits of one of them"
        )
    return [record for record in records if matching[0] in _builds(record)]
