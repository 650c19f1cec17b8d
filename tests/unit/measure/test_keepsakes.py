"""What a trial leaves to look at: the right picture, of the right trials, and nothing that could take a result back."""

import numpy
import pytest
import torch
from envknee.measure.keepsakes import contact_sheet, contact_sheets, leave
from envknee.study.paths import TrialFolder
from records import a_trial

PX = 100


def a_rollout(horizon=8, num_envs=5, frames=2, px=PX):
    """Red grows with the environment, green with the step, blue with the frame."""
    rollout = torch.zeros(horizon, num_envs, frames, 3, px, px)
    rollout[:, :, :, 0] += torch.arange(num_envs)[None, :, None, None, None] / (num_envs - 1)
    rollout[:, :, :, 1] += torch.arange(horizon)[:, None, None, None, None] / (horizon - 1)
    rollout[:, :, :, 2] += torch.arange(frames)[None, None, :, None, None] / (frames - 1)
    return rollout.flatten(2, 3) - 0.4  # as Isaac Lab does, which takes the mean off


def test_a_sheet_has_a_row_per_environment_a_column_per_step_and_frames_side_by_side():
    sheet = numpy.asarray(contact_sheet(a_rollout())).astype(int)
    assert sheet.shape == (3 * PX, 4 * 2 * PX, 3)
    for row, env in enumerate((0, 2, 4)):
        for column, step in enumerate((0, 2, 5, 7)):
            for frame in (0, 1):
                y, x = row * PX + PX // 2, (2 * column + frame) * PX + PX // 2
                expected = [255 * env / 4, 255 * step / 7, 255 * frame]
                assert sheet[y, x] == pytest.approx(expected, abs=2), (env, step, frame)


@pytest.mark.parametrize(("px", "shown"), [(24, 24), (100, 100), (300, 100)])
def test_large_frames_are_thinned_out(px, shown):
    assert contact_sheet(torch.rand(1, 1, 1, px, px)).size == (shown, shown)


def test_a_rollout_of_one_value_is_black():
    assert numpy.asarray(contact_sheet(torch.ones(1, 1, 3, PX, PX))).max() == 0


def test_each_camera_has_a_sheet_one_below_the_other():
    side, jaw = a_rollout(), a_rollout(num_envs=2, px=50)
    both = numpy.asarray(contact_sheets({"policy": side, "jaw": jaw}))
    upper, lower = (numpy.asarray(contact_sheet(rollout)) for rollout in (side, jaw))
    assert (both[: len(upper)] == upper).all()
    assert (both[len(upper) :, : lower.shape[1]] == lower).all()


@pytest.mark.parametrize(
    ("kind", "repeat", "status", "left"),
    [
        ("throughput", 0, "ok", {"frames.png"}),
        ("throughput", 1, "ok", set()),
        ("throughput", 0, "oom", set()),
        ("learning", 0, "target_reached", {"frames.png", "policy.pt"}),
        ("learning", 3, "timeout", {"policy.pt"}),
        ("learning", 0, "diverged", set()),
    ],
)
def test_which_trials_leave_what(tmp_path, kind, repeat, status, left):
    request = a_trial(4, kind=kind).request.model_copy(update={"repeat": repeat})
    leave(TrialFolder(tmp_path), request, status, {"policy": a_rollout()}, lambda path: path.touch())
    assert {path.name for path in tmp_path.iterdir()} == left


def test_a_task_without_a_camera_leaves_no_picture(tmp_path):
    leave(TrialFolder(tmp_path), a_trial(4).request, "ok", {"policy": torch.zeros(8, 4, 12)}, None)
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_exported_is_told_and_takes_nothing_back(tmp_path, capsys):
    def export(path):
        path.write_bytes(b"half of it")
        raise NotImplementedError("no such layer in TorchScript")

    request = a_trial(4, kind="learning").request
    leave(TrialFolder(tmp_path), request, "target_reached", {"policy": a_rollout()}, export)
    assert {path.name for path in tmp_path.iterdir()} == {"frames.png"}
    said = "policy.pt (the policy) was not written: NotImplementedError: no such layer in TorchScript\n"
    assert capsys.readouterr().err == said
