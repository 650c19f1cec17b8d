"""The local store of answers: what studies decided on this account, so that `envknee best --task T` need not measure again.

Input: a study's verdict and records when its report is written. Output: a JSON file for each task, program, device, versions, arm and
question in `$XDG_STATE_HOME/envknee/answers/` (`~/.local/state` without the variable). A newer answer replaces an older one. A store that
cannot be written is no error. Only its owner may read it: an answer holds the command that was measured.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from envknee.record.schema import Record
from envknee.run.training_command import training_command
from envknee.study.errors import UserError, tell
from envknee.study.files import SECRET, canonical_json, read_model, sha256_of, write_atomically
from envknee.verdict.best import answers_of
from envknee.verdict.schema.best import Answer
from envknee.verdict.schema.card import TrainingCommand
from envknee.verdict.schema.joint import Setting
from envknee.verdict.schema.study import Verdict

STATE = "XDG_STATE_HOME"
"""Environment variable with the folder for what programs keep between runs (XDG Base Directory Specification 0.8)."""


def study_answers(verdict: Verdict, records: Sequence[Record]) -> list[Answer]:
    """Return every arm's answers, with the commands that train there. `records` may hold those of skipped trials."""
    of_arms: dict[str, list[Record]] = {}
    for record in records:
        of_arms.setdefault(record.request.arm, []).append(record)

    def command_of(arm: str, setting: Setting) -> TrainingCommand | None:
        return training_command(of_arms.get(arm, []), setting)

    return answers_of(verdict, records, command_of)


def store() -> Path:
    """Return the folder of the store, which may not exist.

    Raises:
        UserError: when neither the variable nor a home directory names one.
    """
    given = Path(os.environ.get(STATE) or "")
    try:
        base = given if given.is_absolute() else Path.home() / ".local/state"
    except RuntimeError as error:
        raise UserError(f"{STATE} names no folder for answers, and there is no home directory. Set {STATE}") from error
    return base / "envknee" / "answers"


def file_name(answer: Answer) -> str:
    """Return the name of an answer's file: words that a person recognises, and a hash of all that tells answers apart. Pure."""
    words = (answer.task_id, answer.program, answer.device, answer.arm, answer.kind)
    readable = "-".join(re.sub(r"[^A-Za-z0-9]+", "-", word).strip("-")[:32] for word in words)
    return f"{readable}-{sha256_of(canonical_json([*words, answer.versions]))[:8]}.json"


def keep_answers(verdict: Verdict, records: Sequence[Record]) -> None:
    """Put the decided answers of a study into the store. Where that is not possible it says so, and nothing fails."""
    try:
        folder = store()
        for answer in study_answers(verdict, records):
            if answer.is_decided() and not _is_older(answer, folder):
                folder.mkdir(parents=True, exist_ok=True)
                write_atomically(folder / file_name(answer), canonical_json(answer), SECRET)
    except (OSError, UserError) as error:
        tell(f"the answer is not kept for `envknee best --task`: {error}")


def _is_older(answer: Answer, folder: Path) -> bool:
    """Tell whether the store holds a newer answer, as when the report of an old study is written again."""
    path = folder / file_name(answer)
    known = _read(path) if path.exists() else None
    return known is not None and known.measured_unix_s > answer.measured_unix_s


def stored_answers() -> list[Answer]:
    """Return the answers in the store, the newest first. Files that this envknee cannot read are named, and left out."""
    found = (_read(path) for path in sorted(store().glob("*.json")))
    return sorted(
        (answer for answer in found if answer is not None), key=lambda answer: answer.measured_unix_s, reverse=True
    )


def _read(path: Path) -> Answer | None:
    try:
        return read_model(path, Answer, "It is left out. Remove it, or write the study's report again.")
    except UserError as error:
        tell(error)
        return None
