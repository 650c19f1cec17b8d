"""A study as one file that another machine can check and run again.

Input: results/<study>/. Output: a zip file with study, requests, measurements, records, camera frames, verdict, figures, lock files and
image hashes. Its ro-crate-metadata.json describes them and holds their sha256 (RO-Crate 1.1, https://w3id.org/ro/crate/1.1). The same
results give the same bytes. The tracking address is left out, because it may hold a password.

`envknee.after.received` reads archives of others.
"""

import argparse
import hashlib
import os
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from envknee.after.received import hand_over_requests, study_in, unpack
from envknee.decide.read import load_measured
from envknee.record.archive_file import METADATA, NAMES, check
from envknee.record.packed import study_folder
from envknee.record.schema import Record
from envknee.show import report
from envknee.study import secret_values
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.paths import PROJECT, RECEIVED, StudyFolder
from envknee.study.reach import reach_of
from envknee.verdict.hardware import hardware

LOCKS = PROJECT / "containers"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of every member: the earliest that a zip file can hold."""

TYPES = {
    ".json": "application/json", ".jsonl": "application/jsonl", ".csv": "text/csv", ".yaml": "application/yaml",
    ".html": "text/html", ".svg": "image/svg+xml", ".png": "image/png", ".lock": "text/plain",
}  # fmt: skip


def write(folder: StudyFolder, target: Path) -> Path:
    """Write a study's archive and return its path.

    Raises:
        UserError: when no trial has finished, a file was changed after its measurement, the study holds a secret, or `target` is a folder.
    """
    if target.is_dir():
        raise UserError(
            f"{target} is a folder, and the file to write was expected, such as {target / folder.root.name}.zip"
        )
    study, records = load_measured(folder)
    secret_values.refuse_copy(study.model_dump(mode="json"), str(folder.study))
    content = _files_of(folder, records) | {"study.json": canonical_json(study.shareable()).encode()}
    if "report.html" in content:
        content["report.html"] = report.page_of(folder, with_runs=False).encode()
    content |= {f"containers/{path.name}": path.read_bytes() for path in LOCKS.glob("*.lock")}
    target.parent.mkdir(parents=True, exist_ok=True)
    pack(described(content, study.study, records), target)
    return target


def described(content: Mapping[str, bytes], name: str, records: Sequence[Record]) -> dict[str, bytes]:
    """Return the files of the study `name` and the metadata that holds their hashes. Pure."""
    return {**content, METADATA: canonical_json(_crate(name, records, content)).encode()}


def pack(content: Mapping[str, bytes], target: Path) -> None:
    """Write the files of an archive, metadata first. With one version of zlib the same files give the same bytes."""
    unfinished = target.with_name(f".{target.name}.new")
    try:
        with zipfile.ZipFile(unfinished, "w") as archive:
            for name in sorted(content, key=lambda name: (name != METADATA, name)):
                member = zipfile.ZipInfo(name, EPOCH)
                member.compress_type = zipfile.ZIP_DEFLATED
                member.external_attr = 0o644 << 16
                archive.writestr(member, content[name], compresslevel=9)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)  # a full disk, or Ctrl-C


def _files_of(folder: StudyFolder, records: Sequence[Record]) -> dict[str, bytes]:
    """Return the files to pack: the study's own and those of its finished trials, by name. A link, which may lead anywhere, is refused."""
    numbers = {f"{record.request.number:04d}" for record in records}
    content = {}
    for name, path in _named(folder):
        is_packed = (
            NAMES.fullmatch(name)
            and name != METADATA
            and (path.parent.name in numbers or not name.startswith("trials/"))
        )
        if path.is_symlink() and (is_packed or path.is_dir()):
            raise UserError(
                f"{path} is a link, and only files of the study itself are packed. Put there what it leads to"
            )
        if is_packed:
            content[name] = path.read_bytes()
    return content


def _named(folder: StudyFolder) -> Iterator[tuple[str, Path]]:
    """Yield everything in a study's folder by its name there; trials come from where they are read. Follows no link."""
    for path in sorted(_below(folder.root)):
        name = path.relative_to(folder.root).as_posix()
        if not name.startswith("trials/"):
            yield name, path
    for path in sorted(_below(folder.trials)):
        yield f"trials/{path.relative_to(folder.trials).as_posix()}", path


def _below(folder: Path) -> Iterator[Path]:
    """Yield all files and folders below a folder. Those that vanish meanwhile, as a running trial's do, are left out."""

    def only_if_gone(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for place, folders, files in os.walk(folder, onerror=only_if_gone):
        for name in [*folders, *files]:
            yield Path(place, name)


def _crate(name: str, records: Sequence[Record], content: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the archive's metadata in RO-Crate's terms: the study, and every file. Versions are in each trial's outcome.json."""
    environments = [record.outcome.environment for record in records if record.outcome.environment is not None]
    commits = sorted({item.git_commit for item in environments if item.git_commit})
    images = sorted({item.image.content_sha256 for item in environments if item.image})
    ended = max(record.outcome.ended_unix_s for record in records)
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
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": name,
        "description": "Trials of reinforcement learning in parallel simulation, and where more environments, longer rollouts and"
        f" larger batches stop paying: measured by envknee. {len(records)} trials; hardware: {', '.join(hardware(records))}; commit:"
        f" {', '.join(commits) or 'unknown'}" + (f"; image content: {', '.join(images)}" if images else ""),
        "datePublished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ended)),
        "license": "Not stated: ask who measured it.",
        "hasPart": [{"@id": item["@id"]} for item in files],
    }
    descriptor = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
    }
    context = ["https://w3id.org/ro/crate/1.1/context", {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}]
    return {"@context": context, "@graph": [descriptor, root, *files]}


def main() -> None:
    """Write a study's archive, or check or unpack one."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("folder", type=Path, nargs="?", help="the folder of a study, such as results/cartpole-one-gpu")
    what.add_argument("--check", type=Path, metavar="FILE", help="say whether an archive is as it was made")
    what.add_argument("--unpack", type=Path, metavar="FILE", help="unpack an archive and print where its study file is")
    parser.add_argument("--to", type=Path, help="the file to write (default: beside the folder, with .zip)")
    parser.add_argument(
        "--into", type=Path, default=Path("results") / RECEIVED, help="where to unpack (default: %(default)s)"
    )
    given = parser.parse_args()
    if given.check:
        print(
            f"{given.check}: {len(check(given.check))} files, all as they were when it was made; by whom is not shown"
        )
        for reached in reach_of(study_in(given.check)):
            print(f"  its study {reached}")
    elif given.unpack:
        unpacked = unpack(given.unpack, given.into, trusted=os.environ.get("TRUST") == "1")
        hand_over_requests(unpacked)
        print(unpacked.study)
    else:
        folder = Path(os.path.normpath(given.folder))
        print(write(study_folder(folder), given.to or folder.with_name(f"{folder.name}.zip")))
