"""Where a sweep without a profile trains: on one's own machine and on a node, but not on a login node."""

from pathlib import Path

import pytest
from envknee.slurm import login_node
from envknee.slurm.login_node import HERE, Slurm, decide
from envknee.study.errors import UserError
from programs import a_program, told


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, sinfo: str) -> None:
    """Put SLURM's two commands, and nothing else, on PATH, outside of any job."""
    a_program(folder, "sinfo", sinfo)
    a_program(folder, "sbatch", "exit 1")
    monkeypatch.setenv("PATH", str(folder))
    for name in (HERE, "SLURM_JOB_ID", "SLURMD_NODENAME"):
        monkeypatch.delenv(name, raising=False)


def test_a_login_node_is_refused_and_the_message_names_each_way_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    programs(tmp_path, monkeypatch, "echo gpu")
    ways = (
        "make sweep PROFILE=slurm",
        "snakemake --profile slurm",
        "knee --profile slurm",
        "PROFILE=allocation",
        "ENVKNEE_HERE=1 make sweep",
    )
    told(login_node.check, "login node", *ways, "workstation with a SLURM of its own", "export ENVKNEE_HERE=1")
    monkeypatch.setenv(HERE, "1")
    assert login_node.check() is None
    monkeypatch.setenv(HERE, "0")
    with pytest.raises(UserError):
        login_node.check()
    monkeypatch.setenv("SLURMD_NODENAME", "n1")  # of a script that sbatch started
    assert login_node.check() is None


def test_a_machine_without_slurm_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # slurm-client without a configuration, as SLURM 22.05 says it
    programs(tmp_path, monkeypatch, "echo 'sinfo: fatal: Could not establish a configuration source' >&2; exit 1")
    assert login_node.check() is None
    programs(tmp_path, monkeypatch, "echo gpu")
    (tmp_path / "sbatch").unlink()
    assert login_node.check() is None


@pytest.mark.parametrize(
    "sinfo",
    [
        "echo 'slurm_load_partitions: Unable to contact slurm controller (connect failure)' >&2; exit 1",
        "exec /bin/sleep 60",
    ],
)
def test_a_controller_that_is_away_costs_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sinfo: str):
    monkeypatch.setattr(login_node, "ANSWER_S", 0.5)
    programs(tmp_path, monkeypatch, sinfo)
    warning = login_node.check()
    assert warning is not None and "controller does not answer" in warning and f"{HERE}=1" in warning


def test_a_shell_of_salloc_may_be_on_the_login_node():
    warning = decide({"SLURM_JOB_ID": "7"}, Slurm.ANSWERS)
    assert warning is not None and warning.startswith("job 7 is yours") and "PROFILE=allocation" in warning
    assert decide({"SLURM_JOB_ID": "7"}, Slurm.ABSENT) is None
