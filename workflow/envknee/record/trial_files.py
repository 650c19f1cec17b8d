"""The files of one trial: who writes each, in which order, and what is done with those of an attempt that came to nothing.

| file             | written                                                              | by                          |
| ---------------- | -------------------------------------------------------------------- | --------------------------- |
| request.json     | when the trial is asked for                                          | `envknee ask`               |
| .lock            | held from here to the end                                            | the launcher                |
| attempts.json    | when an attempt begins, and every 20 seconds while it lives          | the launcher                |
| environment.json | when the trial's process has its device; removed before each attempt | the trial's process         |
| metrics.jsonl    | a line for each iteration                                            | the trial's process, rank 0 |
| rank-N.json      | when one of several ranks has ended                                  | each rank                   |
| outcome.json     | when all rows are on the disk                                        | the trial's process, or the |
|                  |                                                                      | launcher in its place       |
| cost.json        | when the processes have ended                                        | the launcher                |
| attempts.json    | goes, because the trial has an outcome                               | the launcher                |
| record.json      | last, from request, rows, outcome and cost                           | the launcher                |

So a trial with a record is finished, and one with an outcome has been measured: a launcher that meets an outcome only writes what follows.
Each file is written whole or not at all, and is on the disk before the next one is begun. `trial.log`, `frames.png`, `policy.pt` and
`training.json` are for people: no result depends on them.
"""

import argparse
from itertools import count
from pathlib import Path
from typing import TextIO

from envknee.machine.schema import Environment
from envknee.record.read import rebuild_record
from envknee.record.schema import Cost, Outcome, Record, Request
from envknee.study.files import canonical_json, read_model, sha256_of, write_atomically
from envknee.study.paths import TrialFolder


class TrialFiles:
    """Reads and writes the files of one trial, each in one place."""

    def __init__(self, folder: TrialFolder) -> None:
        self._folder = folder

    def read_request(self) -> Request:
        """Return the trial's request.

        Raises:
            UserError: when it is missing or broken.
        """
        return read_model(self._folder.request, Request, "Run the sweep again: it asks for the trial anew.")

    def write_request(self, request: Request) -> None:
        """Write the request of a trial that has no outcome yet, or write that of its outcome again."""
        write_atomically(self._folder.request, canonical_json(request))

    def read_environment(self) -> Environment | None:
        """Return where the trial runs; None before its process has a device."""
        path = self._folder.environment
        return read_model(path, Environment, "") if path.exists() else None

    def write_environment(self, machine: Environment) -> None:
        """Write where the trial runs."""
        write_atomically(self._folder.environment, canonical_json(machine))

    def open_rows(self) -> TextIO:
        """Open metrics.jsonl for appending. Flush each row."""
        return self._folder.metrics.open("a", encoding="utf-8")

    def rows_are_whole(self) -> bool:
        """Tell whether the last row was written to its end. After a power cut it may be cut short, or full of zeros."""
        rows = self._folder.metrics.read_bytes() if self._folder.metrics.exists() else b""
        return rows.endswith(b"\n") and b"\0" not in rows

    def has_outcome(self) -> bool:
        """Tell whether the trial was measured."""
        return self._folder.outcome.exists()

    def read_outcome(self) -> Outcome:
        """Return how the trial ended.

        Raises:
            UserError: when it has no outcome, or a broken one.
        """
        return read_model(self._folder.outcome, Outcome, f"Delete {self._folder.root} to measure this trial again.")

    def is_of_its_request(self, outcome: Outcome) -> bool:
        """Tell whether an outcome was measured for the request that lies beside it."""
        return outcome.request_sha256 == sha256_of(self._folder.request)

    def write_outcome(self, outcome: Outcome) -> None:
        """Write how the trial ended. All its rows must be on the disk, as `envknee.run.ends.outcome_of` sees to."""
        write_atomically(self._folder.outcome, canonical_json(outcome))

    def write_rank_outcome(self, rank: int, outcome: Outcome) -> None:
        """Write how one of several ranks ended."""
        write_atomically(self._folder.rank_outcome(rank), canonical_json(outcome))

    def has_cost(self) -> bool:
        """Tell whether the trial's cost was written."""
        return self._folder.cost.exists()

    def write_cost(self, cost: Cost) -> None:
        """Write what the trial cost."""
        write_atomically(self._folder.cost, canonical_json(cost))

    def has_record(self) -> bool:
        """Tell whether the trial is finished."""
        return self._folder.record.exists()

    def write_record(self) -> Record:
        """Compute the record from the other files, write it, and return it.

        Raises:
            UserError: when one of them is missing, truncated, or was changed after the measurement.
        """
        record = rebuild_record(self._folder)
        write_atomically(self._folder.record, canonical_json(record))
        return record

    def forget_record(self) -> None:
        """Remove the record of a trial that must be measured again."""
        self._folder.record.unlink(missing_ok=True)

    def begin_attempt(self, ranks: int) -> None:
        """Remove what an earlier attempt without a result said about itself."""
        self._folder.environment.unlink(missing_ok=True)
        self.forget_ranks(ranks)

    def forget_ranks(self, ranks: int) -> None:
        """Remove the outcomes of `ranks` ranks, or a launcher would make the trial's outcome of them."""
        for rank in range(ranks):
            self._folder.rank_outcome(rank).unlink(missing_ok=True)

    def set_aside(self) -> None:
        """Rename the files of an interrupted attempt, so that nothing measured is lost or mixed."""
        folder = self._folder
        number = next(number for number in count(1) if not any(folder.root.glob(f"*.interrupted-{number}*")))
        for path in (folder.metrics, folder.log, folder.outcome, folder.cost, folder.run):
            if path.exists():
                path.rename(path.with_name(f"{path.stem}.interrupted-{number}{path.suffix}"))


def main() -> None:
    """Write record.json again from the measurements beside it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("trial", type=Path, help="the folder of a trial, such as results/cartpole-cpu/trials/0007")
    TrialFiles(TrialFolder(parser.parse_args().trial)).write_record()
