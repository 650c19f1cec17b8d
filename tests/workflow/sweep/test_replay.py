"""A real study run again: interrupted, gone on with, and with `deterministic: true` the same bit for bit."""

import os
import signal
from pathlib import Path

import quick
from envknee.after import repeats
from envknee.record.read import load_records, read_rows
from envknee.tasks.kernels import MODULES
from programs import succeeded
from running import trial_processes
from waiting import wait_for, wait_until_none
from workspaces import Workspace

# Any reward is good enough: it ends after so many episodes, and not by the clock.
LEARNING = {
    "num_envs": [4], "horizon": 8, "batch_size": 16, "repeats": 2, "target_reward": -100, "target_episodes": 20, "budget_s": 60,
}  # fmt: skip


def test_a_gpus_deterministic_kernels_are_all_that_warp_can_make_so(tmp_path: Path):
    lines = quick.run_script("deterministic_kernels.py", folder=tmp_path).splitlines()
    modes = dict(line.split() for line in lines if line.split()[0] in MODULES)
    assert modes.keys() == set(MODULES)
    assert {name for name, mode in modes.items() if mode != "RUN_TO_RUN"} == {"mujoco_warp._src.sensor"}


def test_a_deterministic_study_run_again_is_the_same_bit_for_bit(workspace: Workspace):
    arms = {"stock": {"gpus": 0, "deterministic": True}}
    study = workspace.study(throughput=None, learning=LEARNING, arms=arms, decide={"delta": 0.2})
    first = workspace.prepared()
    quick.measure(study, first)

    succeeded(workspace.module("replay", str(first.root), "--name", "again"))
    again = workspace.prepared("again")
    decided = str(again.verdict.relative_to(workspace.folder))
    sweep = workspace.start(again.study, decided)
    wait_for(lambda: again.trial(0).record.exists() and again.trial(1).environment.exists())
    os.killpg(sweep.pid, signal.SIGKILL)  # snakemake, its shells and the launcher; the trial goes with the launcher
    sweep.wait()
    wait_until_none(lambda: trial_processes(workspace.folder), timeout_s=10)
    measured = again.trial(0).outcome.read_bytes()
    assert not again.trial(1).record.exists()
    succeeded(workspace.sweep(again.study, decided))
    assert again.trial(0).outcome.read_bytes() == measured  # not measured again
    assert (again.trial(1).root / "trial.interrupted-1.log").exists()
    log = again.root / "logs/trial-0001.log"
    assert log.is_symlink() and log.samefile(again.trial(1).log)
    assert [record.lost_attempts for record in load_records(again)] == [0, 1]
    assert "1 attempt was lost" in workspace.module("summary", "--all", str(again.root)).stdout

    records = load_records(first)
    assert [record.outcome.status for record in records] == ["target_reached"] * 2
    for record, other in zip(records, load_records(again), strict=True):
        rows, others = (read_rows(folder.trial(record.request.number)) for folder in (first, again))
        assert len(rows) == len(others) >= 3
        assert [(row.reward_mean, row.losses) for row in rows] == [(row.reward_mean, row.losses) for row in others]
        assert any(row.reward_mean is not None for row in rows)
        assert record.outcome.parameters_sha256 == other.outcome.parameters_sha256 is not None
        assert record.outcome.environment is not None and record.outcome.environment.cpu_threads == 1
    # It could have come out different: another seed learns other parameters.
    assert records[0].outcome.parameters_sha256 != records[1].outcome.parameters_sha256
    compared = succeeded(workspace.module("repeats", str(first.root), str(again.root)))
    assert "stock, learning: 2 of 2 trials the same bit for bit" in compared and "in 2 also every parameter" in compared
    assert all(repeat.is_same for repeat in repeats.compare(first, again))
    assert workspace.module("replay", "--verify", str(again.root)).returncode == 0
