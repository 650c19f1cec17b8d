"""Reads records and rows of a results folder."""

from collections.abc import Iterable

from envknee.record.build import build_record
from envknee.record.schema import Cost, Outcome, Record, Request, Row
from envknee.study.errors import UserError
from envknee.study.files import read_lines, read_model, sha256_of
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder, TrialFolder, number_of


def read_rows(trial: TrialFolder) -> list[Row]:
    """Read the rows of a trial, in order; none if it ended before its first iteration."""
    return read_lines(trial.metrics, Row, _remedy(trial)) if trial.metrics.exists() else []


def load_record(trial: TrialFolder) -> Record:
    """Read the record of a finished trial and check it against its request, metrics and outcome.

    Raises:
        UserError: when a file is missing, truncated, or was changed after the measurement.
    """
    again = f"`envknee record {trial.root}` writes it again from {trial.metrics.name}."
    record, rebuilt = read_model(trial.record, Record, again), rebuild_record(trial)
    # Fields that a later version added to records are not compared.
    if any(getattr(record, name) != getattr(rebuilt, name) for name in record.model_fields_set):
        raise UserError(
            f"{trial.record} does not follow from the files beside it: it was changed after the measurement. {again}"
        )
    return rebuilt


def rebuild_record(trial: TrialFolder) -> Record:
    """Compute the record again from request.json, metrics.jsonl, outcome.json and cost.json.

    Raises:
        UserError: when one of them is missing, truncated, or was changed after the measurement.
    """
    request = read_model(trial.request, Request, _remedy(trial))
    outcome = read_model(trial.outcome, Outcome, _remedy(trial))
    for path, expected in ((trial.request, outcome.request_sha256), (trial.metrics, outcome.metrics_sha256)):
        sha256 = sha256_of(path) if path.exists() else None
        if sha256 != expected:
            raise UserError(
                f"{path} was changed after the measurement: its sha256 is {sha256}, and {expected} was expected. {_remedy(trial)}"
            )
    cost = read_model(trial.cost, Cost, _remedy(trial)) if trial.cost.exists() else None
    return build_record(request, read_rows(trial), outcome, cost)


def without_skipped(records: Iterable[Record]) -> list[Record]:
    """Return the records without those of skipped trials, which say nothing about their points."""
    return [record for record in records if record.outcome.status != "skipped"]


def load_records(folder: StudyFolder) -> list[Record]:
    """Return the records of all finished trials by number, each checked as `load_record` does.

    Raises:
        UserError: when a file is truncated or was changed after the measurement, or when a trial belongs to another study or
            another folder.
    """
    if not folder.trials.is_dir():
        raise UserError(f"{folder.root} holds no trials. Expected the folder of a study, such as results/cartpole-cpu")
    study = read_study(folder.study).study if folder.study.exists() else None
    records = []
    for path in folder.trial_files("record.json"):
        record = load_record(TrialFolder(path.parent))
        request, number = record.request, number_of(path.parent)
        if request.number != number or study not in (None, request.study):
            raise UserError(
                f"{path.parent} holds trial {request.number} of study '{request.study}', and trial {number} of study '{study}' was"
                " expected. Move that folder away: it was put there from elsewhere"
            )
        records.append(record)
    return records


def _remedy(trial: TrialFolder) -> str:
    return f"Restore the file, or delete the folder {trial.root} and run the sweep again: only this trial is measured anew."
