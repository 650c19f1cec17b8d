"""Two ranks that really train together, on the CPU: RSL-RL, torchrun and Gloo. What only GPUs show is in test_gpu.py."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from statistics import fmean
from typing import Any

import psutil
import pytest
from camera_trials import a_trial, camera, has_rows, started_launcher
from environment import ENVIRONMENT
from envknee.record.read import load_record, read_rows
from envknee.record.schema import Record
from envknee.run import launch
from envknee.run.worker import Worker
from envknee.study.errors import UserError
from envknee.study.paths import TrialFolder
from places import PROGRAMS
from records import known
from running import listening, ranks_among
from waiting import wait_for

TWO = {"cpu_ranks": 2, "batch_size": 8, "warmup_iterations": 1}

Block = dict[str, tuple[TrialFolder, Record]]


@pytest.fixture(scope="module")
def of_a_block(tmp_path_factory: pytest.TempPathFactory) -> Block:
    """Return the trials of a block of two ranks, which needs fresh ranks after memory ran out, and for its last trial."""
    folder = tmp_path_factory.mktemp("ranks")
    drifting = {"agent.algorithm.class_name": "drifting:DriftingPPO"}  # its ranks share no gradients
    changes: dict[str, dict[str, Any]] = {
        "plain": {"iterations": 3},
        "lean": {"observations": "lean", "iterations": 2},
        "short": {"num_envs": 8, "memory": {"memory_cap_gb": 0.1}},
        "after": {"num_envs": 8, "iterations": 2},
        "smaller": {"iterations": 2},
        "drifting": {"overrides": camera(48) | drifting, "iterations": 1},
        "fresh": {"num_envs": 2, "fresh": True},
    }
    trials = {name: a_trial(folder / name, **TWO | change) for name, change in changes.items()}
    with pytest.MonkeyPatch.context() as patch, closing(Worker([*trials.values()])) as worker:
        patch.setenv("PYTHONPATH", f"{PROGRAMS}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}")
        measured = {name: (trial, launch.launch(trial, worker=worker)) for name, trial in trials.items()}
        left = ranks_among(child.pid for child in psutil.Process().children(recursive=True))
        assert not left, "no further trial can share the process of a fresh one"
    return measured


def test_two_ranks_are_one_trial_of_different_episodes_and_the_same_network(of_a_block: Block):
    trial, record = of_a_block["plain"]
    assert (record.outcome.status, record.world_size, record.num_envs_total) == ("ok", 2, 8)
    assert record.num_mini_batches == 2 * 4 * 4 // 8
    assert [row.frames for row in read_rows(trial)] == [32, 64, 96, 128]
    assert record == load_record(trial) and record.frames == 128
    assert seeds_of(trial) == {"7", "8"}
    assert "Synchronizing parameters for rank 1" in trial.log.read_text(encoding="utf-8")


def test_each_ranks_figures_are_there_and_the_slowest_sets_the_pace(of_a_block: Block):
    trial, record = of_a_block["plain"]
    for row in read_rows(trial):
        assert row.ranks is not None and [rank.rank for rank in row.ranks] == [0, 1]
        assert row.collect_s == max(rank.collect_s for rank in row.ranks)
        assert row.fps_total == pytest.approx(32 / max(rank.collect_s + rank.learn_s for rank in row.ranks))
        assert row.fps_env_step == pytest.approx(32 / max(rank.env_step_s for rank in row.ranks))
        assert row.episodes == sum(rank.episodes for rank in row.ranks)
        assert row.memory.peak_rss_gb == max(rank.memory.peak_rss_gb for rank in row.ranks)
        # They meet in every optimizer step, so an iteration takes both the same time.
        for rank in row.ranks:
            assert rank.iteration_s == pytest.approx(row.iteration_s, rel=0.2, abs=0.05)
            # Those of a rank fill its time. The row has their means.
            assert sum(known(rank.phases_s).values()) == pytest.approx(rank.iteration_s, rel=0.03, abs=0.005)
        assert row.iteration_s == max(rank.iteration_s for rank in row.ranks)
        means = {name: fmean(known(rank.phases_s)[name] for rank in row.ranks) for name in known(row.phases_s)}
        assert row.phases_s == pytest.approx(means)
        # Gradients of 4 transitions each become one of 8; a mean's square is at most the mean of squares.
        assert row.gradients is not None
        assert (row.gradients.rank_batch, row.gradients.batch) == (4, 8)
        assert 0 < row.gradients.shared < row.gradients.rank_mean
    results = known(record.outcome.ranks)
    assert [rank.rank for rank in known(record.ranks)] == [result.rank for result in results] == [0, 1]
    assert all(result.startup_s is not None and result.memory_map is not None for result in results)


def seeds_of(trial: TrialFolder) -> set[str]:
    lines = trial.log.read_text(encoding="utf-8").splitlines()
    return {line.split()[-1] for line in lines if "Environment seed" in line}


def test_ranks_that_do_not_share_their_gradients_make_no_result(of_a_block: Block):
    _, record = of_a_block["drifting"]
    assert record.outcome.status == "invalid"
    assert "rank 1 of 2 learned other weights than rank 0" in known(record.outcome.reason)


def test_ranks_of_a_block_stay_together_until_one_runs_out_of_memory_or_is_to_be_fresh(of_a_block: Block):
    records = {name: record for name, (_, record) in of_a_block.items()}
    assert [record.outcome.status for record in records.values()] == ["ok", "ok", "oom", "ok", "ok", "invalid", "ok"]
    sizes = [(records[name].world_size, records[name].num_envs_total) for name in ("lean", "after", "smaller", "fresh")]
    assert sizes == [(2, 8), (2, 16), (2, 8), (2, 4)]
    short = records["short"].outcome
    assert short.reason is not None and short.reason.startswith("rank ") and "memory_cap_gb is 0.1" in short.reason
    assert short.ranks is not None and short.failure is not None and short.failure.tensor == "environment"
    shared = {name: record.outcome.shared for name, record in records.items() if record.outcome.shared is not None}
    plain, after, smaller, fresh = (shared[name] for name in ("plain", "after", "smaller", "fresh"))
    assert plain.process != after.process == smaller.process, "after memory ran out all ranks are fresh"
    assert [of.position for of in (plain, after, smaller, fresh)] == [0, 0, 1, 0] and smaller.memory_counts
    assert fresh.process != smaller.process and fresh.previous_num_envs is None
    for name in ("after", "smaller"):
        trial, record = of_a_block[name]
        assert record == load_record(trial) and len(read_rows(trial)) == 3
        assert record.outcome.ranks is not None and [rank.rank for rank in record.outcome.ranks] == [0, 1]
        assert seeds_of(trial) == {"7", "8"}, "each trial's log holds what both of its ranks print"


@contextmanager
def endless(
    trial: TrialFolder, worker: Worker | None = None
) -> Iterator[tuple[Future[Record], dict[int, psutil.Process]]]:
    """Launch a trial that does not end by itself; give its future record and the process of each rank."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(launch.launch, trial, None, worker)
        wait_for(lambda: future.done() or has_rows(trial))
        ranks = ranks_among(child.pid for child in psutil.Process().children(recursive=True))
        try:
            yield future, ranks
        finally:
            for process in ranks.values():
                if process.is_running():
                    process.kill()


