"""Memory limit and out-of-memory kills of this process's control group.

Input: /proc/self/cgroup, /sys/fs/cgroup. A SLURM job, a systemd scope and a container each have a group, whose limit may be far below
the machine's memory. Upstream: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

import os
import re
from pathlib import Path

ROOT = Path("/")

NO_LIMIT_BYTES = 1 << 62
"""Version 2 writes `max` for no limit; version 1 writes a number above this."""


def memory_limit_bytes(root: Path = ROOT) -> int | None:
    """Return the smallest limit of this group and its parents, in bytes; None without a limit. `root` is /."""
    limits = [_read(group / name) for group in _groups(root) for name in ("memory.max", "memory.limit_in_bytes")]
    numbers = [int(text) for text in limits if text.strip() not in ("", "max")]
    return min((number for number in numbers if number < NO_LIMIT_BYTES), default=None)


def limit_words(root: Path = ROOT) -> str:
    """Return the memory limit of this process's group as the end of a sentence, and who sets it in a SLURM job; nothing without one."""
    limit = memory_limit_bytes(root)
    if limit is None:
        return ""
    of_slurm = ", which mem_gb_per_gpu of the site or --mem of the job sets" if "SLURM_JOB_ID" in os.environ else ""
    return f" (the limit here is {limit / 1e9:.1f} GB{of_slurm})"


def oom_kills(root: Path = ROOT, anywhere: bool = False) -> int:
    """Return how many processes of this group the kernel has killed for lack of memory.

    It counts the whole machine if no group counts kills, or with `anywhere`, for processes in other groups.
    """
    groups = [] if anywhere else _groups(root)
    files = [group / name for group in groups for name in ("memory.events", "memory.oom_control")]
    counts = (re.search(r"^oom_kill (\d+)", _read(file), re.MULTILINE) for file in (*files, root / "proc/vmstat"))
    return next((int(count[1]) for count in counts if count), 0)


def _groups(root: Path) -> list[Path]:
    """Return the folders of this process's memory group and its parents, the innermost first.

    In a container, /proc may name a path that does not exist: the container's group is often mounted at the top.
    """
    folders = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top = root / "sys/fs/cgroup"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
        else:
            continue
        group = top / path.lstrip("/")
        folders += [group, *(above for above in group.parents if above.is_relative_to(top))]
    return folders


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""  # another version of control groups, or none
