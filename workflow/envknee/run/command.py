"""Command line and environment of the processes of a trial, or of a block, on one machine."""

import sys
from collections.abc import Sequence
from pathlib import Path

from envknee.machine.processes import dying_with_parent, environment_of, in_cluster
from envknee.record.schema import Request
from envknee.run.container.enter import Entrance, command_line
from envknee.study.paths import TrialFolder
from envknee.study.strategies import own_cluster


def command_of(
    trial: TrialFolder,
    request: Request,
    gpu_uuids: Sequence[str],
    meeting: Path,
    entrance: Entrance | None,
    shared_meeting: Path | None = None,
) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs a trial's processes on this machine, and its environment variables.

    Args:
        trial: the trial's folder
        request: what it runs
        gpu_uuids: the GPUs that it may use
        meeting: an empty folder on this machine's own disk, where its ranks meet; in an image also for its temporary files
        entrance: the image; None for the host
        shared_meeting: a folder that all machines of the trial share; None for one machine
    """
    variables = environment_of(request) | {"CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)}
    module = "envknee.run.process" if request.command is None else "envknee.run.foreign"
    command = [sys.executable, "-m", module, str(trial.root)]
    if request.processes > 1:
        command += ["--ranks", str(request.ranks_per_node), "--meeting", str(meeting)]
    if shared_meeting is not None:
        command += ["--nodes", str(request.nodes), "--shared-meeting", str(shared_meeting)]
    if not in_cluster(request):
        variables |= own_cluster(request.strategy, meeting)
    if entrance is not None:
        return command_line(entrance, [trial], request, command, variables, meeting)
    return [*dying_with_parent(), *command], variables


def command_of_block(
    trials: Sequence[TrialFolder],
    request: Request,
    gpu_uuids: Sequence[str],
    meeting: Path,
    entrance: Entrance | None,
) -> tuple[list[str], dict[str, str]]:
    """Return the command that runs the process of a block, or its ranks, and its environment variables.

    Args:
        trials: the folders of all its trials
        request: of any of them: they have the same arm
        gpu_uuids: the GPUs that it may use
        meeting: an empty folder on this machine's own disk, for `run.turns`
        entrance: the image; None for the host
    """
    variables = environment_of(request) | {"CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)}
    command = [sys.executable, "-m", "envknee.run.process", "--meeting", str(meeting)]
    if request.processes > 1:
        command += ["--ranks", str(request.processes)]
    if entrance is not None:
        return command_line(entrance, trials, request, command, variables, meeting)
    return [*dying_with_parent(), *command], variables
