"""The drill itself: a real sweep of foreign commands whose processes are killed, on a disk that fills up, with a clock that is wrong."""

import random
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from environment import ENVIRONMENT
from envknee.machine.gpus import OTHER_LOCKS
from envknee.run import attempts
from envknee.study.paths import TrialFolder
from programs import python, succeeded
from records import a_trial, write_trial

from benchmarks import soak
from benchmarks.drill import KEEPER, KINDS, SHELL, Drill


def a_drill(folder: Path, of_commands: bool = True, seed: int = 1) -> Drill:
    return Drill(folder, random.Random(seed), of_commands)  # noqa: S311  draws no secret


def measure_again(trial: TrialFolder) -> None:
    """Leave another outcome, as another measurement does."""
    trial.outcome.write_text(trial.outcome.read_text(encoding="utf-8") + "\n", encoding="utf-8")


NOTHING_LOST = "lost 0, doubled 0, orphaned 0, measured beside others 0, crashed 0; the last sweep ended with status 0"
DRILLS: dict[str, Sequence[object]] = {
    "a process for each trial": ("--trainer", "command", "--kills", 4, "--seed", 3),
    "workers": ("--trainer", "command", "--workers", "--kills", 4, "--seed", 2),
    "a soak": ("--soak", 10, "--kills", 1),
}


@pytest.mark.alone
def test_nothing_is_lost_doubled_or_left_behind(tmp_path: Path):
    """Drills wait most of the time, so they run side by side, each with locks of its own."""

    def drill(kind: str) -> subprocess.CompletedProcess[str]:
        locks = tmp_path / kind
        locks.mkdir()
        return python(
            "-m", "envknee", "drill", *DRILLS[kind], timeout=1100, env=ENVIRONMENT | {OTHER_LOCKS: str(locks)}
        )

    with ThreadPoolExecutor(len(DRILLS)) as pool:
        done = dict(zip(DRILLS, pool.map(drill, DRILLS), strict=True))
    said = {kind: succeeded(own) for kind, own in done.items()}
    for own in said.values():
        assert NOTHING_LOST in own, own
        assert "0 durations that cannot be" in own, own
    for kind in ("a process for each trial", "workers"):
        assert ", 0 of them others than an undisturbed sweep asks for" in said[kind], said[kind]
    assert re.search("(the worker|what starts workers) [1-9]", said["workers"]), said["workers"]
    assert "kill 1 of 1 at trial" in said["a soak"], said["a soak"]
    assert "MLflow holds 10 of them" in said["a soak"] and "Snakemake: " in said["a soak"], said["a soak"]


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_of_the_drill_takes_rows_and_the_next_sweep_sees_it(seed: int, tmp_path: Path):
    drill = a_drill(tmp_path, seed=seed)
    trial = drill.results.trial(0)
    trial.root.mkdir(parents=True)
    write_trial(trial, a_trial(32))
    assert attempts.forget_torn(trial) is None
    drill.look()
    drill.cut_power()
    assert "not whole, as after a power cut" in (attempts.forget_torn(trial) or "")
    drill.look()  # the outcome of before is there until the next sweep sets it aside
    measure_again(trial)
    drill.look()
    assert not drill.doubled, "a trial that is measured once more after a power cut is not doubled"
    measure_again(trial)
    drill.look()
    assert drill.doubled == {trial.root.name}, "but only once"


def test_a_trial_that_is_measured_twice_is_seen(tmp_path: Path):
    drill = a_drill(tmp_path)
    trial = drill.results.trial(0)
    trial.root.mkdir(parents=True)
    write_trial(trial, a_trial(32))
    drill.look()
    assert not drill.doubled
    measure_again(trial)
    drill.look()
    assert drill.doubled == {trial.root.name}


def test_the_drill_tells_processes_apart_by_their_command_lines(tmp_path: Path):
    drill = a_drill(tmp_path)
    trial = "python -m envknee.run.process results/drill/trials/0001"
    assert drill.kind_of("python", f"python -I -S /x/machine/keeper.py 12 {trial}") == KEEPER
    assert drill.kind_of("python", trial) == "the trial"
    assert drill.kind_of("bash", "bash /x/drilled_trainer.sh python /x/drilled_trainer.py n 7") == "the command's shell"
    assert drill.kind_of("python", "python /x/drilled_trainer.py daemon n 7 12") == "the command's daemon"
    assert drill.kind_of("python", "python /x/drilled_trainer.py trains n 7 12") == "the command"
    assert drill.kind_of("bash", "bash -c envknee launch x") == SHELL
    assert drill.kind_of("python", "python -m something") is None
    of_workers = Drill(tmp_path, random.Random(1), of_commands=True, workers=True)  # noqa: S311  draws no secret
    assert of_workers.kind_of("python", "python -m envknee work results/drill 0 --log x") == "the worker"
    assert (
        of_workers.kind_of("python", "python -m envknee workers results/drill 0 --workers 2") == "what starts workers"
    )
    assert "the block" in KINDS and "the block" not in drill.names, "a program is measured in no block"


def test_growth_is_found_where_it_is_and_the_start_of_a_process_is_left_out():
    flat = [
        soak.Sample("Snakemake", 1, 0, 30.0),
        *(soak.Sample("Snakemake", 1, trial, 200.0) for trial in range(1, 50)),
    ]
    grows = [sample._replace(rss_mb=sample.rss_mb + sample.recorded * 0.1) for sample in flat]
    assert soak.growth_mb(flat) == pytest.approx(0.0)
    assert soak.growth_mb(grows) == pytest.approx(100.0)
    assert soak.growth_mb(flat[:3]) is None
    assert "+100.0 MB per 1,000 trials" in soak.memory_lines(grows)[0]
