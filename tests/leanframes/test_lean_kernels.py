"""The kernels of lean frames, without Isaac Lab: they give what PyTorch gives, and what does not fit is named."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from leanframes import LeanFrameStack, gather, gather_normalized, normalized, operations
from leanframes.first_layer import SHARED_BYTES, Shape, why_not

DEVICES = ["cpu", *(["cuda:0"] if torch.cuda.is_available() else [])]
FRAME = torch.zeros(4, 6, 5, 3, dtype=torch.uint8)
STACKED = torch.zeros(4, 6, 8, 8, dtype=torch.uint8)
ROLLOUT: dict[str, Any] = {
    "frames": torch.zeros(5, 4, 3, 6, 5, dtype=torch.uint8),
    "sums": torch.zeros(5, 4, 3, dtype=torch.int64),
    "history": torch.zeros(4, 4, dtype=torch.uint8),
    "places": torch.zeros(2, dtype=torch.int64),
    "stacked": 2,
}


SIDE, SEED, DEVICE = st.integers(1, 20), st.integers(0, 2**31), st.sampled_from(DEVICES)


def bytes_like(shape: Sequence[int], random: torch.Generator, device: str = "cpu", end: int = 256) -> torch.Tensor:
    return torch.randint(0, end, shape, dtype=torch.uint8, generator=random).to(device)


def sums_of(frames: torch.Tensor) -> torch.Tensor:
    """Return the sums of planes [..., h, w] by Warp, or by PyTorch where that is meant for them."""
    sums = torch.empty(frames.shape[:3], dtype=torch.int64, device=frames.device)
    operations.plane_sums(frames.flatten(0, 2).flatten(1), sums.view(-1))
    return sums


def a_rollout(frames: int, channels: int, height: int, width: int, seed: int, device: str = "cpu") -> dict[str, Any]:
    """Return a rollout of three environments and five steps, as `gather_normalized` takes it."""
    random = torch.Generator().manual_seed(seed)
    images = bytes_like((5 + frames - 1, 3, channels, height, width), random, device)
    history, places = bytes_like((5, 3), random, device, end=frames), torch.randperm(15, generator=random).to(device)
    return {"frames": images, "sums": sums_of(images), "history": history, "places": places, "stacked": frames}


def astray(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that does not begin where a word does, which is for PyTorch."""
    room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)
    return room[1:].view(tensor.shape).copy_(tensor)


def as_a_camera_gives(images: torch.Tensor, channels: int) -> torch.Tensor:
    """Return the first channels of images, as a view that ends with the last of them: Isaac Lab's RGB of RGBA."""
    unseen = images.shape[-1] - channels
    room = torch.empty(images.numel() - unseen, dtype=images.dtype, device=images.device)
    view = room.as_strided((*images.shape[:-1], channels), images.stride())
    return view.copy_(images[..., :channels])


@settings(deadline=None, max_examples=40)
@given(
    frames=st.integers(1, 8), envs=st.integers(1, 5), height=SIDE, width=SIDE, channels=st.integers(1, 4),
    pixel=st.integers(1, 4), dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]), seed=SEED, device=DEVICE,
)  # fmt: skip
def test_words_give_what_pixels_give_to_the_bit(
    frames: int, envs: int, height: int, width: int, channels: int, pixel: int, dtype: torch.dtype, seed: int, device: str
) -> None:  # fmt: skip
    random = torch.Generator().manual_seed(seed)
    channels = min(channels, pixel)  # RGB as a view of RGBA, for one
    words, plain, both = (LeanFrameStack(envs, frames, device) for _ in range(3))
    for step in range(2 * frames + 3):
        images = as_a_camera_gives(bytes_like((envs, height, width, pixel), random, device), channels)
        expected = plain(astray(images))
        stacked = words(images)
        assert torch.equal(stacked, expected)
        values = normalized(astray(expected), dtype)
        assert torch.equal(normalized(stacked, dtype), values)
        strays = torch.rand((), generator=random) < 0.2  # now and then
        assert torch.equal(both(astray(images) if strays else images), expected)
        if step != frames:
            gone = torch.rand(envs, generator=random) < 0.3
            both.reset(gone.to(device))  # Warp's frontend gives a mask
            for stack in (words, plain):
                stack.reset(torch.nonzero(gone).flatten().to(device))
            for stack in (words, plain, both) if step % 2 else ():
                stack.reset([0])


@settings(deadline=None, max_examples=25)
@given(rollout=st.builds(a_rollout, st.integers(1, 8), st.integers(1, 5), SIDE, SIDE, SEED, DEVICE))
def test_so_does_a_rollout(rollout: dict[str, Any]) -> None:
    plain: dict[str, Any] = rollout | {"frames": astray(rollout["frames"])}
    sums = rollout["frames"].sum((3, 4))
    assert torch.equal(rollout["sums"], sums) and torch.equal(sums_of(plain["frames"]), sums)
    stacks = gather(rollout["frames"], rollout["history"], rollout["places"], rollout["stacked"])
    assert stacks.dtype == torch.uint8 and torch.equal(normalized(stacks), gather_normalized(**rollout))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert torch.equal(gather_normalized(**rollout, dtype=dtype), gather_normalized(**plain, dtype=dtype))


