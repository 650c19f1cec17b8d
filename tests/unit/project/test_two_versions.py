"""Two versions' iterations in pairs: FPS, and their ratio with its interval."""

import math
from pathlib import Path
from typing import Any

import pytest
from envknee.study.errors import UserError
from scipy.stats import ttest_rel

from benchmarks.two_versions import by_pair, fps_of, ratio_of, version_of


def run_of(version: str, pair: int, num_envs: int, seconds: list[float]) -> dict[str, Any]:
    return {
        "version": version, "pair": pair, "num_envs": num_envs, "horizon": 4, "warmup_iterations": 1, "iteration_s": seconds,
    }  # fmt: skip


def test_fps_leave_the_warm_up_out():
    assert fps_of(run_of("a", 0, 8, [9.0, 0.5, 0.25, 1.0])) == 8 * 4 / 0.5


def test_pairs_stand_in_their_order_whichever_began():
    runs = [run_of("b", 1, 8, [1.0, 0.5]), run_of("a", 0, 8, [1.0, 2.0]), run_of("b", 0, 8, [1.0, 1.0])]
    assert by_pair(runs, "b", 8) == [32.0, 64.0]
    assert by_pair(runs, "b", 16) == []


def test_a_ratios_interval_is_students_of_the_pairs_logarithms():
    before, now = [100.0, 110.0, 90.0], [210.0, 215.0, 185.0]
    ratio, lowest, highest = ratio_of(before, now)
    earlier, later = ([math.log(value) for value in own] for own in (before, now))
    interval = ttest_rel(later, earlier).confidence_interval(0.95)
    assert [ratio**2, lowest, highest] == pytest.approx(
        [lowest * highest, math.exp(interval.low), math.exp(interval.high)]
    )
    assert ratio_of([1.0], [2.0])[0] == 2.0 and math.isnan(ratio_of([1.0], [2.0])[1])


def test_a_folder_without_a_version_is_named(tmp_path: Path):
    with pytest.raises(UserError, match="NAME=FOLDER, where FOLDER/workflow/leanframes is a folder"):
        version_of(f"abc={tmp_path}")
