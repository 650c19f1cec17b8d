"""The card of a study, as terminal, report and MLflow open with it: numbers of its verdict, the cost of deciding, and training commands.

Input: a study, its verdict and records. Output: a `Card`, which `envknee.words.card` says.
"""

from collections.abc import Sequence

from envknee.ask.further import further_of
from envknee.record.schema import Record
from envknee.run.training_command import training_command
from envknee.study.model import Study
from envknee.verdict.card import card_of
from envknee.verdict.schema.card import Card, TrainingCommand
from envknee.verdict.schema.joint import Setting
from envknee.verdict.schema.study import Verdict


def study_card(study: Study, verdict: Verdict, records: Sequence[Record], only: str | None = None) -> Card:
    """Return the card of a study; with `only`, that of one arm. `records` may hold those of skipped trials."""

    def command_of(arm: str, setting: Setting) -> TrainingCommand | None:
        return training_command([record for record in records if record.request.arm == arm], setting)

    return card_of(verdict, records, further_of(study, verdict, records), command_of, only)