@settings(deadline=None, max_examples=25)
@given(
    frames=st.integers(1, 4), envs=st.integers(1, 5), channels=st.integers(1, 4), height=SIDE, width=SIDE, seed=SEED,
    device=DEVICE,
)  # fmt: skip
def test_the_newest_frame_is_kept_with_its_sums(
    frames: int, envs: int, channels: int, height: int, width: int, seed: int, device: str
) -> None:
    stacked = bytes_like((envs, frames * channels, height, width), torch.Generator().manual_seed(seed), device)
    expected = stacked[:, -channels:]
    for stacks in (stacked, astray(stacked)):
        newest = torch.full((envs, channels, height, width), 7, dtype=torch.uint8, device=device)
        sums = torch.full((envs, channels), -1, device=device)
        operations.copy_newest(stacks, newest, sums)
        assert torch.equal(newest, expected) and torch.equal(sums, expected.sum((2, 3)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("height", "width"), [(16, 16), (96, 96), (1024, 1024), (1025, 1024)])
def test_every_byte_is_divided_as_ieee_754_says(height: int, width: int, device: str) -> None:
    """Also where a plane is as long as STRETCH, and longer."""
    pixels = torch.arange(height * width).view(1, height, width, 1) % 256
    images = torch.cat([pixels, pixels.flip(1), torch.full_like(pixels, 255), pixels], -1).byte()[..., :3].to(device)
    # On a CPU, since PyTorch multiplies by 1 / 255 on a GPU.
    channels = images.cpu().movedim(-1, 1)
    means = channels.sum((2, 3), keepdim=True).float() / torch.tensor(height * width * 255.0)
    expected = (channels.float() / 255.0 - means).repeat(1, 2, 1, 1).to(device)
    stack = LeanFrameStack(1, 2, device)
    assert torch.equal(normalized(stack(images)), expected)
    assert torch.equal(normalized(stack(images)), expected)


def stack_after(first: torch.Tensor, then: torch.Tensor) -> torch.Tensor:
    stack = LeanFrameStack(4, 2, "cpu")
    stack(first)
    return stack(then)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: normalized(STACKED.float()), TypeError, r"images of shape \(4, 6, 8, 8\) has dtype float32, expected uint8"),
        (lambda: normalized(STACKED, torch.int32), TypeError, "dtype is int32, expected float32, bfloat16 or float16"),
        (lambda: normalized(STACKED[0]), ValueError, r"images has shape \(6, 8, 8\), expected \(any, any, any, any\)"),
        (lambda: normalized(STACKED[:0]), ValueError, r"images has shape \(0, 6, 8, 8\).*none of them 0"),
        (lambda: normalized(STACKED.movedim(1, -1)), ValueError, r"images of shape \(4, 8, 8, 6\) is not contiguous"),
        (lambda: stack_after(FRAME, FRAME.float()), TypeError, r"images of shape \(4, 6, 5, 3\) has dtype float32"),
        (lambda: stack_after(FRAME.short(), FRAME), TypeError, "has dtype int16, expected uint8 or float32"),
        (lambda: stack_after(FRAME[..., 0], FRAME), ValueError, r"images has shape \(4, 6, 5\), expected \(4, any, any, any\)"),
        (lambda: stack_after(FRAME[:3], FRAME), ValueError, r"images has shape \(3, 6, 5, 3\), expected \(4, any, any, any\)"),
        (lambda: stack_after(FRAME, FRAME[..., :1]), ValueError, r"images has shape \(4, 6, 5, 1\), expected \(4, 6, 5, 3\)"),
        (lambda: stack_after(FRAME, FRAME.to("meta")), ValueError, r"images of shape \(4, 6, 5, 3\) is on meta, expected cpu"),
        (lambda: LeanFrameStack(0, 2, "cpu"), ValueError, "num_envs 0 and frames 2 must be 1 or more"),
        (lambda: LeanFrameStack(4, 2, "cpu").reset([1, 4]), IndexError, r"env_ids of shape \(2,\) holds 4, expected 0 to 3"),
        (lambda: LeanFrameStack(4, 2, "cpu").reset(torch.tensor([-1])), IndexError, r"env_ids of shape \(1,\) holds -1"),
        (lambda: LeanFrameStack(4, 2, "cpu").reset(torch.ones(5) > 0), ValueError, r"env_ids has shape \(5,\), expected \(4\)"),
        (lambda: LeanFrameStack(4, 2, "cpu").reset(torch.tensor([0.5])), TypeError, "env_ids of shape .1,. has dtype float32"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named_with_its_shape(
    call: Callable[[], object], error: type[Exception], message: str, compiled: bool
) -> None:
    torch._dynamo.reset()
    with pytest.raises(error, match=message):
        (torch.compile(call, backend="eager") if compiled else call)()


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"frames": ROLLOUT["frames"].float()}, TypeError, r"frames of shape \(5, 4, 3, 6, 5\) has dtype float32"),
        ({"frames": ROLLOUT["frames"][0]}, ValueError, r"frames has shape \(4, 3, 6, 5\), expected \(any, any, any, any, any\)"),
        ({"frames": ROLLOUT["frames"][:, :0]}, ValueError, r"frames has shape \(5, 0, 3, 6, 5\).*none of them 0"),
        ({"frames": ROLLOUT["frames"].mT}, ValueError, r"frames of shape \(5, 4, 3, 5, 6\) is not contiguous"),
        ({"sums": ROLLOUT["sums"].int()}, TypeError, r"sums of shape \(5, 4, 3\) has dtype int32, expected int64"),
        ({"sums": ROLLOUT["sums"].expand(5, 4, 3)[:, :, :2]}, ValueError, r"sums has shape \(5, 4, 2\), expected \(5, 4, 3\)"),
        ({"sums": torch.zeros(3, 4, 5, dtype=torch.int64).mT.movedim(0, 2)}, ValueError, "sums has shape|sums of shape"),
        ({"history": ROLLOUT["history"].to("meta")}, ValueError, r"history of shape \(4, 4\) is on meta, expected cpu"),
        ({"places": ROLLOUT["places"].int()}, TypeError, r"places of shape \(2,\) has dtype int32, expected int64"),
        ({"places": ROLLOUT["places"] + 16}, IndexError, r"places of shape \(2,\) holds 16, expected 0 to 15"),
        ({"places": ROLLOUT["places"][:0]}, ValueError, r"places has shape \(0,\)"),
        ({"stacked": 6}, ValueError, r"stacked is 6, expected 1 to 5, the steps that frames of shape \(5, 4, 3, 6, 5\) hold"),
        ({"stacked": 3}, ValueError, r"history has shape \(4, 4\), expected \(3, 4\)"),
        ({"dtype": torch.int64}, TypeError, "dtype is int64, expected float32, bfloat16 or float16"),
    ],
)  # fmt: skip
def test_so_is_what_does_not_fit_a_rollout(
    change: dict[str, Any], error: type[Exception], message: str, compiled: bool
) -> None:
    torch._dynamo.reset()
    function = torch.compile(gather_normalized, backend="eager") if compiled else gather_normalized
    with pytest.raises(error, match=message):
        function(**ROLLOUT | change)


