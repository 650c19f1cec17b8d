"""The requests that a replay runs again, in a file of its own: it does not need the first study's folder.

Input: replayed.jsonl, a request in each line, as `envknee.after.replay` writes it. The replay's study.json holds the file's sha256.
"""

from envknee.record.schema import Request
from envknee.study.errors import UserError
from envknee.study.files import read_lines, sha256_of
from envknee.study.model import Study
from envknee.study.paths import StudyFolder


def read(study: Study, folder: StudyFolder) -> list[Request]:
    """Return the requests that a replay runs again; none for any other study.

    Raises:
        UserError: when the file is missing, or was changed after the replay was made.
    """
    if study.replay is None:
        return []
    path = folder.replayed
    remedy = f"`make replay STUDY=<folder of study {study.replay.of}>` writes it."
    if not path.exists():
        raise UserError(
            f"{path} does not exist, and study '{study.study}' runs the {study.replay.trials} requests in it again. {remedy}"
        )
    if (sha256 := sha256_of(path)) != study.replay.requests_sha256:
        raise UserError(
            f"{path} was changed: its sha256 is {sha256}, and {study.replay.requests_sha256} was expected. {remedy}"
        )
    return read_lines(path, Request, remedy)
