"""The lines and tables of joint studies (benchmarks/pages/joint_runs.py), from studies that are published already."""

import math
import re

import pytest
from envknee.verdict.schema.joint import ConfirmedSetting
from records import known

from benchmarks.pages import joint_runs
from benchmarks.pages.joint_runs import Run

STOCK = Run("cartpole-learns-like", "stock", "Isaac Lab's frames")
LEAN = Run("cartpole-learns-like", "lean-warp", "lean frames on Warp's frontend")
STOCK_FPS = Run("quick-h200-1", "stock", "Isaac Lab's frames")
OTHER_FPS = Run("quick-h200-2", "stock", "the same on another GPU")


def setting(cost: float, lower: float, upper: float) -> ConfirmedSetting:
    return ConfirmedSetting(
        num_envs=256, horizon=32, batch_size=512, seeds=8, reached=8, lost=0, cost=cost, cost_lower=lower, cost_upper=upper,
        may_be_best=True, most_slower=None, chance=None, memory_peak_gb=1.5,
    )  # fmt: skip


def test_a_ratio_of_two_settings_has_the_uncertainty_of_both():
    # ln: 3 +- 0.3 against 1 +- 0.4 is 2 +- 0.5
    slow = setting(math.exp(3.0), math.exp(2.7), math.exp(3.3))
    fast = setting(math.exp(1.0), math.exp(0.6), math.exp(1.4))
    found = joint_runs.times(slow, fast)
    assert [math.log(value) for value in found] == pytest.approx([2.0, 1.5, 2.5])
    assert str(found) == "7.4 times (4.5 to 12.2)"
    # The lower end of the ratio comes from the lower end above and the upper end below.
    lopsided = setting(math.exp(3.0), math.exp(2.7), math.exp(4.2))
    assert math.log(joint_runs.times(lopsided, fast).lower) == pytest.approx(1.5)
    assert math.log(joint_runs.times(lopsided, fast).upper) == pytest.approx(2.0 + math.hypot(1.2, 0.4))


def test_each_arm_stands_at_its_own_best_setting():
    rows = joint_runs.at_their_best([STOCK, LEAN], "learning").splitlines()
    assert rows[2].startswith(
        "| Isaac Lab's frames | 256 × 32 × 1,024 | 24.7 s (18.4 to 33.2) | 6 | 4.0 GB | 6.2 times ("
    )
    assert rows[3].startswith(
        "| lean frames on Warp's frontend | 1,024 × 16 × 2,048 | 4.0 s (3.0 to 5.3) | 6 | 1.9 GB |"
    )
    assert len(rows) == 4
    assert "| 61,200 FPS (51,695 to 72,453) | 4 |" in joint_runs.at_their_best([OTHER_FPS, STOCK_FPS], "throughput")


def test_the_first_lines_name_setting_seconds_fps_and_factors():
    lines = joint_runs.headline([STOCK, LEAN], [OTHER_FPS, STOCK_FPS], 3.0).splitlines()
    assert len(lines) == 4 and all(line.startswith("- ") for line in lines)
    assert "**4.0 s (3.0 to 5.3) at 1,024 × 16 × 2,048**" in lines[0]
    assert "take 24.7 s (18.4 to 33.2) at 256 × 32 × 1,024: **6.2 times (" in lines[1]
    assert "61,200 FPS (51,695 to 72,453) at 8,192 × 16 × 16,384" in lines[2]
    assert re.search(r"Isaac Lab.s frames give \*\*1\.0 times \(0\.\d to 1\.\d\)\*\* as many\.$", lines[3]), lines[3]


def test_thresholds_and_the_range_of_mini_batches_are_those_of_the_verdict():
    rows = joint_runs.thresholds(LEAN, "learning").splitlines()[2:]
    assert rows == [
        "| `num_envs` | undecided | 256, 512, 1,024 |",
        "| `horizon` | 16 | 16, 32 |",
        "| mini-batches per epoch | 2 to 32 | 2, 4, 8, 16, 32, 64 |",
    ]
    assert joint_runs.mini_batches(STOCK) == "2 to 32"


def test_what_fits_stands_for_the_horizon_and_batch_of_most_fps():
    rows = joint_runs.what_fits([STOCK_FPS]).splitlines()
    assert rows[0] == "| card | Isaac Lab's frames, horizon 16, batch 16,384 |"
    cards = [re.split(r" *\| *", row)[1] for row in rows[2:]]
    assert cards == list(joint_runs.CARDS)
    assert re.fullmatch(r"\| 80 GB \| \d+,\d{3} \(.*\) \|", rows[4]), rows[4]


def test_seconds_once_compiled_leave_out_what_the_first_iterations_cost():
    for run in (STOCK, LEAN):
        best = joint_runs.best_of(run.study, run.arm, "learning")
        once = joint_runs.once_compiled_s(run)
        assert len(joint_runs.fresh_records(run, best)) == best.reached
        assert once + joint_runs.starting_s(run) == pytest.approx(known(best.cost))
        assert 0.5 * known(best.cost) < once < known(best.cost), "nothing is compiled here, but for kernels"


def test_an_arm_without_a_named_setting_is_said():
    with pytest.raises(ValueError, match="no setting of lean-warp is named as the best one for throughput"):
        joint_runs.best_of("cartpole-learns-like", "lean-warp", "throughput")
