"""Frames that stay uint8, against Isaac Lab's own float32 path: the same numbers, an eighth of the rollout."""

import functools

import gymnasium
import pytest
import torch
import warp
from conftest import a_trial
from envknee import launch
from envknee.errors import UserError
from envknee.lean import LeanFrameStack, gather_normalized, normalized
from envknee.record import read_rows
from envknee.tasks.frames import use
from envknee.trainers.lean import FrameStorage
from hypothesis import given, settings
from hypothesis import strategies as st
from isaaclab.utils.images import CameraFrameStack, normalize_camera_image
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

warp.init()
RGB = functools.partial(normalize_camera_image, data_type="rgb")
DEVICES = ["cpu", *(["cuda:0"] if torch.cuda.is_available() else [])]


def random_frames(random: torch.Generator, num_envs: int, height: int, width: int) -> torch.Tensor:
    """Return RGB frames as a view of RGBA, as Isaac Lab's cameras give them."""
    return torch.randint(0, 256, (num_envs, height, width, 4), dtype=torch.uint8, generator=random)[..., :3]


@settings(deadline=None, max_examples=25)
@given(
    st.integers(1, 8),
    st.integers(1, 5),
    st.integers(1, 9),
    st.integers(1, 40),
    st.integers(0, 2**31),
    st.sampled_from(DEVICES),
)
def test_stacks_are_isaac_labs_to_the_bit(frames: int, num_envs: int, height: int, width: int, seed: int, device: str):
    random = torch.Generator().manual_seed(seed)
    stock = CameraFrameStack(num_envs, device, frames, channel_first=True)
    lean = LeanFrameStack(num_envs, frames, device)
    kept = []
    for step in range(2 * frames + 3):
        images = random_frames(random, num_envs, height, width).to(device)
        stacked = lean(images, RGB)
        assert stacked.dtype == torch.uint8
        assert torch.equal(normalized(stacked), stock(images, RGB))
        kept.append((stacked, stacked.clone()))
        if step != frames:  # once two frames in a row without a reset in between
            gone = torch.nonzero(torch.rand(num_envs, generator=random) < 0.4).flatten().to(device)
            stock.reset(gone)
            lean.reset(gone)
    assert all(torch.equal(now, then) for now, then in kept)  # what a trainer keeps is nobody else's


def test_depth_is_stacked_as_it_was_normalized():
    random = torch.Generator().manual_seed(3)
    depth = functools.partial(normalize_camera_image, data_type="depth")
    stock, lean = CameraFrameStack(4, "cpu", 3, channel_first=True), LeanFrameStack(4, 3, "cpu")
    for step in range(7):
        images = torch.rand(4, 6, 5, 1, generator=random)
        images[step % 4, 0, 0] = torch.inf
        stacked = lean(images, depth)
        assert stacked.dtype == torch.float32 and torch.equal(stacked, stock(images, depth))
        for stack in (stock, lean):
            stack.reset([step % 4])


