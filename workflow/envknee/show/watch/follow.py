"""Follows one study: what lies in its folder, and what that decides so far."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from envknee.decide.read import load_study
from envknee.record.schema import Record
from envknee.show.watch.reading import Reader
from envknee.show.watch.state import Seen, State, findings_of, state_of, verdict_of
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.verdict.schema.study import Verdict
from envknee.words.progress import finished_line


def at_once(_: Seen) -> bool:
    """Decide as soon as a trial has ended."""
    return True


class Watch:
    """Follows one study, and decides anew only when a trial has ended."""

    def __init__(self, folder: StudyFolder, may_decide: Callable[[Seen], bool] = at_once) -> None:
        """Read the study. `may_decide` tells whether now is the time to decide, which takes a tenth of a second or more.

        Raises:
            UserError: when the folder holds none.
        """
        self.study: Study = load_study(folder)
        self.reader = Reader(folder)
        self.verdict: Verdict | None = None
        """What was decided last."""
        self.decided_from: Mapping[int, Record] = {}
        """The records of that, by number."""
        self._may_decide = may_decide
        self._numbers = set[int]()

    def look(self, is_over: bool = False) -> tuple[State, list[str]]:
        """Return the state, and a line for each trial that ended since the last look. When the sweep `is_over`, nothing runs."""
        seen = self.reader.look()
        if is_over:
            seen = replace(seen, running=[])
        if seen.records.keys() != self.decided_from.keys() and (is_over or self._may_decide(seen)):
            self.verdict, self.decided_from = verdict_of(self.study, seen.records), seen.records
        ended = [record for number, record in seen.records.items() if number not in self._numbers]
        state = state_of(self.study, seen, findings_of(self.verdict))
        before = len(seen.records) - len(ended)
        lines = [finished_line(record, before + i, state.planned, []) for i, record in enumerate(ended, start=1)]
        self._numbers = set(seen.records)
        return state, lines
