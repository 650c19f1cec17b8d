"""Several ranks that train together: meeting, exchanging figures, showing that they live, ending as one.

Input: torchrun's environment variables. Output: every rank's figures on every rank; a file per rank that beats as it gets on
(see hang_watch); one outcome of all. Knows torch.distributed, and nothing of Isaac Lab.
"""

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envknee.machine.processes import dying_with_parent
from envknee.record.schema import Outcome, RankResult
from envknee.record.status import CRASHED
from envknee.study.files import read_model
from envknee.study.paths import TrialFolder

GATHER_BYTES = 8192
"""Room for one rank's figures of an iteration: about 1 kB of JSON."""

MEETING = "ENVKNEE_RANKS_FOLDER"
"""Names the folder, on the machine's own disk, in which the ranks of a trial beat."""

STORE = "ENVKNEE_RANKS_STORE"
"""Names the file through which they find each other; where they are on several machines, all of those see it."""

BROKEN = 3
"""Exit status of a rank that ended its trial with a bad result: torchrun then ends the other ranks at once."""


@dataclass(frozen=True)
class Ranks:
    """This process among those that train together."""

    rank: int = 0
    world_size: int = 1
    folder: Path | None = None
    local_rank: int = 0
    """Among those on this machine: the number of its GPU."""
    store: Path | None = None

    @staticmethod
    def here() -> "Ranks":
        """Return what torchrun says; one rank alone when this process was not started by it."""
        folder = os.environ.get(MEETING)
        if folder is None:
            return Ranks()
        rank, world_size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
        return Ranks(rank, world_size, Path(folder), local_rank, Path(os.environ[STORE]))

    def join(self, device: str) -> None:
        """Meet the other ranks: NCCL between GPUs, Gloo on the CPU. Raises after ten minutes (PyTorch's own limit).

        Ranks that have met, for an earlier trial of their block, stay together.
        """
        import torch  # the launcher, which reads beats, does without

        if torch.distributed.is_initialized():
            return

        assert self.store is not None, "torchrun's launcher names a file"
        # Over a file: PyTorch's TCP store would listen on every address of the machine.
        store = torch.distributed.FileStore(  # type: ignore[reportPrivateImportUsage]  # documented, but not in __all__
            str(self.store), self.world_size
        )
        backend = "nccl" if device.startswith("cuda") else "gloo"
        torch.distributed.init_process_group(backend, store=store, rank=self.rank, world_size=self.world_size)

    def gather(self, text: str, device: Any) -> list[str]:
        """Return every rank's text, by rank; all must call it. A text has at most `GATHER_BYTES` bytes of UTF-8."""
        if self.world_size == 1:
            return [text]
        import torch

        data = text.encode()
        padded = data.ljust(GATHER_BYTES, b" ")
        if len(padded) > GATHER_BYTES:
            raise ValueError(f"{len(data)} bytes to gather, and at most {GATHER_BYTES} were expected")
        own = torch.frombuffer(bytearray(padded), dtype=torch.uint8).to(device)
        all_ranks = [torch.empty_like(own) for _ in range(self.world_size)]
        torch.distributed.all_gather(all_ranks, own)
        return [bytes(tensor.tolist()).decode().rstrip(" ") for tensor in all_ranks]


ALONE = Ranks()


@dataclass
class Heart:
    """Writes a rank's progress into its file: the process, its stage and a count that grows."""

    path: Path | None
    count: int = 0

    def __post_init__(self) -> None:
        """Open the file; without a path nothing is written."""
        self._file = None if self.path is None else os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)

    def beat(self, stage: str) -> None:
        """Note progress: one write of 48 bytes, about a microsecond."""
        if self._file is not None:
            self.count += 1
            os.pwrite(self._file, f"{os.getpid()} {stage} {self.count}".ljust(47).encode() + b"\n", 0)


def torchrun(
    arguments: list[str], ranks: int, meeting: Path, nodes: int = 1, shared_meeting: Path | None = None
) -> None:
    """Run Python with `arguments` once for each rank here, and exit with status 1 when one fails: that ends the others here.

    torchrun's default is a TCP port that listens on every address, and it would open a store on another one for the
    ranks. Here they meet over files (on a network file system those need locks: NFS has them, Lustre with -o flock).

    Args:
        arguments: what each rank runs
        ranks: how many on this machine
        meeting: an empty folder on this machine's own disk
        nodes: how many machines run this
        shared_meeting: where those meet; an empty folder that each of them sees
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


def beat_file(folder: Path, rank: int) -> Path:
    """Return where a rank writes its progress."""
    return folder / f"rank-{rank}.beat"


def read_outcomes(trial: TrialFolder, world_size: int) -> dict[int, Outcome]:
    """Return how the ranks of a trial ended, as far as they could tell."""
    paths = {rank: trial.rank_outcome(rank) for rank in range(world_size)}
    return {rank: read_model(path, Outcome, "") for rank, path in paths.items() if path.exists()}


def one_outcome(outcomes: Mapping[int, Outcome], world_size: int, metrics_sha256: str | None) -> Outcome | None:
    """Return the outcome of a trial from those of its ranks; None when they make no result. Pure.

    One rank that ran out of memory or met a NaN decides for all, however the others ended: they could not go on. Without
    such a one, all must have ended well.
    """
    broken = [rank for rank in sorted(outcomes) if outcomes[rank].status in CRASHED]
    if not broken and len(outcomes) < world_size:
        return None
    decisive = broken[0] if broken else 0
    said = outcomes[decisive]
    hosts = {outcome.environment.host for outcome in outcomes.values() if outcome.environment}
    results = []
    for rank, outcome in sorted(outcomes.items()):
        assert outcome.environment is not None, "a rank that ran says where"
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
    return said.model_copy(
        update={
            "metrics_sha256": metrics_sha256,
            "reason": said.reason and prefix + said.reason,
            "micro_batches": max((o.micro_batches for o in outcomes.values() if o.micro_batches), default=None),
            "total_s": max(outcome.total_s for outcome in outcomes.values()),
            "ranks": results,
        }
    )
