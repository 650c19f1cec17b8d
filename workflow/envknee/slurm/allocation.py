"""Trials as steps on the nodes of a user's own job (salloc, sbatch), side by side, each on its own devices.

Input: this process's job, as the controller describes it. Output: the number of devices, the command that starts a step, and whether
time is left for another trial.
"""

import os
import re
import shlex
import signal
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass

from envknee.slurm import checks, facts, jobs
from envknee.slurm.facts import Node, fields_of, unix_s_of
from envknee.slurm.jobs import Shape
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.paths import StudyFolder

OPTIONS = "ENVKNEE_STEP"
"""Variable with options that `run.nodes` adds to its srun: a trial on several nodes is launched outside of steps, and starts its own."""

NODES = re.compile(r"Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")
"""A group of equal nodes in the output of `scontrol show job --details`."""

KEPT = ("SLURM_CONF", "SLURM_JOB_ID", "SLURM_CLUSTER_NAME")

POLL_S = 30.0
"""Between two looks at the job's end, which an administrator may change."""


@dataclass(frozen=True)
class Allocation:
    """A user's job, with nodes for steps."""

    job_id: str
    nodes: tuple[Node, ...]
    threads_per_core: int = 1
    """SLURM gives steps whole cores: a step that asks for a part of a core would take the last step's share."""

    @property
    def devices(self) -> int:
        """Number of GPUs, plus one for each node without: as many trials of one device can run at once."""
        return sum(_devices(node) for node in self.nodes)

    @property
    def auto(self) -> int:
        """GPUs of an arm with `gpus: auto`: one if there is any, else the CPU."""
        return 1 if any(node.count(None) for node in self.nodes) else 0

    def prefix(self, shape: Shape) -> str:
        """Return the shell words before a command that needs `shape`.

        Each of a step's devices comes with an equal share of its node's cores and memory. A step on the CPU gets no less memory than
        its cores are of the node's: where a job has fewer cores than GPUs, fewer such steps run at once.
        """
        share = max(1, shape.gpus)
        cpus = min(node.cpus // _devices(node) for node in self.nodes)
        cpus_each = max(1, cpus - cpus % self.threads_per_core)
        cpus_of_step = min(cpus_each * share, *(node.cpus for node in self.nodes))
        mem_mb = min(node.mem_mb // _devices(node) for node in self.nodes) * share
        if not shape.gpus:
            mem_mb = max(mem_mb, min(node.mem_mb * cpus_of_step // node.cpus for node in self.nodes))
        options = [
            "--exact", f"--cpus-per-task={cpus_of_step}", "--mpi=none",
            f"--gres=gpu:{shape.gpus}" if shape.gpus else "--gres=none",  # without it, a step gets all GPUs of the job
            *([f"--mem={mem_mb}M"] if mem_mb else []),  # 0: the cluster does not manage memory
        ]  # fmt: skip
        if shape.nodes > 1:
            return shlex.join(["env", f"{OPTIONS}={shlex.join(options)}"])
        # Without --disable-status, the first Ctrl-C makes srun only print the state of its step.
        step = ["--nodes=1", "--ntasks=1", "--disable-status", "--input=none", "--quiet"]
        return shlex.join(["srun", f"--jobid={self.job_id}", *step, *options])


def _devices(node: Node) -> int:
    return max(1, node.count(None))


def observe(environment: Mapping[str, str]) -> Allocation:
    """Ask the controller about this process's job.

    Raises:
        UserError: outside a job, or when the controller does not answer.
    """
    job_id = environment.get("SLURM_JOB_ID")
    if not job_id:
        raise UserError(
            "--profile allocation runs trials on nodes that you have, and this is no SLURM job (SLURM_JOB_ID is not set). Ask for"
            " nodes first, such as `salloc --nodes=1 --exclusive --gres=gpu:8`, or let trials be jobs: --profile slurm"
        )
    nodes = []
    for names, *has in NODES.findall(_asked(job_id)):
        nodes += [_node(name, *has) for name in facts.ask(["scontrol", "show", "hostnames", names]).split()]
    if not nodes:
        raise UserError(f"SLURM names no nodes of job {job_id}: it has ended, or waits. Ask for another allocation")
    threads = facts.ask(["sinfo", "--noheader", f"--nodes={','.join(node.name for node in nodes)}", "--format=%Z"])
    return Allocation(job_id, tuple(nodes), max(int(count.rstrip("+")) for count in threads.split()))


def _asked(job_id: str) -> str:
    return facts.ask(["scontrol", "--oneliner", "show", "job", "--details", job_id])


def _node(name: str, cpu_ids: str, mem_mb: str, gres: str) -> Node:
    ranges = [[int(end) for end in part.split("-")] for part in cpu_ids.split(",")]
    return Node(name, facts.parse_gpus(gres), sum(ids[-1] - ids[0] + 1 for ids in ranges), int(mem_mb))


def problems(study: Study, allocation: Allocation) -> list[str]:
    """Return why arms of a study cannot run on these nodes, a sentence each. Pure."""
    place, instead = f"job {allocation.job_id}", "ask for other nodes (--gres=gpu:N is for each node)"
    shapes = {arm: jobs.shape_of(study, arm, allocation.auto) for arm in sorted(study.arms)}
    lacking = (checks.lacking(f"arms.{arm}", shapes[arm], allocation.nodes, place, instead) for arm in shapes)
    return [message for message in lacking if message]


def enter(environment: MutableMapping[str, str]) -> None:
    """Remove the job's own options from the environment: srun would use them for each step."""
    for name in [name for name in environment if name.startswith("SLURM_") and name not in KEPT]:
        del environment[name]


def left_s(job_id: str) -> float | None:
    """Return the seconds until a job's end; None without a limit, or if the controller does not answer."""
    try:
        ends_unix_s = unix_s_of(fields_of(_asked(job_id)).get("EndTime"))
    except UserError:
        return None
    return None if ends_unix_s is None else ends_unix_s - time.time()


class Closing:
    """Ends a sweep shortly before its allocation ends, or at SIGUSR1, which `sbatch --signal=B:USR1@600` sends.

    From then on no trial begins, here or in a block; running trials go on.
    """

    then = "Run this again in another allocation: it goes on from here"

    def __init__(self, folder: StudyFolder, job_id: str, margin_s: float, close: Callable[[], None]) -> None:
        """Take `close`, which a thread calls once when the time has come."""
        self._folder, self._job_id, self._margin_s, self._close = folder, job_id, margin_s, close
        self._told = threading.Event()
        self.why: str | None = None
        """Why no further trial begins; None while trials may begin."""

    def start(self) -> None:
        """Begin to watch. Raises a UserError if too little time is left for any trial."""
        self._folder.closing.unlink(missing_ok=True)
        left = left_s(self._job_id)
        if left is not None and left <= self._margin_s:
            raise UserError(
                f"{self._ends_in(left)}. Ask for an allocation that lasts longer, and start this again there"
            )
        signal.signal(signal.SIGUSR1, lambda *_: self._told.set())
        threading.Thread(target=self._watch, args=(left,), name="allocation", daemon=True).start()

    def _watch(self, left: float | None) -> None:
        while self.why is None:
            self._told.wait(POLL_S if left is None else min(POLL_S, left - self._margin_s))
            left = left_s(self._job_id)
            if self._told.is_set():
                self.why = f"SLURM sent a signal (USR1): job {self._job_id} ends soon, and no further trial begins"
            elif left is not None and left <= self._margin_s:
                self.why = self._ends_in(left)
        self._folder.closing.write_text(self._job_id, encoding="ascii")
        self._close()

    def _ends_in(self, left: float) -> str:
        return (
            f"job {self._job_id} ends in {max(0.0, left) / 60:.0f} minutes, and no trial begins in its last"
            f" {self._margin_s / 60:g} (allocation_margin_minutes)"
        )


def is_closing(folder: StudyFolder) -> bool:
    """Tell whether no further trial may begin in this process's job."""
    try:
        return folder.closing.read_text(encoding="ascii") == os.environ.get("SLURM_JOB_ID")
    except OSError:
        return False
