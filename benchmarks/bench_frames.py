"""What camera frames cost on their way to the network: Isaac Lab 3.0, plain torch, and `leanframes`. Anyone can run it.

    python benchmarks/bench_frames.py                                 on the GPU, or on the CPU with small shapes
    python benchmarks/bench_frames.py --shape 4096x96x2 --rounds 20   num_envs x pixels x frames, as often as wanted

All variants take turns, round by round, on the same random frames, and do the same work: a step takes one new frame of each
environment and gives the stack; to act, a stack of uint8 is normalized; a mini-batch takes a sixteenth of a rollout at random
places, and gives it normalized or as it is; sums are those of a frame's channels, which a rollout keeps.
Milliseconds are medians. The floor is each byte that must move, once, at the speed of a copy on this device in the same run.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "workflow")]

import torch
import warp

warp.init()

from envknee.tasks.frames import PerFrameStack
from isaaclab.utils.images import CameraFrameStack, normalize_rgb
from leanframes import LeanFrameStack, gather_normalized, normalized, operations
from rich.console import Console
from rich.table import Table

CHANNELS = 3
HORIZON = 8
"""Steps of the rollout that mini-batches are taken from: enough that no cache holds it."""

MINI_BATCHES = 16

CALLS = 8
"""In a row on a GPU, so that it need not wait for Python to launch what takes less than a millisecond."""


@dataclass(frozen=True)
class Variant:
    """One way to do some work, and the bytes that it must move."""

    work: str
    name: str
    run: Callable[[], object]
    bytes: float


def variants_of(num_envs: int, pixels: int, frames: int, device: str) -> list[Variant]:
    """Return what is to be timed at one shape."""
    # Several frames in turn, so that no cache holds what is read; views of RGBA like a camera's, which end with the last blue.
    shape, strides = (num_envs, pixels, pixels, CHANNELS), (pixels**2 * 4, pixels * 4, 4, 1)
    seen = [torch.randint(0, 256, (num_envs * strides[0] - 1,), dtype=torch.uint8, device=device) for _ in range(3)]
    images = [rgba.as_strided(shape, strides) for rgba in seen]
    turn = iter(range(10**9))

    def newest() -> torch.Tensor:
        return images[next(turn) % len(images)]

    isaac = CameraFrameStack(num_envs, device, frames, channel_first=True)
    plain = PerFrameStack(num_envs, frames, 1)
    lean = LeanFrameStack(num_envs, frames, device)
    stack = lean(newest())
    frame_bytes = num_envs * pixels * pixels * CHANNELS
    stack_bytes = frame_bytes * frames  # a step reads as many: the new frame and older ones

    kept = (HORIZON + frames - 1, num_envs, CHANNELS, pixels, pixels)
    rollout = torch.randint(0, 256, kept, dtype=torch.uint8, device=device)
    sums = torch.empty(rollout.shape[:3], dtype=torch.int64, device=device)
    operations.plane_sums(rollout.flatten(0, 2).flatten(1), sums.view(-1))
    history = torch.full((HORIZON, num_envs), frames, dtype=torch.uint8, device=device)
    stacks = torch.rand(HORIZON * num_envs, frames * CHANNELS, pixels, pixels, device=device)
    size = HORIZON * num_envs // MINI_BATCHES
    orders = [torch.randperm(HORIZON * num_envs, device=device)[:size] for _ in range(5)]
    batch_values = size * frames * CHANNELS * pixels * pixels

    frame = rollout[0].flatten(0, 1).flatten(1)

    def places() -> torch.Tensor:
        return orders[next(turn) % len(orders)]

    def gather(dtype: torch.dtype) -> torch.Tensor:
        return gather_normalized(rollout, sums, history, places(), frames, dtype)

    return [
        Variant("step, float32", "Isaac Lab 3.0", lambda: isaac(newest(), normalize_rgb), 5 * stack_bytes),
        Variant("step, float32", "torch, per frame", lambda: plain(newest(), normalize_rgb), 5 * stack_bytes),
        Variant("step, float32", "lean", lambda: normalized(lean(newest())), 5 * stack_bytes),
        Variant("step, uint8", "lean", lambda: lean(newest()), 2 * stack_bytes),
        Variant("act, float32", "lean", lambda: normalized(stack), 5 * stack_bytes),
        Variant("mini-batch, float32", "torch, of float32", lambda: stacks[places()], 8.0 * batch_values),
        Variant("mini-batch, float32", "lean", lambda: gather(torch.float32), 5.0 * batch_values),
        Variant("mini-batch, bfloat16", "lean", lambda: gather(torch.bfloat16), 3.0 * batch_values),
        Variant("frame's sums", "lean", lambda: operations.plane_sums(frame, sums[0].view(-1)), frame_bytes),
    ]  # fmt: skip


def seconds_of(run: Callable[[], object], device: str) -> float:
    """Return how long one call takes, on the device's own clock."""
    if device == "cpu":
        began = time.perf_counter()
        run()
        return time.perf_counter() - began
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for _ in range(CALLS):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000 / CALLS


def copy_speed(device: str) -> float:
    """Return bytes per second of a copy on the device, read and written."""
    source = torch.randint(0, 256, (256 * 2**20 if device != "cpu" else 64 * 2**20,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = [seconds_of(lambda: target.copy_(source), device) for _ in range(12)]
    return 2 * source.nbytes / statistics.median(times[2:])


def main() -> None:
    """Print a table per shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shape", action="append", help="num_envs x pixels x frames, such as 4096x96x2; again for more"
    )
    parser.add_argument("--rounds", type=int, default=11, help="how often each variant runs (default: %(default)s)")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    device: str = arguments.device
    usual = ["64x64x2", "256x48x2"] if device == "cpu" else ["1024x96x2", "4096x96x2", "4096x96x4", "1024x256x2"]
    speed = copy_speed(device)
    name = "CPU" if device == "cpu" else torch.cuda.get_device_name(device)
    console = Console()
    console.print(f"{name}, torch {torch.__version__}, Warp {warp.__version__}; a copy moves {speed / 1e9:,.0f} GB/s")
    for shape in arguments.shape or usual:
        num_envs, pixels, frames = map(int, shape.split("x"))
        variants = variants_of(num_envs, pixels, frames, device)
        times: list[list[float]] = [[] for _ in variants]
        for _ in range(arguments.rounds + 2):  # two to warm up
            for variant, times_s in zip(variants, times, strict=True):
                times_s.append(seconds_of(variant.run, device))
        table = Table(title=f"{num_envs:,} environments, {pixels} x {pixels} pixels, {frames} frames")
        for column in ("work", "by", "ms", "x floor", "floor ms"):
            table.add_column(column, justify="right" if column not in ("work", "by") else "left")
        for variant, times_s in zip(variants, times, strict=True):
            median, floor = statistics.median(times_s[2:]), variant.bytes / speed
            figures = (f"{1e3 * median:.3f}", f"{median / floor:.1f}", f"{1e3 * floor:.3f}")
            table.add_row(variant.work, variant.name, *figures)
        console.print(table)
        del variants


if __name__ == "__main__":
    main()
