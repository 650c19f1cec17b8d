"""What runs the processes of a trial, or of a block, on one machine: a command line with its environment."""

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
    """Return what runs a trial's processes on this machine: (command, environment variables).

    Args:
        trial: where its files lie
        request: what it runs
        gpu_uuids: the GPUs that it may use
        meeting: an empty folder on this machine's own disk, for its ranks and, in an image, for all that it writes besides
        entrance: the image that they run in; None for the host
        shared_meeting: of several machines, the folder where those meet
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
    """Return what runs the process of a block, or its ranks: (command, environment variables).

    Args:
        trials: those that it may be told to measure
        request: of any of them: they have an arm in common
        gpu_uuids: the GPUs that it may use
        meeting: an empty folder on this machine's own disk, where its turns are named (`run.turns`)
        entrance: the image that it runs in; None for the host
    """
    variables = environment_of(request) | {"CUDA_VISIBLE_DEVICES": ",".join(gpu_uuids)}
    command = [sys.executable, "-m", "envknee.run.process", "--meeting", str(meeting)]
    if request.processes > 1:
        command += ["--ranks", str(request.processes)]
    if entrance is not None:
        return command_line(entrance, trials, request, command, variables, meeting)
    return [*dying_with_parent(), *command], variables
