"""A study as its results folder goes on with it: further repeats, and the rules by which its trials are asked for."""

from collections.abc import Mapping
from typing import Any

from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.load import read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.value_types import ASK_VERSION


def with_more_repeats(data: Any, options: Mapping[str, Any]) -> Any:
    """Return a study's plain data with the `more_repeats` that a command line states, such as `more_throughput=3`.

    They replace those of the study's file, so that the same command may be typed again. `options`: by the name of a section.

    Raises:
        UserError: when the study has no such section, or the number is none.
    """
    for section, repeats in options.items():
        if repeats is None:
            continue
        if type(repeats) is not int or repeats < 0:
            raise UserError(f"more_{section}={repeats}: expected a number of further repeats, such as more_{section}=3")
        if not isinstance(data.get(section), dict):
            raise UserError(f"more_{section}={repeats}: the study has no section {section}. Leave more_{section} out")
        data = data | {section: data[section] | {"more_repeats": repeats}}
    return data


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