def test_ranks_listen_on_no_open_address_and_one_that_dies_ends_the_others_without_a_result(tmp_path):
    trial = a_trial(tmp_path / "endless", **TWO, iterations=10**6)
    with endless(trial) as (future, ranks):
        torchrun = known(ranks[0].parent())
        assert listening([torchrun, *ranks.values()]) <= {"127.0.0.1", "::1"}

        ranks[1].kill()
        with pytest.raises(UserError, match=r"(?s)ended without a result.*rank +: 1 .*exitcode +: -9"):
            future.result(timeout=60)
        assert not any(process.is_running() for process in ranks.values())
        assert not trial.outcome.exists()


def test_a_rank_of_a_block_that_hangs_ends_all_within_a_minute_and_is_named(tmp_path):
    whole, hanging = (a_trial(tmp_path / str(count), **TWO, iterations=count) for count in (1, 10**6))
    with closing(Worker([whole, hanging])) as worker:
        assert launch.launch(whole, worker=worker).outcome.status == "ok"
        with endless(hanging, worker) as (future, ranks):
            os.kill(ranks[1].pid, signal.SIGSTOP)
            words = r"rank (0 or )?1 hangs \((rollout|learning)\): no rank made progress for 30 s"
            with pytest.raises(UserError, match=words):
                future.result(timeout=90)
            assert not any(process.is_running() for process in ranks.values())
    assert whole.record.exists() and not hanging.outcome.exists()


@pytest.mark.parametrize(("ranks", "processes", "train"), [(1, 2, False), (2, 4, False), (2, 4, True)])
def test_a_launcher_that_is_killed_leaves_no_rank_behind(tmp_path, ranks, processes, train):
    """Also while they import what they need. `processes` counts the keeper, torchrun and the ranks."""
    trial = a_trial(tmp_path / "endless", **TWO | {"cpu_ranks": ranks}, iterations=10**6)
    with started_launcher(trial) as launcher:
        parent = psutil.Process(launcher.pid)
        wait_for(lambda: has_rows(trial) if train else len(parent.children(recursive=True)) >= processes)
        started = parent.children(recursive=True)
        launcher.kill()
    _, alive = psutil.wait_procs(started, timeout=60)
    assert len(started) == processes and not alive and trial.environment.exists() is train
