"""A study as one file that another machine can check, read and run again.

Input: results/<study>/. Output: a zip file with study, requests, measurements, records, camera frames, verdict, figures, lock
files and image hashes, and ro-crate-metadata.json, which describes them and holds the sha256 of each (RO-Crate 1.1, https://w3id.org/ro/crate/1.1).
The same results give the same bytes. The tracking store's address stays behind: it may hold a password.

    python -m envknee.archive results/<study>                         into results/<study>.zip
    python -m envknee.archive --check FILE.zip                        is it whole, and as it was made?
    python -m envknee.archive --unpack FILE.zip                       into results/archives/<study>; prints the study file there
    make sweep FROM=FILE.zip                                          measure its study on this machine
"""

import argparse
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from envknee import claim
from envknee.errors import UserError, run_command
from envknee.files import StudyFolder, canonical_json, write_atomically
from envknee.limits.verdict import hardware, load_measured, load_study
from envknee.record import Record, load_records

METADATA = "ro-crate-metadata.json"
LOCKS = Path(__file__).parents[2] / "containers"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Of every member: the earliest time that a zip file knows."""

LARGEST_BYTES = 4_000_000_000
"""An archive that would unpack to more is refused: a study is megabytes."""

OF_TRIALS = (
    "request.json",
    "environment.json",
    "metrics*.jsonl",
    "outcome.json",
    "cost.json",
    "record.json",
    "frames.png",
)
OF_STUDIES = (
    "resolved.yaml",
    "image.json",
    "replayed.jsonl",
    "records.csv",
    "verdict.json",
    "report.html",
    "figures/**/*",
)
TYPES = {
    ".json": "application/json", ".jsonl": "application/jsonl", ".csv": "text/csv", ".yaml": "application/yaml",
    ".html": "text/html", ".svg": "image/svg+xml", ".png": "image/png", ".lock": "text/plain",
}  # fmt: skip


def write(folder: StudyFolder, target: Path) -> Path:
    """Write a study's archive and return its path.

    Raises:
        UserError: when no trial has finished, a file was changed after its measurement, or `target` is a folder.
    """
    if target.is_dir():
        raise UserError(
            f"{target} is a folder, and the file to write was expected, such as {target / folder.root.name}.zip"
        )
    study, records = load_measured(folder)
    content: dict[str, bytes] = {"study.json": canonical_json(study.shareable()).encode()}
    found = [path for pattern in OF_STUDIES for path in folder.root.glob(pattern)]
    found += [path for record in records for path in _of_trial(folder, record)]
    content |= {path.relative_to(folder.root).as_posix(): path.read_bytes() for path in found if path.is_file()}
    content |= {f"containers/{path.name}": path.read_bytes() for path in LOCKS.glob("*.lock")}
    content[METADATA] = canonical_json(_crate(study.study, records, content)).encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.new")
    with zipfile.ZipFile(unfinished, "w") as archive:
        for name in sorted(content, key=lambda name: (name != METADATA, name)):
            member = zipfile.ZipInfo(name, EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = 0o644 << 16
            archive.writestr(member, content[name])
    unfinished.replace(target)
    return target


def check(path: Path) -> dict[str, bytes]:
    """Return what an archive holds, by name, after making sure that it is whole and as it was made.

    Raises:
        UserError: when it is no archive of a study, is damaged, holds a file that was changed, added or taken out, or a
            name that would lie outside of the folder it is unpacked to.
    """
    remedy = "Get the archive again from where it comes from; nothing was unpacked."
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            for member in members:
                _check_name(member, path, remedy)
            size = sum(member.file_size for member in members)
            if size > LARGEST_BYTES:
                raise UserError(
                    f"{path} would unpack to {size:,} bytes, and at most {LARGEST_BYTES:,} were expected. {remedy}"
                )
            content = {member.filename: archive.read(member) for member in members}
        entities = json.loads(content[METADATA])["@graph"]
        expected = {entity["@id"]: entity["sha256"] for entity in entities if entity["@type"] == "File"}
    except FileNotFoundError as error:
        raise UserError(
            f"{path} does not exist. Name an archive, as `make archive STUDY=results/<study>` writes one"
        ) from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise UserError(f"{path} is not a whole zip file: {error}. {remedy}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not an archive of a study: its {METADATA} is missing or broken ({error}). {remedy}"
        ) from error
    if len(content) != len(members):
        raise UserError(f"{path} holds two files of one name. {remedy}")
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in content.items() if name != METADATA}
    for name in sorted(expected.keys() | digests.keys()):
        if expected.get(name) != digests.get(name):
            what = "is missing" if name not in digests else "was added" if name not in expected else "was changed"
            raise UserError(f"{path}: {name} {what} since the archive was made (sha256). {remedy}")
    return content


def unpack(path: Path, into: Path) -> StudyFolder:
    """Unpack an archive that `check` finds good, and return the folder: into/<study>, as it was where it was measured.

    Raises:
        UserError: as `check`; when its files do not follow from each other; or there is something else in that folder, which may
            be measurements: nothing is ever written over.
    """
    content = check(path)
    into.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=into))
    try:
        for name, data in content.items():
            target = unfinished / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        study = load_study(StudyFolder(unfinished))
        load_records(StudyFolder(unfinished))  # each follows from its request, metrics and outcome
        target = into / study.study
        if target.exists():
            _check_unpacked(target, content)
            return StudyFolder(target)
        unfinished.chmod(0o755)
        unfinished.replace(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return StudyFolder(target)


def hand_over_requests(unpacked: StudyFolder) -> None:
    """Give a replay's own results folder, where there is none yet, the requests that it is to run: it asks for no others."""
    study = load_study(unpacked)
    own = claim.folder_of(study)
    if study.replay is not None and not own.replayed.exists():
        own.root.mkdir(parents=True, exist_ok=True)
        write_atomically(own.replayed, unpacked.replayed.read_bytes())


