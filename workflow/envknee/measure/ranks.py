"""Ranks that train together: their process group, exchange of figures, heartbeats (read by `run.hang_watch`), and common outcome."""

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from envknee.machine.processes import dying_with_parent
from envknee.record.schema import Outcome, RankResult
from envknee.record.status import CRASHED
from envknee.study.files import read_model
from envknee.study.paths import TrialFolder

Figures = TypeVar("Figures")

MEETING = "ENVKNEE_RANKS_FOLDER"
"""Environment variable: the folder of the ranks' heartbeat files, on the machine's own disk."""

STORE = "ENVKNEE_RANKS_STORE"
"""Environment variable: the file through which ranks find each other; all machines of a trial must see it."""

BROKEN = 3
"""Exit status of a rank whose trial broke: torchrun then ends the other ranks at once."""


@dataclass(frozen=True)
class Ranks:
    """The place of this process among those that train together."""

    rank: int = 0
    world_size: int = 1
    folder: Path | None = None
    local_rank: int = 0
    """Number of this rank on its own machine, and of its GPU there."""
    store: Path | None = None

    @staticmethod
    def here() -> "Ranks":
        """Return this process's rank from torchrun's variables; a single rank if torchrun did not start it."""
        folder = os.environ.get(MEETING)
        if folder is None:
            return Ranks()
        rank, world_size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        return Ranks(rank, world_size, Path(folder), local_rank, Path(os.environ[STORE]))

    def join(self, device: str) -> None:
        """Join the ranks' process group, with NCCL between GPUs and Gloo on the CPU. Raises after ten minutes (PyTorch's default).

        A group from an earlier trial of the same block stays in use.
        """
        import torch  # here, because the launcher imports this module without torch

        if torch.distributed.is_initialized():
            return

        assert self.store is not None, "torchrun's launcher names a file"
        # A file, because PyTorch's TCP store would listen on every address of the machine.
        store = torch.distributed.FileStore(  # type: ignore[reportPrivateImportUsage]  # documented, but not in __all__
            str(self.store), self.world_size
        )
        backend = "nccl" if device.startswith("cuda") else "gloo"
        torch.distributed.init_process_group(backend, store=store, rank=self.rank, world_size=self.world_size)

    def gather(self, figures: Figures) -> list[Figures]:
        """Return every rank's object, by rank. All ranks must call it."""
        if self.world_size == 1:
            return [figures]
        import torch

        all_ranks: list[Any] = [None] * self.world_size
        torch.distributed.all_gather_object(all_ranks, figures)
        return all_ranks


ALONE = Ranks()


class Heart:
    """Writes a rank's progress into its file: process id, stage and a growing count."""

    def __init__(self, ranks: Ranks) -> None:
        path = ranks.folder and ranks.folder / f"rank-{ranks.rank}.beat"
        self._file = path and os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        self._count = 0

    def beat(self, stage: str) -> None:
        """Write progress: 48 bytes, about a microsecond. A rank that is alone writes nothing."""
        if self._file is not None:
            self._count += 1
            os.pwrite(self._file, f"{os.getpid()} {stage} {self._count}".ljust(47).encode() + b"\n", 0)


def torchrun(
    arguments: list[str], ranks: int, meeting: Path, nodes: int = 1, shared_meeting: Path | None = None
) -> None:
    """Run Python with `arguments` once per rank on this machine. If a rank fails, end its other ranks and exit with status 1.

    Ranks meet over files: torchrun's default opens TCP ports on every address of the machine. A network file system must have locks
    (NFS has them, Lustre with -o flock). `meeting` is an empty folder on this machine's own disk. If several machines (`nodes`) call
    this, `shared_meeting` is an empty folder that all of them see.
    """
    from torch.distributed import run

    place = shared_meeting or meeting
    os.environ |= {MEETING: str(meeting), STORE: str(place / "store"), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    run.main([
        "--nproc-per-node", str(ranks), "--nnodes", str(nodes), "--max-restarts", "0", "--rdzv-backend", "c10d",
        "--rdzv-endpoint", str(place / "rendezvous"), "--rdzv-conf", "store_type=file",
        "--local-addr", "127.0.0.1" if nodes == 1 else socket.gethostname(),
        "--no-python", *dying_with_parent(), sys.executable, "-u", *arguments,
    ])  # fmt: skip


def read_outcomes(trial: TrialFolder, world_size: int) -> dict[int, Outcome]:
    """Return the outcomes that ranks of a trial wrote, by rank; a killed rank writes none."""
    paths = {rank: trial.rank_outcome(rank) for rank in range(world_size)}
    return {rank: read_model(path, Outcome, "") for rank, path in paths.items() if path.exists()}


def one_outcome(outcomes: Mapping[int, Outcome], world_size: int, metrics_sha256: str | None) -> Outcome | None:
    """Return the outcome of a trial from its ranks' outcomes; None if they make no result. Pure.

    The first rank that ran out of memory or broke decides for all: the others could not continue. Otherwise every rank must have an
    outcome.
    """
    broken = [rank for rank in sorted(outcomes) if outcomes[rank].status in CRASHED]
    if not broken and len(outcomes) < world_size:
        return None
    decisive = broken[0] if broken else 0
    decided = outcomes[decisive]
    hosts = {outcome.environment.host for outcome in outcomes.values() if outcome.environment}
    results = []
    for rank, outcome in sorted(outcomes.items()):
        assert outcome.environment is not None, "every rank records its environment"
        results.append(
            RankResult(
                rank=rank,
                status=outcome.status,
                device=outcome.environment.device,
                startup_s=outcome.startup_s,
                memory_map=outcome.memory_map,
                micro_batches=outcome.micro_batches,
                host=outcome.environment.host if len(hosts) > 1 else None,
            )
        )
    prefix = f"rank {decisive}: " if broken else ""
    return decided.model_copy(
        update={
            "metrics_sha256": metrics_sha256,
            "reason": decided.reason and prefix + decided.reason,
            "micro_batches": max((result.micro_batches for result in results if result.micro_batches), default=None),
            "total_s": max(outcome.total_s for outcome in outcomes.values()),
            "ranks": results,
        }
    )
