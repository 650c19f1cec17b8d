"""What only a GPU can show: `make gpu-test`. Elsewhere every test is skipped."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from camera_trials import a_trial, camera, has_rows, started_launcher
from envknee.after import repeats
from envknee.ask import ask
from envknee.base.point import Point
from envknee.machine import environment
from envknee.machine.nvml import Gpu
from envknee.record.read import load_record, read_rows
from envknee.record.schema import Record
from envknee.run import launch
from envknee.study.errors import UserError
from envknee.study.files import canonical_json, write_atomically
from envknee.study.load import parse_study
from envknee.study.space import Slot
from needs import need
from PIL import Image
from places import PROGRAMS
from programs import succeeded
from records import known
from running import trial_processes
from waiting import wait_for

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

POINT: dict[str, Any] = {"gpus": 1, "num_envs": 256, "horizon": 16, "batch_size": 1024, "overrides": camera(96)}


@pytest.fixture
def gpu() -> Iterator[Gpu]:
    """Return the GPU, and check that the test left it as it was: nothing of a trial stays behind."""
    device = known(environment.gpu_of("cuda:0"))
    before_gb = device.used_gb()
    yield device
    wait_for(lambda: device.used_gb() <= before_gb + 0.05, timeout_s=10)


def run(folder: Any, **changes: Any) -> Record:
    return launch.launch(a_trial(folder, **(POINT | changes)))


def test_the_phases_by_cuda_events_add_up_to_the_hosts_clock(tmp_path, gpu):
    trial = a_trial(tmp_path / "phases", **POINT, iterations=8, warmup_iterations=2)
    record = launch.launch(trial)
    assert record.outcome.status == "ok" and min(spread.median for spread in known(record.phases_s).values()) > 0
    for row in read_rows(trial)[2:]:
        assert sum(known(row.phases_s).values()) == pytest.approx(row.iteration_s, rel=0.03)


def test_compare_catches_frames_normalized_one_by_one(workspace):
    # What made Isaac Lab slow and large between its pull requests #5574 and #5849, at the size at which that was told there, with
    # as short a rollout as shows what the environment holds. Memory must be caught. FPS depends on the card: an H200 took 42%
    # more memory, and was no slower.
    arms = {"stock": {"gpus": 1}, "per-frame": {"gpus": 1, "observations": "per_frame"}}
    overrides = camera(256) | {"agent.algorithm.num_learning_epochs": 1}
    sweep = {"num_envs": 1024, "horizon": 4, "batch_size": "library", "repeats": 3, "iterations": 8}
    study = workspace.study(arms=arms, task={"overrides": overrides}, throughput=sweep, learning=None)
    # Only the trials: a GPU host without MLflow can measure them, too.
    trials = [workspace.results().trial(number).record for number in range(6)]
    succeeded(workspace.sweep(study, *(str(path.relative_to(workspace.folder)) for path in trials), timeout_s=580))
    folder = str(workspace.results().root)
    compared = workspace.module("compare", f"{folder}:stock", f"{folder}:per-frame")
    print(compared.stdout)  # seen with pytest -s
    assert compared.returncode == 3, compared.stdout
    assert "REGRESSION beyond 5%: peak memory" in compared.stdout


def test_a_deterministic_trial_repeats_bit_for_bit_and_another_one_is_measured(tmp_path, gpu):
    rows_by_name, parameters = {}, {}
    for deterministic in (True, False):
        changes = POINT | {"iterations": 6, "deterministic": deterministic}
        trials = [a_trial(tmp_path / f"{deterministic}-{i}", **changes) for i in range(2)]
        records = [launch.launch(trial) for trial in trials]
        assert {record.outcome.status for record in records} == {"ok"}
        rows_by_name[deterministic] = repeats.compare_rows(*map(read_rows, trials))
        parameters[deterministic] = {record.outcome.parameters_sha256 for record in records}
    # Seen with pytest -s: what a GPU does without it.
    print(f"first different iteration, in what, by which share: {rows_by_name}")
    assert (rows_by_name[True], len(parameters[True])) == ((None, None, 0.0), 1), rows_by_name


def test_the_cost_of_a_trial_is_what_a_gpu_can_take(tmp_path, gpu):
    trial = a_trial(tmp_path / "cost", **POINT, iterations=3)
    record = launch.launch(trial)
    assert record.gpu_hours is not None and record.gpu_hours * 3600 >= record.train_s > 0
    assert 10 < record.energy_j / (record.gpu_hours * 3600) < 1500  # watts: from idle to the largest cards
    powers_w = [row.gpu_power_w for row in read_rows(trial)]
    assert all(power_w is not None and 10 < power_w < 1500 for power_w in powers_w)
    assert Image.open(trial.frames).getbbox() is not None  # what the policy saw comes off the GPU


def test_the_memory_map_adds_up_and_counts_the_rollout(tmp_path, gpu):
    record = run(tmp_path / "memory", iterations=3)
    memory = known(record.outcome.memory_map)
    observations_gb = 256 * 16 * 2 * 3 * 96 * 96 * 4 / 1e9
    assert observations_gb < memory.rollout_gb < 1.01 * observations_gb
    assert memory.static_gb > 0.3 and memory.model_gb > 0 and memory.learner_gb > 0 and memory.slack_gb >= 0
    assert abs(memory.unattributed_gb) < 0.05 * memory.device_used_gb
    assert 0 < memory.libraries_gb < 1
    newest = read_rows(launch.TrialFolder(tmp_path / "memory"))[-1].memory
    assert memory.slack_gb == pytest.approx(newest.torch_peak_reserved_gb - newest.torch_peak_allocated_gb)
    parts_gb = memory.rollout_gb + memory.collecting_gb + memory.model_gb + memory.learner_gb
    assert parts_gb <= newest.torch_peak_allocated_gb < memory.static_gb + parts_gb + 0.05
    assert memory.other_processes_gb is not None and memory.other_processes_gb < 0.1
    assert newest.device_used_gb is not None and newest.device_used_gb <= memory.device_used_gb + 0.01  # of the peak


@pytest.mark.parametrize(
    ("stage", "changes"),
    [
        ("learner", {"horizon": 2**16, "batch_size": 2**20}),
        ("learning", {"horizon": 64, "batch_size": 2**14, "memory": {"memory_cap_gb": 7.5}}),
    ],
)
def test_memory_runs_out_where_it_strikes_and_the_gpu_is_clean_afterwards(tmp_path, gpu, stage, changes):
    record = run(tmp_path / stage, **changes)
    assert record.outcome.status == "oom", record.outcome
    failure = known(record.outcome.failure)
    assert failure.tensor == stage and failure.requested_gb is not None and record.outcome.memory_map is not None


def test_a_cleared_cache_gives_memory_back_and_hides_no_peak(tmp_path, gpu):
    kept_peak_gb, kept_gb = while_training(tmp_path / "kept", gpu)
    cleared_peak_gb, cleared_gb = while_training(tmp_path / "cleared", gpu, memory={"clear_cache_every": 1})
    print(f"peak kept {kept_peak_gb:.2f} GB, cleared {cleared_peak_gb:.2f} GB")
    # The learner needs as much at a time as before, and asks the driver for it anew in each iteration: more, where blocks of
    # the last iteration would have served.
    assert cleared_peak_gb > 0.95 * kept_peak_gb
    assert max(kept_gb) - min(kept_gb) < 0.05
    assert min(cleared_gb) < min(kept_gb) - 0.2


def while_training(folder: Path, gpu: Gpu, **changes: Any) -> tuple[float, list[float]]:
    """Run a trial; return its peak, and what its GPU had in use, in GB, again and again between rows 3 and 18."""
    trial, used_gb = a_trial(folder, **POINT, warmup_iterations=2, iterations=20, **changes), []
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(launch.launch, trial)
        while not future.done():
            rows = len(trial.metrics.read_bytes().splitlines()) if trial.metrics.exists() else 0
            if 3 <= rows < 18:
                used_gb.append(gpu.used_gb())
            time.sleep(0.01)
    record = future.result()
    assert record.outcome.status == "ok" and record.memory_peak_gb is not None
    return record.memory_peak_gb, used_gb


def test_memory_runs_out_while_the_environment_is_made(tmp_path, gpu):
    with all_but(0.8):  # a context takes 0.6 GB
        record = run(tmp_path / "environment", num_envs=8192)
    assert record.outcome.status == "oom" and known(record.outcome.failure).tensor == "environment"


def test_what_does_not_fit_fits_in_smaller_parts(tmp_path, gpu):
    changes = {"horizon": 64, "batch_size": 2**14, "memory": {"memory_cap_gb": 7.5, "on_oom": "retry_accumulate"}}
    record = run(tmp_path / "retry", **changes)
    assert record.outcome.status == "ok"
    assert record.outcome.micro_batches is not None and record.outcome.micro_batches >= 2
    assert record.memory_peak_gb is not None and record.memory_peak_gb < 8.5


def test_a_gpu_is_found_under_the_name_that_a_scheduler_gives_it(tmp_path, gpu, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpu.uuid)
    record = run(tmp_path / "remapped")
    assert gpu.uuid.endswith(known(record.outcome.environment).device.uuid or "?")


BALLAST = """
import sys, time, torch
device = f"cuda:{sys.argv[2]}"
free = torch.cuda.mem_get_info(device)[0]
kept = torch.empty(int(free - float(sys.argv[1]) * 1e9), dtype=torch.uint8, device=device)
print("there", flush=True)
time.sleep(3600)
"""


@contextmanager
def all_but(free_gb: float, device: int = 0) -> Iterator[None]:
    """Let another process take a GPU's memory but for `free_gb`."""
    command = [sys.executable, "-c", BALLAST, str(free_gb), str(device)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"there\n"
        try:
            yield
        finally:
            process.kill()


def most_that_fit(fits: Callable[[int], bool], low: int, high: int, step: int) -> int:
    """Return the largest num_envs that fits, by bisection: `low` does, `high` does not."""
    assert fits(low) and not fits(high)
    while high - low > step:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def test_a_cap_strikes_where_a_card_of_that_size_would(tmp_path, gpu):
    size_gb = 6.0
    point = {"horizon": 32, "batch_size": None, "warmup_iterations": 0, "iterations": 2}

    def fits(name: str, num_envs: int, **changes: Any) -> bool:
        record = run(tmp_path / f"{name}-{num_envs}", num_envs=num_envs, **point, **changes)
        assert record.outcome.status in ("ok", "oom")
        return record.outcome.status == "ok"

    with all_but(size_gb):
        on_small_card = most_that_fit(lambda num_envs: fits("card", num_envs), 384, 896, 16)
    capped = {"memory": {"memory_cap_gb": size_gb}}
    with_cap = most_that_fit(lambda num_envs: fits("cap", num_envs, **capped), 384, 896, 16)
    print(f"{size_gb} GB: {on_small_card} environments on a card of that size, {with_cap} with a cap")
    assert with_cap == pytest.approx(on_small_card, rel=0.05)


two_gpus = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")


@two_gpus
def test_two_gpus_train_together_and_tell_of_both(tmp_path):
    trial = a_trial(tmp_path / "two", **POINT | {"gpus": 2}, iterations=6, warmup_iterations=2)
    record = launch.launch(trial)
    assert (record.outcome.status, record.world_size, record.num_envs_total) == ("ok", 2, 512)
    assert record.outcome.ranks is not None and len({rank.device.uuid for rank in record.outcome.ranks}) == 2
    for row in read_rows(trial)[2:]:
        for rank in known(row.ranks):
            assert sum(known(rank.phases_s).values()) == pytest.approx(rank.iteration_s, rel=0.03)
    first, second = (known(result.memory_map) for result in record.outcome.ranks)
    # No rank has a context on another's GPU: both use the same.
    assert first.device_used_gb == pytest.approx(second.device_used_gb, rel=0.05)
    assert first.other_processes_gb is not None and first.other_processes_gb < 0.1


@two_gpus
def test_lean_ranks_side_by_side_on_two_gpus_learn_the_same_weights(tmp_path):
    # That they do is looked at by every trial of several ranks: one whose weights differ is `invalid`.
    record = run(tmp_path / "lean", gpus=2, observations="lean", num_envs=512, horizon=32, iterations=3)
    assert (record.outcome.status, record.world_size) == ("ok", 2), record.outcome
    stock = run(tmp_path / "stock", gpus=2, num_envs=512, horizon=32, iterations=3)
    for lean_rank, stock_rank in zip(record.outcome.ranks or [], stock.outcome.ranks or [], strict=True):
        assert known(lean_rank.memory_map).rollout_gb < 0.2 * known(stock_rank.memory_map).rollout_gb


@two_gpus
def test_memory_that_runs_out_on_one_rank_is_a_result_for_all(tmp_path):
    with all_but(3.0, device=1):
        record = run(tmp_path / "oom", gpus=2, num_envs=512, horizon=32)
    assert record.outcome.status == "oom"
    assert known(record.outcome.reason).startswith("rank 1: memory ran out (learner)")


@two_gpus
def test_trials_side_by_side_are_on_different_gpus(tmp_path):
    # Each in a launcher of its own, as a sweep starts them: a launcher ends all processes that its trial has left.
    trials = [a_trial(tmp_path / name, **POINT, iterations=3) for name in ("one", "other")]
    assert [launcher.wait() for launcher in [*map(started_launcher, trials)]] == [0, 0]
    records = [load_record(trial) for trial in trials]
    assert len({known(record.outcome.environment).device.uuid for record in records}) == 2


@two_gpus
def test_what_neighbours_cost_is_measured_on_a_gpu_for_each(workspace):
    study = workspace.study(learning=None, arms={"lean": {"gpus": 1, "observations": "lean"}})
    arguments = ["--num-envs", "64", "128", "--horizon", "8", "--rounds", "2", "--output", "beside"]
    succeeded(workspace.module("neighbours", str(study), *arguments, timeout_s=600))
    kept = json.loads((workspace.folder / "beside/neighbours.json").read_text(encoding="utf-8"))
    points = {(point["num_envs"], point["blocks"]) for point in kept["measured"]}
    assert points == {(64, 1), (64, 2), (128, 1), (128, 2)}


@two_gpus
def test_a_rank_that_hangs_on_a_gpu_leaves_both_clean(tmp_path):
    trial = a_trial(tmp_path / "hang", **POINT | {"gpus": 2}, iterations=10**6)
    memory = [environment.gpu_of(f"cuda:{index}") for index in range(2)]
    before_gb = [gpu.used_gb() for gpu in memory if gpu]
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(launch.launch, trial)
        wait_for(lambda: future.done() or has_rows(trial))
        ranks = [psutil.Process(pid) for pid in trial_processes(Path.cwd())]
        (second,) = (rank for rank in ranks if str(trial.root) in rank.cmdline() and rank.environ().get("RANK") == "1")
        second.suspend()
        with pytest.raises(UserError, match="rank (0 or )?1 hangs"):
            future.result(timeout=120)
    time.sleep(1)
    assert [gpu.used_gb() for gpu in memory if gpu] == pytest.approx(before_gb, abs=0.05)


@two_gpus
def test_a_command_that_uses_two_gpus_has_the_peak_of_each(tmp_path):
    program = PROGRAMS / "two_gpu_trainer.py"
    argv = [
        sys.executable,
        str(program),
        "--envs",
        "{num_envs}",
        "--steps",
        "{horizon}",
        "--iterations",
        "{iterations}",
    ]
    rows = {
        "source": "regex",
        "step": "iterations",
        "patterns": [r"iteration (?P<step>\d+)/\d+: (?P<fps>[\d,.]+) steps"],
    }
    arm = {"trainer": "command", "gpus": 2, "command": {"argv": argv, "rows": rows}}
    sweep = {"num_envs": [2000, 4000], "horizon": 4, "batch_size": "library", "iterations": 4}
    study = parse_study({"study": "two", "arms": {"two": arm}, "throughput": sweep})
    peaks_gb = []
    for number, num_envs in enumerate([2000, 4000]):
        trial = launch.TrialFolder(tmp_path / "trials" / f"{number:04d}")
        trial.root.mkdir(parents=True)
        request = ask.request_for(study, Slot(number, "two", "throughput", 0), Point(num_envs, 4, None), None)
        write_atomically(trial.request, canonical_json(request))
        record = launch.launch(trial)
        assert record.outcome.status == "ok", record.outcome
        peaks_gb.append(known(record.gpu_peaks_gb))
    (small, first), (large, second) = peaks_gb
    # A context takes less than 1 GB on each.
    assert 2 < small < 3.2 and large - small == pytest.approx(2, abs=0.1)
    assert 3 < first < 4.8 and second == pytest.approx(first, abs=0.1)


@two_gpus
@pytest.mark.parametrize("observations", ["stock", "lean"])
def test_a_pipeline_simulates_on_one_gpu_and_learns_on_the_other(tmp_path, observations):
    need("torchrl")
    pipeline = {"gpus": 2, "trainer": "torchrl", "strategy": "async2", "warmup_iterations": 2, "iterations": 6}
    trial = a_trial(tmp_path / "pipeline", **POINT | pipeline, observations=observations)
    record = launch.launch(trial)
    assert (record.outcome.status, record.outcome.warnings, record.devices) == ("ok", [], 2), record.outcome
    assert known(record.outcome.environment).device.uuid != known(record.outcome.learner_device).uuid
    assert record.staleness is not None and record.staleness.median == 1
    for row in read_rows(trial)[2:]:
        assert row.pipeline is not None and row.pipeline.memory is not None
        assert row.learn_s < row.pipeline.learner_s + 0.01  # what was waited for, of what was done
        assert sum(known(row.phases_s).values()) == pytest.approx(row.iteration_s, rel=0.03)
    simulating, learning = known(record.outcome.memory_map), known(record.outcome.learner_memory_map)
    assert simulating.rollout_gb < 0.01 < record.rollout_gb < learning.rollout_gb
    assert 0.3 < learning.static_gb < 0.8 and simulating.static_gb > 0.3  # a CUDA context, and one with a simulation


def test_a_pipeline_on_one_gpu_says_that_both_sides_share_it(tmp_path, gpu):
    need("torchrl")
    record = run(tmp_path / "one", trainer="torchrl", strategy="async2", iterations=3)
    assert record.outcome.status == "ok" and record.outcome.learner_device is None
    assert record.outcome.warnings[0].startswith("strategy: async2 had one device (cuda:0) for both sides")
