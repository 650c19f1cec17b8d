"""The comparison on a second task: pairs are of the same size and seed, and FPS leave the warm-up out."""

from typing import Any

import pytest
from places import ROOT
from programs import run_main, told
from rich.console import Console

from benchmarks import second_task
from benchmarks.second_task import FRAMES, pairs_of, reward_of, show
from benchmarks.two_versions import fps_of


def a_run(frames: str, seed: int, seconds: float, num_envs: int = 1024) -> dict[str, Any]:
    return {
        "versions": {"rsl-rl-lib": "5.5.1"},
        "frames": frames, "seed": seed, "num_envs": num_envs, "horizon": 24, "used_gb": 4.0, "warmup_iterations": 2,
        "iteration_s": [9.0, 5.0, seconds, seconds, 7.0], "reward": [None, 1.0, float(seed)],
    }  # fmt: skip


def test_fps_are_of_the_median_iteration_after_the_warm_up():
    assert fps_of(a_run("lean", 1, 0.5)) == 1024 * 24 / 0.5


def test_the_reward_is_of_iterations_in_which_an_episode_had_ended():
    assert reward_of(a_run("lean", 3, 0.5)) == pytest.approx(2.0)


def test_a_seed_that_has_one_kind_of_frames_is_left_out():
    runs = [a_run("mjlab", 1, 0.5), a_run("lean", 2, 0.2), a_run("lean", 1, 0.25), a_run("lean", 1, 0.25, num_envs=512)]
    pairs = pairs_of(runs, 1024)
    assert [[(run["frames"], run["seed"]) for run in own] for own in pairs] == [[(frames, 1)] for frames in FRAMES]


def test_a_pair_of_different_versions_is_left_out():
    runs = [a_run(frames, seed, 0.5) for frames in FRAMES for seed in (1, 2)]
    runs[0]["versions"] = {"rsl-rl-lib": "5.4.2"}
    assert [[run["seed"] for run in own] for own in pairs_of(runs, 1024)] == [[2], [2]]


def test_the_table_has_ratios_of_pairs():
    runs = [a_run(frames, seed, 0.5 / (1 + (frames == "lean"))) for frames in FRAMES for seed in (1, 2, 3)]
    console = Console(width=100, record=True)
    show(console, runs)
    assert "2.00 (2.00 to 2.00)" in console.export_text()


def test_without_a_timed_iteration_nothing_is_trained():
    told(lambda: run_main(second_task.main, "--iterations", 2), "--iterations 2: 3 or more were expected")


def test_the_example_leaves_out_as_many_iterations():
    example = (ROOT / "examples/mjlab_lift_cube.py").read_text(encoding="utf-8")
    assert f"WARM_UP = {second_task.WARM_UP}\n" in example
