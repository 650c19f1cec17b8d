"""A real SLURM on this machine, for tests: munged, slurmctld and slurmd as plain processes on the loopback interface.

Everything lies in one folder, nothing of the machine is changed, and only what was started is stopped. Needs Debian's slurmctld,
slurmd, slurm-client and munge, and no root. GPUs are links to /dev/null: jobs get disjoint CUDA_VISIBLE_DEVICES, and no CUDA.
"""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from envknee.slurm.facts import fields_of
from needs import system_path
from programs import a_program
from tracking_server import free_port
from waiting import wait_for, wait_until_none, written_since

CONFIG = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket,cred_expire=10
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=0,energy=1
AcctGatherEnergyType=acct_gather_energy/pm_counters
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobcomp.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2,batch_sched_delay=0,sched_min_interval=0
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
JobRequeue=0
MinJobAge=300
KillWait=2
SlurmdTimeout=10
SlurmctldTimeout=20
MessageTimeout=20
CompleteWait=0
PropagateResourceLimits=NONE
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=1-0 PriorityTier=1
PartitionName=cheap Nodes=ALL MaxTime=1-0 PriorityTier=1 PreemptMode=CANCEL
PartitionName=urgent Nodes=ALL MaxTime=1-0 PriorityTier=10
PartitionName=short Nodes=ALL MaxTime=00:10:00
PartitionName=closed Nodes=ALL State=DOWN
"""
"""As small as tests need, with short timeouts. Its executor plugin's own step drops SLURM_CONF: see `start`."""