def test_compiled_code_gives_the_same():
    rollout = a_rollout(2, 3, 8, 8, seed=0)
    stack, plain = LeanFrameStack(3, 2, "cpu"), LeanFrameStack(3, 2, "cpu")
    random = torch.Generator().manual_seed(0)
    network = torch.compile(lambda x: 2.0 * normalized(x), backend="eager", fullgraph=True)
    learner = torch.compile(lambda **words: gather_normalized(**words).relu(), backend="aot_eager", fullgraph=True)
    compiled = torch.compile(stack, backend="eager")
    for _ in range(3):
        frame = bytes_like((3, 6, 6, 4), random)[..., :3]
        stacked = compiled(frame)
        assert torch.equal(stacked, plain(frame))
        assert torch.equal(network(stacked), 2.0 * normalized(stacked))
    assert torch.equal(learner(**rollout), gather_normalized(**rollout).relu())


CARTPOLE = Shape(planes=6, height=96, width=96, outputs=8, kernel_height=5, kernel_width=5)
HOPPER = (9, 0)


def test_the_cart_poles_layer_fits_a_hopper():
    assert why_not(CARTPOLE, 2, HOPPER) is None
    assert (CARTPOLE.rows, CARTPOLE.columns, CARTPOLE.taps, CARTPOLE.tiles, CARTPOLE.depth) == (46, 46, (3, 3), 3, 80)
    # 14 folded rows of 6 planes as bytes, and of 49 x 24 numbers: four such blocks share a multiprocessor, or three with gradients.
    forward, weights = CARTPOLE.shared_bytes
    assert forward >= 6 * 2 * 14 * 96 + 14 * 49 * 24 * 2 and weights == forward + 2 * 12 * 46 * 8 * 2
    assert CARTPOLE.blocks == (4, 3) and 4 * forward < SHARED_BYTES and 3 * weights < SHARED_BYTES


@pytest.mark.parametrize(
    ("change", "stride", "capability", "reason"),
    [
        ({}, 2, (8, 9), "compute capability 8.9"),
        ({}, 4, HOPPER, "stride 4"),
        ({"planes": 3}, 2, HOPPER, "planes must be even"),
        ({"outputs": 12}, 2, HOPPER, "a multiple of 8"),
        ({"width": 84}, 2, HOPPER, "the width of 16"),
        ({"height": 95}, 2, HOPPER, "the height even"),
        ({"width": 320}, 2, HOPPER, "more than 128 output columns"),
        ({"height": 4}, 2, HOPPER, "or none"),
        ({"planes": 64}, 2, HOPPER, "KB of shared memory"),
    ],
)
def test_what_the_kernels_do_not_take_has_a_reason(change, stride, capability, reason):
    assert reason in (why_not(CARTPOLE._replace(**change), stride, capability) or "")
