"""What this process's control group says of memory: its limit, its kills.

Input: /proc/self/cgroup, /sys/fs/cgroup. A SLURM job, a systemd scope and a container each have a group, with a limit that may be
far below the machine's memory. Upstream: Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from pathlib import Path

ROOT = Path("/")

NO_LIMIT_BYTES = 1 << 62
"""Version 1 says a number near the largest that it can hold where version 2 says `max`."""


def memory_limit_bytes(root: Path = ROOT) -> int | None:
    """Return the smallest limit of this group and those above it, in bytes; None where there is none. `root` is /."""
    limits = [_read(group / name) for group in _groups(root) for name in ("memory.max", "memory.limit_in_bytes")]
    numbers = [int(text) for text in limits if text is not None and text.strip() != "max"]
    return min((number for number in numbers if number < NO_LIMIT_BYTES), default=None)


def oom_kills(root: Path = ROOT, anywhere: bool = False) -> int:
    """Return how often the kernel has killed a process of this group for memory.

    Of the whole machine where no group counts, and with `anywhere`: for processes that are in groups of their own.
    """
    for group in [] if anywhere else _groups(root):
        for name in ("memory.events", "memory.oom_control"):
            counted = _oom_kill_of(_read(group / name))
            if counted is not None:
                return counted
    return _oom_kill_of(_read(root / "proc/vmstat")) or 0


def _groups(root: Path) -> list[Path]:
    """Return the folders of this process's memory group and of those above it, innermost first.

    Inside a container its own group is often mounted in the place of the first, under whatever path /proc names.
    """
    folders = []
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            top = root / "sys/fs/cgroup"
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
        else:
            continue
        own = top / path.lstrip("/")
        folders += [own, *(above for above in own.parents if above.is_relative_to(top))]
    return folders


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return None  # another version of control groups, or none


def _oom_kill_of(text: str | None) -> int | None:
    counts = [int(line.split()[1]) for line in (text or "").splitlines() if line.startswith("oom_kill ")]
    return counts[0] if counts else None