class Cluster:
    """Nodes n1, n2, ... of two GPUs each, all on this machine."""

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        self.folder = folder
        self.nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self.environment = {
            "SLURM_CONF": str(folder / "etc/slurm.conf"),
            "PATH": f"{folder / 'bin'}{os.pathsep}{system_path()}",
        }

    def start(self) -> None:
        for name in ("etc", "state", "log", "run", "dev", "bin"):
            (self.folder / name).mkdir(parents=True)
        for path in (self.folder, *self.folder.iterdir()):
            path.chmod(0o755)  # munged takes no folder that others may write to
        for gpu in range(2):
            (self.folder / f"dev/nvidia{gpu}").symlink_to("/dev/null")
        user = psutil.Process().username()
        host = socket.gethostname().partition(".")[0]
        lines = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={free_port()} CPUs=8 RealMemory=8000"
            " Gres=gpu:h100:2 State=UNKNOWN"
            for node in self.nodes
        ]
        self._write("etc/slurm.conf", CONFIG.format(
            folder=self.folder, user=user, host=host, port=free_port(), nodes="\n".join(lines)
        ))  # fmt: skip
        self._write("etc/gres.conf", "".join(
            f"NodeName={node} Name=gpu Type=h100 File={self.folder}/dev/nvidia[0-1]\n" for node in self.nodes
        ))  # fmt: skip
        self._write("etc/cgroup.conf", "CgroupAutomount=no\n")
        key = self.folder / "etc/munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        # The executor plugin's job step drops every SLURM_ variable before what it starts: these put it back.
        for name in ("srun", "scontrol", "sstat"):
            body = f'SLURM_CONF={self.environment["SLURM_CONF"]} exec {shutil.which(name)} "$@"'
            a_program(self.folder / "bin", name, body)
        self._daemon(
            "munged", f"--key-file={key}", f"--socket={self.folder}/run/munge.socket", "--force",
            f"--pid-file={self.folder}/run/munged.pid", f"--log-file={self.folder}/log/munged.log",
            f"--seed-file={self.folder}/run/munged.seed",
        )  # fmt: skip
        self.start_controller()
        for node in self.nodes:
            self.start_node(node)
        self.wait_until_idle()

    def start_controller(self) -> None:
        self._daemon("slurmctld")

    def start_node(self, node: str, mounts: Sequence[str] = ()) -> None:
        """Start a node; `mounts` are commands that only it sees the effects of (root alone may run them)."""
        (self.folder / f"spool-{node}").mkdir(exist_ok=True)
        if not mounts:
            self._daemon("slurmd", "-N", node)
            return
        script = " && ".join([*mounts, f"exec slurmd -N {node}"])
        self._daemon("unshare", "--mount", "--propagation", "private", "sh", "-c", script)

    def wait_until_idle(self) -> None:
        """Wait until every node answers and has nothing to do."""
        wanted = ["idle"] * len(self.nodes)
        wait_for(lambda: self.ask("sinfo", "-h", "-N", "-p", "gpu", "-o", "%T").split() == wanted, 60)

    def wait_until_saved(self) -> None:
        """Wait until the controller has written down what changes now, which takes up to 5 s: a crash loses what it has not."""
        told_ns = time.time_ns()
        wait_for(lambda: written_since(self.folder / "state/job_state", told_ns), timeout_s=60)

    def crash_node(self, node: str) -> None:
        """End a node with all that runs on it, at once and without a word."""
        jobs = {job for job, fields in self.jobs().items() if fields["node"] == node}
        self.kill(f"slurmd-{node}")
        processes = [process for process, job in (*self._steps(), *self._of_jobs()) if job in jobs]
        for process in processes:  # stopped first: each would tell the controller how the others ended
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def jobs(self) -> dict[str, dict[str, str]]:
        """Return the jobs that wait or run: number -> comment (the rule and its number), state, node, minutes."""
        answer = self.ask("squeue", "-h", "--format=%i|%k|%T|%N|%L|%l|%b|%j")
        names = ("comment", "state", "node", "left", "limit", "gres", "name")
        return {
            words[0]: dict(zip(names, words[1:], strict=True))
            for words in (line.split("|") for line in answer.split("\n") if line)
        }

    def ended(self) -> list[dict[str, str]]:
        """Return what SLURM says of every job that has ended: JobState, TimeLimit (minutes) and more."""
        log = self.folder / "log/jobcomp.log"
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        return [fields_of(line) for line in lines]

    def complaints(self) -> list[str]:
        """Return the lines of all logs of SLURM's own programs that tell of an error."""
        lines = (
            f"{path.name}: {line}"
            for path in sorted((self.folder / "log").glob("slurm*.log"))
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        )
        return [line for line in lines if "error" in line or "not responding" in line]

    def ask(self, *command: str) -> str:
        """Run one of SLURM's commands and return what it prints; nothing where it fails."""
        environment = os.environ | self.environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout.strip()

    def stop(self) -> None:
        """End all that is left, jobs first."""
        self.ask("scancel", f"--user={psutil.Process().username()}")
        with suppress(AssertionError):
            wait_until_none(self.processes, timeout_s=10)
        self.kill(*(f"slurmd-{node}" for node in self.nodes), "slurmctld", "munged")

    def processes(self) -> list[str]:
        """Return what still runs of jobs: the job, the process, its state and its command line."""
        lines = []
        for process, job in self._of_jobs():
            with suppress(psutil.Error):
                lines.append(f"job {job}: {process.pid} ({process.status()}) {' '.join(process.cmdline())}")
        return lines

    def kill_lost_snakemakes(self) -> None:
        """Kill each Snakemake of a job, once no job is left, as proctrack/cgroup of a real cluster does.

        linuxproc loses a process whose parent has ended. And SIGTERM deadlocks Snakemake 9.27.1 while it handles a failed job:
        `JobScheduler.exit_gracefully` waits for the lock that its own thread holds.
        """
        for process, _ in self._of_jobs():
            with suppress(psutil.Error):
                words = process.cmdline()
                if words[1:3] == ["-m", "snakemake"] and "remote" in words:
                    process.kill()

    def _steps(self) -> Iterator[tuple[psutil.Process, str]]:
        """Yield SLURM's own processes that look after the steps of this cluster's jobs, with the job's number.

        They keep no variables. Those of another cluster, whose jobs have the same numbers, work in another folder.
        """
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                title = " ".join(process.cmdline())  # as it names itself
                step = re.match(r"slurmstepd: \[([^.]*)", title)
                if step is not None and Path(process.cwd()).is_relative_to(self.folder):
                    yield process, step[1]

    def _of_jobs(self) -> Iterator[tuple[psutil.Process, str]]:
        """Yield the processes of this cluster's jobs, with the job's number."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                variables = process.environ()
                if variables.get("SLURM_CONF") == self.environment["SLURM_CONF"] and "SLURM_JOB_ID" in variables:
                    yield process, variables["SLURM_JOB_ID"]

    def kill(self, *names: str) -> None:
        """Kill programs of SLURM's, as by losing power: `slurmctld`, the controller, or `slurmd-n1`, a node's."""
        killed = []
        for path in [self.folder / f"run/{name}.pid" for name in names]:
            with suppress(psutil.NoSuchProcess, FileNotFoundError):
                process = psutil.Process(int(path.read_text(encoding="ascii")))
                process.kill()
                killed.append(process)
            path.unlink(missing_ok=True)
        psutil.wait_procs(killed, timeout=10)

    def _daemon(self, *command: str) -> None:
        """Start what goes to the background by itself."""
        with (self.folder / f"log/{command[0]}.err").open("a", encoding="utf-8") as errors:
            environment = os.environ | self.environment
            subprocess.run(command, env=environment, stdout=errors, stderr=errors, timeout=30, check=True)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")