def _check_unpacked(folder: Path, content: dict[str, bytes]) -> None:
    """Make sure that a folder is this archive, unpacked before; what has been added to it since may stay."""
    remedy = "Move it away, or unpack elsewhere (--into); nothing there was touched"
    metadata = folder / METADATA
    if not metadata.exists() or metadata.read_bytes() != content[METADATA]:
        raise UserError(
            f"{folder} holds another study of that name, which was not unpacked from this archive. {remedy}"
        )
    for name, data in content.items():
        if not (folder / name).exists() or (folder / name).read_bytes() != data:
            raise UserError(f"{folder} was unpacked from this archive, and its {name} was changed since. {remedy}")


def _check_name(member: zipfile.ZipInfo, path: Path, remedy: str) -> None:
    name = PurePosixPath(member.filename)
    climbs = name.is_absolute() or ".." in name.parts or "\\" in member.filename or ":" in member.filename
    if climbs or member.is_dir() or stat.S_ISLNK(member.external_attr >> 16) or name.as_posix() != member.filename:
        raise UserError(
            f"{path} holds {member.filename!r}, and plain files below its own folder were expected. {remedy}"
        )


def _of_trial(folder: StudyFolder, record: Record) -> list[Path]:
    root = folder.trial(record.request.number).root
    return [path for pattern in OF_TRIALS for path in root.glob(pattern)]


def _crate(name: str, records: Sequence[Record], content: dict[str, bytes]) -> dict[str, Any]:
    """Return what the archive is, in RO-Crate's words: the study, what made it, and every file."""
    started = min(record.outcome.started_unix_s for record in records)
    ended = max(record.outcome.started_unix_s + record.outcome.total_s for record in records)
    environments = [record.outcome.environment for record in records if record.outcome.environment is not None]
    packages = {item: version for one in environments for item, version in one.packages.items()}
    commits = sorted({one.git_commit for one in environments if one.git_commit})
    images = sorted({one.image.content_sha256 for one in environments if one.image})
    files = [
        {
            "@id": path,
            "@type": "File",
            "contentSize": str(len(data)),
            "encodingFormat": TYPES.get(PurePosixPath(path).suffix, "application/octet-stream"),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        for path, data in sorted(content.items())
    ]
    software = [
        {"@id": f"#{item}", "@type": "SoftwareApplication", "name": item, "softwareVersion": version}
        for item, version in sorted(packages.items())
    ]
    action = {
        "@id": "#measurement",
        "@type": "CreateAction",
        "name": f"{len(records)} trials",
        "startTime": _iso(started),
        "endTime": _iso(ended),
        "instrument": [{"@id": one["@id"]} for one in software],
        "object": {"@id": "study.json"},
        "result": {"@id": "./"},
        "description": "; ".join(
            [f"hardware: {', '.join(hardware(records))}", f"commit: {', '.join(commits) or 'unknown'}"]
            + ([f"image content: {', '.join(images)}"] if images else [])
        ),
    }
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": name,
        "description": "Trials of reinforcement learning in parallel simulation, and where more environments, longer rollouts and"
        " larger batches stop paying: measured by envknee.",
        "datePublished": _iso(ended),
        "license": "Not stated: ask who measured it.",
        "hasPart": [{"@id": one["@id"]} for one in files],
        "mentions": {"@id": "#measurement"},
    }
    descriptor = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
    }
    context = ["https://w3id.org/ro/crate/1.1/context", {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}]
    return {"@context": context, "@graph": [descriptor, root, action, *software, *files]}


def _iso(unix_s: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(unix_s))


def main() -> None:
    """Write a study's archive, or check or unpack one."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("folder", type=Path, nargs="?", help="the folder of a study, such as results/cartpole-one-gpu")
    what.add_argument("--check", type=Path, metavar="FILE", help="say whether an archive is as it was made")
    what.add_argument("--unpack", type=Path, metavar="FILE", help="unpack an archive and print where its study file is")
    parser.add_argument("--to", type=Path, help="the file to write (default: beside the folder, with .zip)")
    parser.add_argument(
        "--into", type=Path, default=Path("results/archives"), help="where to unpack (default: %(default)s)"
    )
    given = parser.parse_args()
    if given.check:
        print(f"{given.check}: {len(check(given.check))} files, all as they were when it was made")
    elif given.unpack:
        unpacked = unpack(given.unpack, given.into)
        hand_over_requests(unpacked)
        print(unpacked.study)
    else:
        folder = Path(os.path.normpath(given.folder))
        print(write(StudyFolder(folder), given.to or folder.with_name(f"{folder.name}.zip")))


if __name__ == "__main__":
    run_command(main)
