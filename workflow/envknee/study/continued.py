"""A study as its results folder goes on with it: further repeats, and the rules by which its trials are asked for."""

from envknee.study import space
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.value_types import ASK_VERSION


def continued(study: Study, folder: StudyFolder) -> Study:
    """Return the study as its folder goes on with it.

    Further repeats that the folder asked for come before those that are asked for now. A folder goes on with its own ask_version, a
    new one begins with the newest. A replay has the ask_version of the requests that it runs again.
    """
    before = asked_before(folder)
    if before is None:
        return study if study.replay else study.model_copy(update={"ask_version": ASK_VERSION})
    study = study.model_copy(update={"ask_version": before.ask_version})
    plain = study.model_copy(update={"raised": []})
    behind = study.model_copy(update={"raised": space.later_repeats(before)})
    order = space.later_repeats(behind)
    return plain if order == space.later_repeats(plain) else study.model_copy(update={"raised": order})


def asked_before(folder: StudyFolder) -> Study | None:
    """Return the study that a folder holds, or None while no trial of it was asked for."""
    if folder.study.exists() and any(folder.trials.glob("*/request.json")):
        return read_study(folder.study)
    return None
