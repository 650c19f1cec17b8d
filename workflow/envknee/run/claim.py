"""A results folder belongs to one study. One sweep at a time may work in it: its lock ends with the process, even after SIGKILL."""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from envknee.machine.lock import locked
from envknee.record.packed import PackedStudy
from envknee.study.continued import asked_before
from envknee.study.errors import UserError
from envknee.study.files import READABLE, SECRET, canonical_json, check_writable, make_folder, write_atomically
from envknee.study.model import Study
from envknee.study.paths import PROJECT, StudyFolder, TrialFolder

RAISE = " For more repeats of a measured study leave `repeats` as it was, and set `more_repeats`."


def check(study: Study, folder: StudyFolder) -> None:
    """Make sure that the folder is writable, that trials already in it belong to this study, and that a sweep sees all of them.

    Raises:
        UserError: names the folder, or lists the keys that differ: the measured value, and the value now.
    """
    if folder.root.exists():
        check_writable([folder.root, *sorted(path for path in folder.root.iterdir() if path.is_dir())])
    if folder.archive.exists() and not isinstance(folder, PackedStudy):  # which reads it, for example to publish it
        raise UserError(
            f"{folder.root} holds a published study, and a sweep does not read its {folder.archive.name}. Move that folder away. To go on"
            f" with it, run `envknee archive --unpack MOVED/{folder.archive.name} --into {folder.root.parent}` first."
        )
    before = asked_before(folder)
    if before is None:
        return
    for kind, asks in study.sections.items():
        asked = before.sections.get(kind)
        if asked and asks.more_repeats < asked.more_repeats:
            raise UserError(
                f"{kind}.more_repeats: {asks.more_repeats}, and this study was measured with {asked.more_repeats}: put that back, or raise"
                " it. Trials that are there are not taken away"
            )
    measured, now = before.measured_part(), study.measured_part()
    if measured != now:
        differences = "\n".join(f"  {line}" for line in _differences(measured, now, ""))
        raise UserError(
            f"{folder.root} holds results of another study that has the same name:\n{differences}\n"
            "Change `study:` to a new name (nothing is lost, both can be compared), put these values back, or move that folder away."
            f"{RAISE if any('.repeats: ' in line for line in differences.splitlines()) else ''}"
        )


def take(study: Study, folder: StudyFolder) -> IO[str]:
    """Write study.json and lock the folder. The lock lasts as long as the returned file stays open.

    Raises:
        UserError: when the folder belongs to another study, another sweep works in it, or its file system has no locks.
    """
    check(study, folder)
    make_folder(folder.root)
    lock = (folder.root / ".lock").open("a+", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        raise UserError(
            f"study {study.study!r} is already being swept by {lock.read().strip() or 'another process'}."
            " Wait for it, stop it with Ctrl-C there, or give this study another name."
        ) from error
    except OSError as error:
        raise UserError(
            f"{folder.root} is on a file system without file locks ({error.strerror}), which keep two sweeps apart."
            " Have it mounted with them (NFS 4; Lustre with -o flock), or put results/ on another one."
        ) from error
    lock.truncate(0)
    lock.write(f"process {os.getpid()} on {socket.gethostname()}\n")
    lock.flush()
    write_study(study, folder)
    return lock


@contextmanager
def environment_kept() -> Iterator[None]:
    """Make set-up wait before it empties .venv, which a sweep's jobs need.

    Nothing is locked where there is no clone, no file locks, or a set-up at work.
    """
    with ExitStack() as files:
        with suppress(OSError):
            lock = files.enter_context((PROJECT / ".venv.lock").open("rb"))
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield


def write_study(study: Study, folder: StudyFolder) -> None:
    """Write study.json if it is missing or different. If the tracking address may hold a password, only the owner may read it."""
    text, is_secret = canonical_json(study), study.tracking.may_hold_password
    if not folder.study.exists() or folder.study.read_text(encoding="utf-8") != text:
        write_atomically(folder.study, text, SECRET if is_secret else READABLE)
    elif is_secret:
        folder.study.chmod(SECRET)


def only_launcher_of(trial: TrialFolder) -> AbstractContextManager[object]:
    """Hold the trial's lock. Wait while another launcher still measures the trial, such as one of a killed sweep."""
    return locked(trial.lock, f"{trial.root}: still running under an earlier sweep; waiting for its result")


def wait_for_trials(folder: StudyFolder) -> None:
    """Wait for trials that a killed sweep left running on this machine: they would slow down new trials beside them."""
    for path in folder.trial_files(".lock"):
        trial = TrialFolder(path.parent)
        if not trial.record.exists():
            with only_launcher_of(trial):
                pass


def _differences(measured: Any, now: Any, key: str) -> list[str]:
    """Return a line for every key whose value differs."""
    if isinstance(measured, dict) and isinstance(now, dict):
        return [
            line
            for name in sorted({*measured, *now})
            for line in _differences(measured.get(name), now.get(name), f"{key}.{name}" if key else name)
        ]
    return [] if measured == now else [f"{key}: measured with {json.dumps(measured)}, now {json.dumps(now)}"]


def folder_of(study: Study) -> StudyFolder:
    """Return the folder of a study, below the working directory."""
    return StudyFolder(Path("results") / study.study)
