"""Frames that stay uint8, against Isaac Lab's own float32 path: the same numbers, an eighth of the rollout."""

import functools
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warp
from hypothesis import given, settings
from hypothesis import strategies as st
from isaaclab.renderers.output_contract import RenderBufferKind, RenderBufferSpec
from isaaclab.sensors.camera import CameraData
from isaaclab.utils.images import CameraFrameStack, normalize_camera_image, normalize_rgb
from leanframes import LeanFrameStack, normalized
from leanframes.errors import LeanError
from leanframes.isaaclab import use_lean_frames
from leanframes.launch import words_of_images
from leanframes.rsl_rl.storage import FrameStorage
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

warp.init()
RGB = functools.partial(normalize_camera_image, data_type="rgb")
DEVICES = ["cpu", *(["cuda:0"] if torch.cuda.is_available() else [])]


def random_frames(random: torch.Generator, num_envs: int, height: int, width: int) -> torch.Tensor:
    """Return RGB frames as a view of RGBA that ends before the last alpha, as Isaac Lab's cameras give them."""
    seen = torch.randint(0, 256, (num_envs * height * width * 4 - 1,), dtype=torch.uint8, generator=random)
    return seen.as_strided((num_envs, height, width, 3), (height * width * 4, width * 4, 4, 1))


SIZES = (st.integers(1, most) for most in (8, 5, 9, 40))


@settings(deadline=None, max_examples=25)
@given(*SIZES, st.integers(0, 2**31), st.sampled_from(DEVICES))
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


@pytest.mark.parametrize("device", DEVICES)
def test_a_cameras_images_are_read_word_by_word(device: str):
    """Its RGB is a view of RGBA that ends before the last alpha: pixel by pixel would take a GPU several times as long."""
    rgba = RenderBufferSpec(4, warp.uint8)
    kinds = {RenderBufferKind.RGBA: rgba, RenderBufferKind.RGB: RenderBufferSpec(3, warp.uint8)}
    output: Any = CameraData.allocate(["rgb"], 6, 8, 3, device, kinds).output
    images = output["rgb"].torch
    assert images.shape == (3, 6, 8, 3) and images.untyped_storage().nbytes() < 3 * 6 * 8 * 4
    assert words_of_images(images) is not None


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("data_type", ["albedo", "semantic_segmentation"])
def test_other_colours_too(data_type: str, device: str):
    """Albedo without its alpha, as Isaac Lab's tasks take it; the colours of segmentation with theirs."""
    random = torch.Generator().manual_seed(3)
    normalize = functools.partial(normalize_camera_image, data_type=data_type)
    stock, lean = CameraFrameStack(4, device, 3, channel_first=True), LeanFrameStack(4, 3, device)
    for _ in range(4):
        images = torch.randint(0, 256, (4, 5, 7, 4), dtype=torch.uint8, generator=random).to(device)
        images = images[..., :3] if data_type == "albedo" else images
        assert_rounded_alike(normalized(lean(images, normalize)), stock(images, normalize))


def assert_rounded_alike(lean: torch.Tensor, stock: torch.Tensor) -> None:
    """Compare to the bit on a CPU; a GPU may round the last bit of a mean otherwise than Isaac Lab's kernel."""
    if lean.device.type == "cpu":
        assert torch.equal(lean, stock)
    else:
        torch.testing.assert_close(lean, stock, rtol=0.0, atol=2.0**-23)


