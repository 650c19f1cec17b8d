"""What the processes of a trial get on one machine: environment variables, GPUs."""

import os
from pathlib import Path
from typing import Literal

from envknee.record.schema import Request
from envknee.study import remedies
from envknee.study.arm import Arm
from envknee.study.strategies import joins_cluster

CUBLAS_WORKSPACE = ":4096:8"
"""Makes cuBLAS reproducible (NVIDIA's cuBLAS manual, "Results reproducibility"). It is read when CUDA starts."""


def environment_of(request: Request) -> dict[str, str]:
    """Return the environment variables of a trial's processes.

    PyTorch would start a thread for every core. OpenMP's threads wait for each other by spinning: on two cores, one other busy
    process made an update 2 to 100 times slower. With half the cores, an update was as fast on an idle machine, and equally fast on
    a busy one. The variables' values outside are ignored, because Snakemake sets them to a rule's `threads`.
    """
    threads = str(max(1, len(os.sched_getaffinity(0)) // 2 // request.ranks_per_node))
    if request.deterministic:
        threads = "1"  # a sum over several threads depends on their number
    # Unbuffered: otherwise printed lines would follow the traceback in a trial's log, whose last lines say why it ended.
    variables = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads, "PYTHONUNBUFFERED": "1"}
    variables["PYTHONSAFEPATH"] = "1"  # import nothing from the folder of results
    if request.deterministic:
        variables |= {"CUBLAS_WORKSPACE_CONFIG": CUBLAS_WORKSPACE, "PYTHONHASHSEED": "0"}
    variables |= remedies.environment(request.memory)
    if request.asset_root is not None:  # for a task that asks Isaac Lab for files while it runs
        variables["ISAACSIM_ASSET_ROOT"] = str(Path(request.asset_root).expanduser().resolve())
    if request.processes > 1 and request.nodes == 1:
        # All ranks are on this machine. Without these variables, NCCL and Gloo would listen on addresses that others can reach.
        # Several machines need a network, and set the variables themselves.
        variables |= {"NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
    return variables | {"CUDA_VISIBLE_DEVICES": ""} if request.gpus == 0 else variables


def gpus_here(request: Request | Arm) -> Literal["auto"] | int:
    """Return how many of this machine's GPUs a trial takes, by its request or its arm.

    In a cluster only the learner's: the cluster provides the others.
    """
    return 1 if joins_cluster(request.strategy, os.environ) and request.gpus not in ("auto", 0) else request.gpus
