"""What a process finds on its machine: the limits of its control group, and a folder for temporary files."""

import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from envknee.machine import control_group, scratch
from envknee.study.errors import UserError


def a_root(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


JOB = "slurm/job_7/step_0"
VERSION_2 = {
    "proc/self/cgroup": f"0::/{JOB}\n",
    f"sys/fs/cgroup/{JOB}/memory.max": "max\n",
    f"sys/fs/cgroup/{JOB}/memory.events": "low 0\noom 9\noom_kill 2\n",
    "sys/fs/cgroup/slurm/job_7/memory.max": "16000000000\n",
    "sys/fs/cgroup/slurm/memory.max": "64000000000\n",
    "proc/vmstat": "oom_kill 50\n",
}
VERSION_1 = {
    "proc/self/cgroup": f"5:cpu,cpuacct:/elsewhere\n4:memory:/{JOB}\n1:name=systemd:/\n",
    f"sys/fs/cgroup/memory/{JOB}/memory.limit_in_bytes": "16000000000\n",
    f"sys/fs/cgroup/memory/{JOB}/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "proc/vmstat": "oom_kill 50\n",
}
INSIDE = {
    # Docker with version 1: /proc names the host's path, and the group's own folder is mounted where that of all is elsewhere.
    "proc/self/cgroup": "4:memory:/docker/0123\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "16000000000\n",
    "sys/fs/cgroup/memory/memory.oom_control": "oom_kill 2\n",
    "proc/vmstat": "oom_kill 50\n",
}


@pytest.mark.parametrize("files", [VERSION_2, VERSION_1, INSIDE], ids=["version 2", "version 1", "in a container"])
def test_limit_and_kills_are_the_groups_own_and_not_the_machines(
    tmp_path: Path, files: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    root = a_root(tmp_path, files)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert control_group.limit_words(root) == " (the limit here is 16.0 GB)"
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert "16.0 GB, which mem_gb_per_gpu of the site or --mem of the job sets" in control_group.limit_words(root)
    assert control_group.memory_limit_bytes(root) == 16_000_000_000
    assert control_group.oom_kills(root) == 2
    assert control_group.oom_kills(root, anywhere=True) == 50


def test_without_a_group_the_machine_counts_and_nothing_limits(tmp_path: Path):
    root = a_root(tmp_path, {"proc/self/cgroup": "0::/\n", "proc/vmstat": "pgfault 1\noom_kill 50\n"})
    assert (control_group.memory_limit_bytes(root), control_group.oom_kills(root)) == (None, 50)
    assert control_group.limit_words(root) == ""
    assert (control_group.memory_limit_bytes(tmp_path / "no"), control_group.oom_kills(tmp_path / "no")) == (None, 0)


def test_here_it_can_be_asked():
    limit = control_group.memory_limit_bytes()
    assert (limit is None or limit > 0) and control_group.oom_kills() >= 0


@pytest.fixture(autouse=True)
def temporary_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test replace the folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "/tmp")  # noqa: S108  # what use_named_folder replaces


def test_what_is_told_is_made_where_it_runs_and_becomes_the_temporary_folder(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("SLURM_TMPDIR", str(tmp_path))
    for told, folder in (("", "/tmp"), ("$SLURM_TMPDIR/envknee", f"{tmp_path}/envknee")):  # noqa: S108
        monkeypatch.setenv(scratch.VARIABLE, told)
        scratch.use_named_folder()
        assert tempfile.gettempdir() == os.environ["TMPDIR"] == folder
    assert (tmp_path / "envknee").is_dir()


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("$SLURM_TMPDIR/x", r"scratch '\$SLURM_TMPDIR/x': a variable in it is not set"),
        ("file", r"scratch .*/file on this node: File exists.*`scratch:` of the site"),
        (".", r"scratch .* on this node: 1 MB are free, and at least 100 were expected"),
    ],
)
def test_what_is_wrong_names_the_folder_and_what_to_do(tmp_path: Path, monkeypatch, told: str, words: str):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SLURM_TMPDIR", raising=False)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1_000_000))
    monkeypatch.setenv(scratch.VARIABLE, told)
    Path("file").touch()
    with pytest.raises(UserError, match=words):
        scratch.use_named_folder()
