"""Input of figures, report and terminal: verdict.json, the records, and the rows of a trial. They decide nothing again."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from envknee.decide.verdict_file import read_verdict
from envknee.record.read import load_records, read_rows, without_skipped
from envknee.record.schema import Record, Row
from envknee.study.errors import UserError
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.study import Verdict


class Evidence(NamedTuple):
    """The data of a study's figures."""

    verdict: Verdict
    records: Sequence[Record]
    """Records without those of skipped trials."""
    rows: Callable[[Record], Sequence[Row]]
    """Returns the rows of a trial."""


def read_evidence(folder: StudyFolder, records: Sequence[Record] | None = None) -> Evidence:
    """Return the verdict of a study, with its trials: `records`, if they were read before.

    Raises:
        UserError: when the verdict is missing or older than a trial, or a file was changed after its measurement.
    """
    every = load_records(folder) if records is None else records
    verdict, records = read_verdict(folder, every), without_skipped(every)
    if verdict.trials_measured != len(records):
        raise UserError(
            f"{folder.verdict} was decided from {verdict.trials_measured} trials, and {folder.root} holds {len(records)}."
            f" Write it with `envknee verdict {folder.root}`."
        )
    return Evidence(verdict, records, lambda record: read_rows(folder.trial(record.request.number)))