@pytest.mark.parametrize("device", DEVICES)
def test_sums_of_large_bright_images_do_not_wrap_around(device: str):
    # As int32 the sum of one such plane, 4,278,190,080, would be negative: Isaac Lab's pull request #5849 at first.
    bright = torch.full((1, 1, 4096, 4096), 255, dtype=torch.uint8, device=device)
    bright[0, 0, 0, 0] = 0
    values = normalized(bright)
    assert values[0, 0, -1, -1].item() == pytest.approx(1 / 4096**2, abs=1e-7)
    assert values[0, 0, 0, 0].item() == pytest.approx(-1.0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("frames", [1, 2, 4])
def test_a_rollout_gives_back_the_stacks_that_went_in(frames: int, device: str):
    horizon, num_envs = 3 * frames + 2, 6
    random = torch.Generator().manual_seed(frames)
    stack = LeanFrameStack(num_envs, frames, device)
    stacked = stack(random_frames(random, num_envs, 5, 7).to(device))
    obs = TensorDict({"policy": stacked, "state": torch.zeros(num_envs, 2, device=device)}, batch_size=[num_envs])
    storage = FrameStorage(num_envs, horizon, obs, {"policy": frames}, [1], device)
    assert storage.frames["policy"].nbytes == (horizon + frames - 1) * num_envs * 3 * 5 * 7
    for _ in range(2):  # the second rollout goes on where the first ended, in the middle of episodes
        seen = []
        for step in range(horizon):
            seen.append(normalized(stacked))
            done = (torch.rand(num_envs, generator=random) < 0.3).to(device)
            stack.reset(torch.nonzero(done).flatten())
            transition = RolloutStorage.Transition()
            transition.observations = TensorDict(
                {"policy": stacked, "state": torch.full((num_envs, 2), float(step), device=device)},
                batch_size=[num_envs],
            )
            transition.actions = transition.values = transition.rewards = torch.zeros(num_envs, 1, device=device)
            transition.actions_log_prob, transition.dones = torch.zeros(num_envs, device=device), done
            transition.distribution_params = (torch.zeros(num_envs, 1, device=device),)
            storage.add_transition(transition)
            stacked = stack(random_frames(random, num_envs, 5, 7).to(device))
        places = torch.randperm(horizon * num_envs, generator=random).to(device)
        again = storage.stacks(places, torch.float32)["policy"]
        assert torch.equal(again, torch.stack(seen).flatten(0, 1)[places])
        half = storage.stacks(places, torch.bfloat16)["policy"]
        assert torch.equal(half, again.to(torch.bfloat16))
        assert storage.observations["state"][:, 0, 0].tolist() == list(range(horizon))
        storage.clear()


def test_compiled_code_normalizes_too():
    images = random_frames(torch.Generator().manual_seed(0), 2, 8, 8).movedim(-1, 1).contiguous()
    compiled = torch.compile(lambda x: 2.0 * normalized(x), backend="eager", fullgraph=True)
    assert torch.equal(compiled(images), 2.0 * normalized(images))
    with pytest.raises(TypeError, match="images has dtype float32, expected uint8"):
        torch.compile(normalized, backend="eager")(images.float())


def test_what_does_not_fit_is_named_with_its_shape():
    stack = LeanFrameStack(4, 2, "cpu")
    frame = torch.zeros(4, 6, 5, 3, dtype=torch.uint8)
    with pytest.raises(TypeError, match="images has dtype int16, expected uint8 or float32"):
        stack(frame.to(torch.int16))
    with pytest.raises(ValueError, match=r"images has shape \(4, 6, 5\), expected \(4, any, any, any\)"):
        stack(frame[..., 0])
    with pytest.raises(ValueError, match=r"images has shape \(3, 6, 5, 3\), expected \(4, any, any, any\)"):
        stack(frame[:3])
    stack(frame)
    with pytest.raises(ValueError, match=r"images has shape \(4, 6, 5, 1\), expected \(4, 6, 5, 3\)"):
        stack(frame[..., :1])
    with pytest.raises(TypeError, match="images has dtype float32, expected uint8"):
        stack(frame.float())
    with pytest.raises(IndexError):
        stack.reset([4])
    with pytest.raises(ValueError, match="num_envs 0 and frames 2 must be 1 or more"):
        LeanFrameStack(0, 2, "cpu")
    with pytest.raises(ValueError, match="not contiguous"):
        normalized(frame.movedim(-1, 1))
    with pytest.raises(ValueError, match=r"images has shape \(0, 3, 6, 5\).*none of them 0"):
        normalized(torch.zeros(0, 3, 6, 5, dtype=torch.uint8))
    frames, sums = torch.zeros(5, 4, 3, 6, 5, dtype=torch.uint8), torch.zeros(5, 4, 3, dtype=torch.int64)
    history, places = torch.zeros(4, 4, dtype=torch.uint8), torch.zeros(2, dtype=torch.int64)
    assert gather_normalized(frames, sums, history, places, 2).shape == (2, 6, 6, 5)
    with pytest.raises(
        ValueError, match=r"stacked is 6, expected 1 to 5, the steps that frames of shape \(5, 4, 3, 6, 5\) hold"
    ):
        gather_normalized(frames, sums, history, places, 6)
    with pytest.raises(ValueError, match=r"history has shape \(4, 4\), expected \(3, 4\)"):
        gather_normalized(frames, sums, history, places, 3)
    with pytest.raises(UserError, match=r"observations/policy of shape \(4, 6, 6, 5\) is no stack of 4 frames"):
        FrameStorage(
            4, 3, TensorDict({"policy": torch.zeros(4, 6, 6, 5, dtype=torch.uint8)}, [4]), {"policy": 4}, [1], "cpu"
        )


def test_it_learns_what_stock_learns_to_the_bit_on_a_cpu(tmp_path):
    # Episodes of half a second end within the rollout, so that histories are filled anew in the middle of it.
    size = {f"env.scene.tiled_camera.{side}": 32 for side in ("width", "height")} | {"env.episode_length_s": 0.5}
    point = {"num_envs": 6, "horizon": 40, "batch_size": 60, "iterations": 2, "warmup_iterations": 0, "overrides": size}
    trials = {name: a_trial(tmp_path / name, observations=name, **point) for name in ("stock", "lean")}
    stock, lean = (launch.launch(trial) for trial in trials.values())
    assert (stock.outcome.status, lean.outcome.status) == ("ok", "ok")
    rows = [[(row.losses, row.episodes, row.reward_mean) for row in read_rows(trial)] for trial in trials.values()]
    assert rows[0] == rows[1] and rows[0][0][1]
    # 41 frames of one byte where stock keeps 40 stacks of two frames in four; the critic's four states are beside them.
    states_gb = 40 * 6 * 4 * 4 / 1e9
    assert stock.rollout_gb is not None and lean.rollout_gb is not None
    assert (lean.rollout_gb - states_gb) / (stock.rollout_gb - states_gb) == pytest.approx(40 / 320, rel=0.01)


def test_an_environment_without_frames_says_so():
    with pytest.raises(UserError, match="observations: lean is for tasks that stack camera frames"):
        use("lean", gymnasium.make("CartPole-v1"))
