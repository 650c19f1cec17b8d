"""The verdict of a study: verdict.json, and records.csv with a line per trial.

envknee verdict results/<study>                       write both
envknee verdict results/<study> --config my.yaml      decide by another file's `decide:` section
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from envknee.decide.read import load_study
from envknee.decide.records_csv import records_csv
from envknee.decide.settings import settings_of
from envknee.record.packed import study_folder
from envknee.record.read import load_records
from envknee.record.schema import Record
from envknee.study.files import canonical_json, write_atomically
from envknee.study.model import Study
from envknee.verdict import decide as verdict
from envknee.verdict.schema.study import Verdict


def decide(records: Sequence[Record], study: Study) -> Verdict:
    """Return the verdict of a study. Pure: the same records give the same verdict."""
    return verdict.decide(records, settings_of(study))


def main() -> None:
    """Write verdict.json and records.csv of a study."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="the folder of a study, such as results/cartpole-cpu")
    parser.add_argument(
        "--config", type=Path, help="a study file whose `decide:` section is used instead of the folder's own"
    )
    given = parser.parse_args()
    folder = study_folder(given.folder)
    study, records = load_study(folder, given.config), load_records(folder)
    decided = decide(records, study)
    write_atomically(folder.verdict, canonical_json(decided))
    write_atomically(folder.records_csv, records_csv(records))
    print(f"{folder.verdict}: written; trials measured: {decided.trials_measured}")
