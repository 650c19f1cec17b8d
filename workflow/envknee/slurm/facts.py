"""Partitions, nodes with their GPUs, and accounts of a SLURM cluster, from scontrol, sinfo and sacctmgr. Parsing is pure."""

import functools
import getpass
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from envknee.study.errors import UserError, printable

OUT_OF_USE = re.compile("down|drain|fail|maint|inval|unk")
"""How the states of nodes begin that take no jobs (sinfo 22.05, %T)."""

NO_ANSWER = "*"
"""The end of the state of a node that the controller does not reach."""

ASK_S = 60
"""Time limit for an answer of the controller; a busy one takes seconds."""


@dataclass(frozen=True)
class Partition:
    """One queue."""

    is_up: bool
    max_minutes: int | None
    """The longest job that it takes; None without a limit."""
    preempt_mode: str
    """Fate of preempted jobs: OFF, REQUEUE, CANCEL, SUSPEND, GANG."""


@dataclass(frozen=True)
class Node:
    """One machine in the site's partitions."""

    name: str
    gpus: tuple[tuple[str | None, int], ...]
    """(kind, number); kind None if SLURM's configuration names none."""
    cpus: int
    mem_mb: int
    features: frozenset[str] = frozenset()
    """What `sbatch --constraint` can ask for."""
    out_of_use: str | None = None
    """Why it takes no jobs now: its state, and the administrator's reason; None if it does."""

    def count(self, gpu_type: str | None) -> int:
        """Return the number of GPUs of one kind; None: of any kind."""
        return sum(count for kind, count in self.gpus if gpu_type in (None, kind))


@dataclass(frozen=True)
class Cluster:
    """A cluster's facts."""

    partitions: dict[str, Partition]
    nodes: tuple[Node, ...]
    accounts: frozenset[str] | None
    """The user's accounts; None if the cluster keeps no accounts, and takes any."""
    qos: frozenset[str] | None
    """The user's qualities of service over all accounts; None if the cluster keeps no accounts."""


def observe(partition: str) -> Cluster:
    """Ask the cluster. `partition` is the site's, possibly several with commas.

    Raises:
        UserError: when this machine has no SLURM commands, or the controller does not answer.
    """
    has_accounts = "accounting_storage/none" not in ask(["scontrol", "show", "config"])
    partitions = _partitions()
    known = [name for name in partition.split(",") if name in partitions]
    nodes = ""
    if known:
        columns = "--format=%N|%G|%c|%m|%f|%T|%E"
        nodes = ask(["sinfo", "--noheader", "--Node", f"--partition={','.join(known)}", columns])
    accounts = qos = None
    if has_accounts:
        show = ["sacctmgr", "--noheader", "--parsable2", "show", "associations"]
        accounts, qos = parse_associations(ask([*show, f"user={getpass.getuser()}", "format=account,qos"]))
    return Cluster(partitions, parse_nodes(nodes), accounts, qos)


@functools.cache
def longest_minutes(partition: str) -> int | None:
    """Return the longest job that each of the site's partitions takes; None without a limit or an answer."""
    try:
        partitions = _partitions()
    except UserError:
        return None
    limits = [partitions[name].max_minutes for name in partition.split(",") if name in partitions]
    return min((limit for limit in limits if limit is not None), default=None)


@functools.cache
def _partitions() -> dict[str, Partition]:
    """Ask once, for the checks and for the time limit of every job."""
    return parse_partitions(ask(["scontrol", "--oneliner", "show", "partition"]))


def fields_of(line: str) -> dict[str, str]:
    """Read a line of `Name=value Name=value`, as `scontrol --oneliner` prints it.

    A value with blanks is cut at the first one; no field that envknee reads has any.
    """
    return dict(word.split("=", 1) for word in line.split() if "=" in word)


def unix_s_of(text: str | None) -> float | None:
    """Read a time of SLURM_TIME_FORMAT=standard, in this machine's time zone; None for `Unknown` and nothing."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except ValueError:
        return None


def parse_partitions(text: str) -> dict[str, Partition]:
    """Read `scontrol --oneliner show partition`."""
    partitions = {}
    for line in text.splitlines():
        fields = fields_of(line)
        if "PartitionName" in fields:
            partitions[fields["PartitionName"]] = Partition(
                is_up=fields.get("State", "UP") == "UP",
                max_minutes=minutes_of(fields.get("MaxTime", "UNLIMITED")),
                preempt_mode=fields.get("PreemptMode", "OFF"),
            )
    return partitions


def minutes_of(text: str) -> int | None:
    """Return whole minutes of SLURM's days-hours:minutes:seconds; None for UNLIMITED."""
    parts = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)
    if parts is None:
        return None
    days, hours, minutes, _seconds = (int(part or 0) for part in parts.groups())
    return (days * 24 + hours) * 60 + minutes


def parse_nodes(text: str) -> tuple[Node, ...]:
    """Read lines NAME|GRES|CPUS|MEMORY|FEATURES|STATE|REASON of sinfo. A node in two partitions has two lines."""
    nodes = {}
    for line in text.splitlines():
        name, gres, cpus, memory, features, state, reason = line.split("|", 6)
        nodes[name] = Node(
            name, parse_gpus(gres), int(cpus.rstrip("+")), int(memory.rstrip("+")),
            features=frozenset(features.split(",")) - {"(null)"}, out_of_use=_out_of_use(state, reason),
        )  # fmt: skip
    return tuple(nodes[name] for name in sorted(nodes))


def _out_of_use(state: str, reason: str) -> str | None:
    if not OUT_OF_USE.match(state) and not state.endswith(NO_ANSWER):
        return None
    state = state.rstrip(NO_ANSWER) + (", no answer" if state.endswith(NO_ANSWER) else "")
    return state if reason == "none" else f"{state}: {printable(reason)}"


def parse_gpus(gres: str) -> tuple[tuple[str | None, int], ...]:
    """Read generic resources such as `gpu:h100:4(S:0-1),nvme:1`."""
    gpus = []
    for part in re.sub(r"\([^)]*\)", "", gres).split(","):
        words = part.strip().split(":")
        if words[0] == "gpu":
            kind = words[1] if len(words) > 1 and not words[1].isdigit() else None
            gpus.append((kind, int(words[-1]) if words[-1].isdigit() else 1))
    return tuple(gpus)


def parse_associations(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Read lines ACCOUNT|QOS,QOS of sacctmgr; return (accounts, qualities of service)."""
    rows = [line.split("|") for line in text.splitlines() if line]
    return frozenset(row[0] for row in rows), frozenset(name for row in rows for name in row[1].split(",") if name)


def ask(command: Sequence[str], limit_s: float = ASK_S) -> str:
    """Run a SLURM command and return its output, with times as ISO 8601.

    Raises:
        UserError: when it is missing, fails, or does not answer within `limit_s`.
    """
    variables = os.environ | {"SLURM_TIME_FORMAT": "standard"}
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=limit_s, check=True)
    except FileNotFoundError as error:
        raise UserError(
            f"{command[0]} is not on PATH, and --profile slurm or allocation needs SLURM's commands. Run it on a login node of the"
            " cluster, or without --profile to use this machine"
        ) from error
    except subprocess.SubprocessError as error:
        why = f"gave no answer for {limit_s:g} s"
        if isinstance(error, subprocess.CalledProcessError):
            why = f"failed: {error.stderr.strip() or error.stdout.strip()}"
        raise UserError(
            f"`{' '.join(command)}` {why}. Ask whether the cluster is in maintenance, and try again"
        ) from error
    return done.stdout
