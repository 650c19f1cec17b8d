"""skrl trains in real trials on the CPU, and says of them what RSL-RL's say."""

import pytest
from alike import AlikeTests
from trained import refusal

pytest.importorskip("skrl", reason="trainer: skrl is optional: make setup TRAINERS=all")


class TestSkrl(AlikeTests):
    trainer = "skrl"
    px = 36
    """Its network for the camera task needs 36 pixels: three layers without padding."""
    observation_bytes = 6 * 36 * 36 * 4 + 4 * 4  # frames, and the state


def test_a_batch_and_a_task_that_do_not_fit_are_refused(tmp_path):
    text = refusal(tmp_path / "batch", "skrl", num_envs=5, horizon=5, batch_size=None)
    assert "32 mini-batches do not divide num_envs 5 x horizon 5" in text
    assert "skrl_cfg_entry_point" in refusal(tmp_path / "task", "skrl", task_id="Isaac-Cartpole-Camera")
