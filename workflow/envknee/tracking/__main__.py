"""The command line `envknee publish`: publish a study, publish a running one, or open its store."""

import argparse
from pathlib import Path

from envknee.record.packed import study_folder
from envknee.study import secret_values
from envknee.study.errors import UserError, run_command
from envknee.study.load import read_study
from envknee.tracking.follow import follow
from envknee.tracking.publish import publish
from envknee.tracking.server import port_number
from envknee.tracking.store import check_credentials, check_database
from envknee.tracking.ui import open_ui


def main() -> None:
    """Publish the records of a study to MLflow, or open the store in a browser."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("results", nargs="?", type=Path, help="the folder of the study; without it results/<study>")
    parser.add_argument(
        "--config", required=True, type=Path, metavar="FILE", help="the study file, such as config/config.yaml"
    )
    parser.add_argument("--ui", action="store_true", help="serve the MLflow UI on 127.0.0.1 instead of publishing")
    parser.add_argument(
        "--port", type=port_number, metavar="N", help="port of the UI; without it the first free one from 5000 on"
    )
    parser.add_argument("--follow", action="store_true", help="publish curves of running trials until stopped")
    arguments = parser.parse_args()
    study = read_study(arguments.config)
    folder = study_folder(arguments.results or Path("results") / study.study)
    check_database(study, arguments.config, folder)
    if arguments.ui:
        open_ui(study, folder, arguments.port)
        return
    if not folder.root.is_dir():
        raise UserError(
            f"{folder.root} does not exist. Expected the folder of a study's results: run `make sweep` first."
        )
    check_credentials(study, arguments.config)
    secret_values.refuse_copy(study.model_dump(mode="json"), str(arguments.config))
    if arguments.follow:
        follow(study, folder)
        return
    publication = publish(study, folder)
    print(
        f"{publication.runs} runs in the experiment {study.study!r} of {publication.store.shown}:"
        f" {publication.created} logged now, {publication.runs - publication.created} unchanged"
    )


if __name__ == "__main__":
    run_command(main)