@pytest.mark.parametrize("data_type", ["depth", "normals"])
def test_floats_are_stacked_as_they_were_normalized(data_type: str):
    random = torch.Generator().manual_seed(3)
    depth = functools.partial(normalize_camera_image, data_type=data_type)
    stock, lean = CameraFrameStack(4, "cpu", 3, channel_first=True), LeanFrameStack(4, 3, "cpu")
    for step in range(7):
        images = torch.rand(4, 6, 5, 1 if data_type == "depth" else 3, generator=random)
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
    assert_rounded_alike(values, normalize_rgb(bright, channel_dim=1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("frames", "horizon"), [(1, 5), (2, 8), (4, 14), (8, 3), (4, 1)]
)  # also more than it has steps
@pytest.mark.parametrize("pixels", [(5, 7), (4, 6)])  # the second has planes of whole words, which are copied as such
def test_a_rollout_gives_back_the_stacks_that_went_in(frames: int, horizon: int, pixels: tuple[int, int], device: str):
    num_envs = 6
    random = torch.Generator().manual_seed(frames)
    stack = LeanFrameStack(num_envs, frames, device)
    stacked = stack(random_frames(random, num_envs, *pixels).to(device))
    obs = TensorDict({"policy": stacked, "state": torch.zeros(num_envs, 2, device=device)}, batch_size=[num_envs])
    storage = FrameStorage(num_envs, horizon, obs, {"policy": frames}, [1], device)
    frames_kept: Any = storage.frames["policy"]
    assert frames_kept.nbytes == (horizon + frames - 1) * num_envs * 3 * math.prod(pixels)
    for _ in range(2):  # the second rollout goes on where the first ended, in the middle of episodes
        seen = []
        for step in range(horizon):
            seen.append(normalized(stacked))
            done = (torch.rand(num_envs, generator=random) < 0.3).to(device)
            stack.reset(torch.nonzero(done).flatten())
            transition = RolloutStorage.Transition()
            state = torch.full((num_envs, 2), float(step), device=device)
            transition.observations = TensorDict({"policy": stacked, "state": state}, batch_size=[num_envs])
            transition.actions = transition.values = transition.rewards = torch.zeros(num_envs, 1, device=device)
            transition.actions_log_prob, transition.dones = torch.zeros(num_envs, device=device), done
            transition.distribution_params = (torch.zeros(num_envs, 1, device=device),)
            storage.add_transition(transition)
            stacked = stack(random_frames(random, num_envs, *pixels).to(device))
        places = torch.randperm(horizon * num_envs, generator=random).to(device)
        again = storage.stacks("policy", places)
        assert torch.equal(again, torch.stack(seen).flatten(0, 1)[places])
        planes = storage.planes("policy", places)
        assert torch.equal(normalized(frames_kept.flatten(0, 2)[planes]), again)
        half = storage.stacks("policy", places, torch.bfloat16)
        assert torch.equal(half, again.to(torch.bfloat16))
        assert storage.observations["state"][:, 0, 0].tolist() == list(range(horizon))
        storage.clear()


def test_what_a_rollout_cannot_keep_is_named():
    stacked = torch.zeros(4, 6, 6, 5, dtype=torch.uint8)
    obs = TensorDict({"policy": stacked}, [4])
    with pytest.raises(LeanError, match=r"observations/policy of shape \(4, 6, 6, 5\) is no stack of 4 frames"):
        FrameStorage(4, 3, obs, {"policy": 4}, [1], "cpu")
    storage = FrameStorage(4, 3, obs, {"policy": 2}, [1], "cpu")
    transition = RolloutStorage.Transition()
    transition.observations = TensorDict({"policy": stacked.float()}, [4])
    words = r"observations/policy of shape \(4, 6, 6, 5\) has dtype float32, expected uint8"
    with pytest.raises(TypeError, match=words):
        storage.add_transition(transition)
    with pytest.raises(ValueError, match=r"images of shape \(4, 6, 5, 3\) would be normalized with mean 0.5"):
        LeanFrameStack(4, 2, "cpu")(torch.zeros(4, 6, 5, 3).byte(), functools.partial(normalize_rgb, mean=0.5))


def test_a_term_that_changes_its_images_says_so():
    image = SimpleNamespace(_frames=CameraFrameStack(2, "cpu", 2, channel_first=True))
    term = SimpleNamespace(func=image, params={"mean": 0.5}, modifiers=None, noise=None, clip=None, scale=2.0)
    manager = SimpleNamespace(_group_obs_term_cfgs={"policy": [term]}, _group_obs_term_names={"policy": ["image"]})
    env: Any = SimpleNamespace(unwrapped=SimpleNamespace(num_envs=2, device="cpu", observation_manager=manager))
    with pytest.raises(LeanError, match=r"the observation policy/image sets scale, mean\. Take that out of it"):
        use_lean_frames(env)
