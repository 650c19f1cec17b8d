"""Reads a study and its records from a results folder."""

from pathlib import Path

from envknee.record.read import load_records, without_skipped
from envknee.record.schema import Record
from envknee.study.errors import UserError
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder

MOST_NAMED = 8
"""Studies that an error lists."""


def load_measured(folder: StudyFolder) -> tuple[Study, list[Record]]:
    """Return the study of a folder and its records, at least one.

    Raises:
        UserError: as `load_study` and `load_records`, and when no trial has finished.
    """
    study, records = load_study(folder), load_records(folder)
    if not without_skipped(records):
        raise UserError(f"{folder.root} holds no finished trial. Run the sweep first")
    return study, records


def load_study(folder: StudyFolder, config_file: Path | None = None) -> Study:
    """Return the study of a folder, with the `decide` section of `config_file` if given.

    Raises:
        UserError: when the folder holds no study, or the file describes another one.
    """
    if not folder.study.exists():
        raise UserError(f"{folder.root} holds no {folder.study.name}. {studies_beside(folder)}")
    study = read_study(folder.study)
    if config_file is None:
        return study
    given = read_study(config_file)
    if given.study != study.study:
        raise UserError(
            f"{config_file} describes study {given.study!r}, and {folder.root} holds {study.study!r}."
            " Name the folder and the file of the same study."
        )
    return study.model_copy(update={"decide": given.decide})


def studies_beside(folder: StudyFolder) -> str:
    """Return what to name in place of a folder that holds no study: the studies beside it, or in it."""
    for parent in (folder.root.parent, folder.root):
        found = sorted(path.parent for path in parent.glob("*/study.json"))
        if found:
            named = ", ".join(map(str, found[:MOST_NAMED]))
            more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
            return f"Name the folder of a study: {named}{more}."
    return "Expected the folder of a study, such as results/cartpole-cpu. `snakemake` measures one."
