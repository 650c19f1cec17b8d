"""What an update of PPO costs on camera frames, stock and lean, step by step. Anyone can run it.

    python tests/bench_learner.py                                        on the GPU: 4,096 environments x 32 steps, 96 pixels
    python tests/bench_learner.py --num-envs 16 --horizon 4 --pixels 32  small enough for a CPU

Each variant has a whole rollout of random frames and the networks of Isaac Lab's camera cart-pole (actor: a CNN on two stacked
frames; critic: an MLP on states), and runs `update()`: 16 mini-batches in 4 epochs. One variant after the other, because stock's
rollout alone may fill the device; seconds are medians, memory is torch's peak.
"""

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "workflow")]

import torch  # noqa: E402
import warp  # noqa: E402

warp.init()

from envknee.trainers.lean import FrameStorage, LeanCNNModel, LeanPPO  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from rsl_rl.algorithms import PPO  # noqa: E402
from rsl_rl.models import CNNModel, MLPModel  # noqa: E402
from rsl_rl.storage import RolloutStorage  # noqa: E402
from tensordict import TensorDict  # noqa: E402

FRAMES, CHANNELS, STATES, MINI_BATCHES, EPOCHS = 2, 3, 4, 16, 4


def an_algorithm(num_envs: int, horizon: int, pixels: int, device: str, lean: bool, **options: Any) -> PPO:
    """Return PPO with a full rollout; `options` are PPO's own."""
    dtype = torch.uint8 if lean else torch.float32
    image = torch.zeros(num_envs, FRAMES * CHANNELS, pixels, pixels, dtype=dtype, device=device)
    state = torch.zeros(num_envs, STATES, device=device)
    obs = TensorDict({"policy": image, "critic": state}, batch_size=[num_envs], device=device)
    groups = {"actor": ["policy"], "critic": ["critic"]}
    torch.manual_seed(0)
    actor = (LeanCNNModel if lean else CNNModel)(
        obs, groups, "actor", 1, hidden_dims=[64], activation="elu",
        distribution_cfg={"class_name": "GaussianDistribution", "init_std": 1.0},
        cnn_cfg={"output_channels": [8, 16, 16], "kernel_size": [5, 3, 3], "stride": [2, 2, 2], "activation": "relu"},
    )  # fmt: skip
    critic = MLPModel(obs, groups, "critic", 1, hidden_dims=[32, 32], activation="elu")
    storage: Any = (
        FrameStorage(num_envs, horizon, obs, {"policy": FRAMES}, [1], device)
        if lean
        else RolloutStorage("rl", num_envs, horizon, obs, [1], device)
    )
    algorithm = (LeanPPO if lean else PPO)(
        actor, critic, storage, num_learning_epochs=EPOCHS, num_mini_batches=MINI_BATCHES, schedule="fixed",
        learning_rate=3e-4, device=device, **options,
    )  # fmt: skip
    fill(algorithm, obs, horizon)
    return algorithm


def fill(algorithm: PPO, obs: TensorDict, horizon: int) -> None:
    """Fill the rollout with random frames, actions and returns."""
    num_envs, image, seen = len(obs), obs["policy"], obs
    with torch.inference_mode():
        for _ in range(horizon):
            frames = (
                torch.randint_like(image, 0, 256) if image.dtype == torch.uint8 else torch.rand_like(image).sub_(0.5)
            )
            seen = TensorDict(
                {"policy": frames, "critic": torch.rand_like(obs["critic"])}, batch_size=[num_envs], device=image.device
            )
            algorithm.act(seen)
            dones = torch.rand(num_envs, device=image.device) < 0.01
            algorithm.process_env_step(seen, torch.rand(num_envs, device=image.device), dones, {})
        algorithm.compute_returns(seen)


def seconds_of(algorithm: PPO, device: str) -> float:
    """Return how long one update takes."""
    steps = algorithm.storage.num_transitions_per_env
    if device != "cpu":
        torch.cuda.synchronize()
    began = time.perf_counter()
    algorithm.update()
    if device != "cpu":
        torch.cuda.synchronize()
    elapsed = time.perf_counter() - began
    algorithm.storage.step = steps  # the same rollout again
    return elapsed


def main() -> None:
    """Print a table of variants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--horizon", type=int, default=32)
    parser.add_argument("--pixels", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3, help="how often each variant runs (default: %(default)s)")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    size = (arguments.num_envs, arguments.horizon, arguments.pixels, arguments.device)
    variants: dict[str, Callable[[], PPO]] = {
        "stock, float32": lambda: an_algorithm(*size, lean=False),
        "stock, bfloat16": lambda: an_algorithm(*size, lean=False, use_mixed_precision=True),
        "lean, float32": lambda: an_algorithm(*size, lean=True),
        "lean, bfloat16": lambda: an_algorithm(*size, lean=True, use_mixed_precision=True),
    }
    on_gpu = arguments.device != "cpu"
    table = Table(title=f"{size[0]:,} environments x {size[1]} steps, {size[2]} x {size[2]} pixels, {FRAMES} frames")
    for column in ("variant", "s / update", "x stock", "GB at its peak"):
        table.add_column(column, justify="left" if column == "variant" else "right")
    stock_s = None
    for name, make in variants.items():
        # One after the other: stock's rollout alone may fill the device.
        if on_gpu:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        algorithm = make()
        times = [seconds_of(algorithm, arguments.device) for _ in range(arguments.rounds + 1)][1:]
        median = statistics.median(times)
        stock_s = stock_s or median
        peak = f"{torch.cuda.max_memory_allocated() / 1e9:.2f}" if on_gpu else ""
        table.add_row(name, f"{median:.3f}", f"{median / stock_s:.2f}", peak)
        del algorithm
        gc.collect()
    name = torch.cuda.get_device_name() if on_gpu else "CPU"
    Console().print(f"{name}, torch {torch.__version__}, Warp {warp.__version__}", table)


if __name__ == "__main__":
    main()
