"""The process of a trial, or of a block: it starts its ranks, or measures; `trainer: command` starts a foreign program.

Started by `envknee.run.launch`, which adds the time limit. In a block the launcher names one trial after the other (see `run.turns` and
`run.worker`).
"""

import argparse
import gc
from pathlib import Path

from envknee.machine.processes import die_with_parent, note_pauses
from envknee.record.trial_files import TrialFiles
from envknee.study.errors import run_command
from envknee.study.paths import TrialFolder


def main() -> None:
    """Run one trial in this process; envknee.run.launch adds limits and the record."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("trial", type=Path, nargs="?", help="the folder that holds request.json")
    parser.add_argument(
        "--ranks", type=int, default=1, help="how many processes train together here (default: this one)"
    )
    parser.add_argument("--meeting", type=Path, help="an empty folder on this machine's disk, where ranks meet")
    parser.add_argument("--nodes", type=int, default=1, help="how many machines train together (default: this one)")
    parser.add_argument("--shared-meeting", type=Path, help="with --nodes: an empty folder that all of them share")
    given = parser.parse_args()
    # When the launcher is killed, no simulation may stay on the GPU.
    die_with_parent()
    note_pauses()
    if given.trial is None and given.meeting is None:
        parser.error("a trial's folder is missing, or --meeting of a block")
    if given.ranks * given.nodes > 1:
        if given.meeting is None or (given.nodes > 1 and given.shared_meeting is None):
            parser.error("--ranks needs --meeting, and --nodes --shared-meeting, too")
        from envknee.measure import ranks

        what = ["--meeting", str(given.meeting)] if given.trial is None else [str(given.trial)]
        command = ["-m", "envknee.run.process", *what]
        ranks.torchrun(command, given.ranks, given.meeting, given.nodes, given.shared_meeting)
        return
    if given.trial is not None:
        trial = TrialFolder(given.trial)
        request = TrialFiles(trial).read_request()
        if request.command is not None:
            from envknee.run import foreign  # which imports no torch, as the machine may have none

            foreign.measure(trial, request)
            return
    # Imports make a million objects that stay. Looking through them for garbage took a quarter of a start's CPU time.
    gc.disable()
    from envknee.run import training

    if given.trial is None:
        training.measure_block(given.meeting)
    training.measure_one(TrialFolder(given.trial))


if __name__ == "__main__":
    run_command(main)
