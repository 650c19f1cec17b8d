"""Command line and environment of the processes of a trial, or of a block, on one machine."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from envknee.machine.processes import kept
from envknee.record.schema import Request
from envknee.run.container.enter import Entrance, command_line
from envknee.run.resources import environment_of
from envknee.study.paths import TrialFolder
from envknee.study.strategies import joins_cluster, own_cluster


def command_of(
    trials: Sequence[TrialFolder],
    request: Request,
    gpu_uuids: Sequence[str],
    meeting: Path,
    entrance: Entrance | None,
    shared_meeting: Path | None = None,
    in_turns: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs the processes of a trial, or of a block, on this machine, and its environment variables.

    Args:
        trials: the trial's folder, or those of a block's trials, which `run.turns` names one after the other
        request: what it runs; for a block any trial's, because they have the same arm
        gpu_uuids: the GPUs that it may use
        meeting: an empty folder on this machine's own disk, where its ranks meet; in an image also for its temporary files
        entrance: the image; None for the host
        shared_meeting: a folder that all machines of the trial share; None for one machine
        in_turns: whether `run.turns` names even a single trial
    """
    variables = environment_of(request) | {"CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)}
    is_block = in_turns or len(trials) > 1
    command = [sys.executable, "-m", "envknee.run.process", *([] if is_block else [str(trials[0].root)])]
    if is_block or request.processes > 1:
        command += ["--meeting", str(meeting)]
    if request.processes > 1:
        command += ["--ranks", str(request.ranks_per_node)]
    if shared_meeting is not None:
        command += ["--nodes", str(request.nodes), "--shared-meeting", str(shared_meeting)]
    if not joins_cluster(request.strategy, os.environ):
        variables |= own_cluster(request.strategy, meeting)
    if entrance is not None:
        return command_line(entrance, trials, request, command, variables, meeting)
    return [*kept(meeting), *command], variables
