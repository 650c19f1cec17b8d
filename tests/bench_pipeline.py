"""What the simulating side of `strategy: async2` waits for while the other side learns. Anyone with a GPU can run it.

    python tests/bench_pipeline.py                                          steps come from another GPU, or from the host
    python tests/bench_pipeline.py --num-envs 64 --horizon 8 --pixels 36    small enough for a CPU

One thread learns from a rollout of random frames, update by update, with the networks of Isaac Lab's camera cart-pole. Another
stores steps on the same device, with a pause between two in which it calls small operations, as a simulation does. Told is how
long a step waits to be stored (until the device that it came from could go on), and what an update takes, which must not suffer.

Variants take turns, round by round; figures are medians. What is varied: who stores (TorchRL's `LazyTensorStorage`, or
`StraightStorage`), on which stream, and how far the learner's thread may be ahead of its device (without end, or a mini-batch).
"""

import argparse
import itertools
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "workflow")]

import torch  # noqa: E402
from envknee.trainers.torchrl_learner import Learner  # noqa: E402
from envknee.trainers.torchrl_networks import LikeRslRlCfg, make_networks  # noqa: E402
from envknee.trainers.torchrl_rollouts import StraightStorage, make_room  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402
from tensordict import TensorDict  # noqa: E402
from torchrl.data import Composite, LazyTensorStorage, ReplayBuffer, Unbounded  # noqa: E402

STORAGES: dict[str, type[LazyTensorStorage]] = {"upstream": LazyTensorStorage, "straight": StraightStorage}
PRIORITIES = {"same priority": 0, "higher priority": -1}
PACES = {"ahead": False, "paced": True}


@dataclass
class Found:
    """What one variant took, over all rounds."""

    store_ms: list[float] = field(default_factory=list)
    update_s: list[float] = field(default_factory=list)


class Pace:
    """Keeps the learner's thread at most a mini-batch ahead of its device; a hook of its optimizer."""

    def __init__(self) -> None:
        """Begin without any mini-batch."""
        self.is_on = False
        self._before: torch.cuda.Event | None = None

    def __call__(self, *_: Any) -> None:
        """Wait for the mini-batch before the one that was just asked for."""
        if not self.is_on or not torch.cuda.is_available():
            return
        # A thread that waits gives Python's lock and the driver's away; one that fills the device's queue may hold the latter.
        asked = torch.cuda.Event(blocking=True)
        asked.record()
        if self._before is not None:
            self._before.synchronize()
        self._before = asked


class Bench:
    """A learner with its rollout, and a step to be stored beside it."""

    def __init__(self, num_envs: int, horizon: int, pixels: int, mini_batches: int, learner: torch.device) -> None:
        """Fill a rollout with random frames and what the networks say of them."""
        self.device, self.horizon = learner, horizon
        others = torch.cuda.device_count() - 1 if learner.type == "cuda" else 0
        self.source = torch.device("cuda:1" if others > 0 and learner.index == 0 else "cuda:0" if others > 0 else "cpu")
        shapes = {"policy": (6, pixels, pixels), "critic": (4,)}
        observed = Composite(
            {name: Unbounded(torch.Size((num_envs, *shape))) for name, shape in shapes.items()}, shape=(num_envs,)
        )
        specs: Any = SimpleNamespace(
            observation_spec=observed,
            action_spec=Unbounded(torch.Size((num_envs, 1))),
            batch_size=(num_envs,),
            device=learner,
        )
        cfg = LikeRslRlCfg(
            num_learning_epochs=4, num_mini_batches=mini_batches, activation="elu", value_loss_coef=2.0,
            learning_rate=3e-4, gamma=0.99, lam=0.95, clip_param=0.2, use_clipped_value_loss=True, desired_kl=None,
            entropy_coef=0.0, max_grad_norm=1.0, init_noise_std=1.0,
            actor_hidden_dims=[64], critic_hidden_dims=[32, 32], actor_groups=["policy"], critic_groups=["critic"],
            actor_cnn={"output_channels": [8, 16, 16], "kernel_size": [5, 3, 3], "stride": [2, 2, 2], "activation": "relu"},
        )  # fmt: skip
        torch.manual_seed(0)
        actor, critic = make_networks(specs, cfg)
        self.learner = Learner(actor, critic, cfg, seed=0)
        self.streams = {
            name: torch.cuda.Stream(learner, priority=level)
            for name, level in PRIORITIES.items()
            if learner.type == "cuda"
        }
        self.pace = Pace()
        self.learner.optimizer.register_step_post_hook(self.pace)
        steps = [self._a_step(actor, critic, shapes, num_envs) for _ in range(horizon)]
        self.rollout: Any = TensorDict.stack([make_room(step).update(step) for step in steps])
        self.step = steps[-1].to(self.source)
        if learner.type == "cuda" and self.source.type == "cpu":
            self.step = self.step.pin_memory()

    def _a_step(self, actor: Any, critic: Any, shapes: dict[str, tuple[int, ...]], num_envs: int) -> Any:
        step = TensorDict({name: torch.rand(num_envs, *shape) for name, shape in shapes.items()}, [num_envs])
        step = step.to(self.device)
        with torch.no_grad():
            critic(actor(step))
        ends = torch.rand(num_envs, 1, device=self.device) < 0.01
        after = {"reward": torch.rand(num_envs, 1, device=self.device), "done": ends, "terminated": ends}
        return step.update({"next": TensorDict(after, [num_envs])})

    def run(self, storage: str, priority: str, pace: str | None, updates: int, pause_s: float, found: Found) -> None:
        """Store steps while `updates` are made, or, where there is no pace, as many as a rollout has."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # what was made on another stream is of no use on this one
            torch.cuda.set_stream(self.streams[priority])
            torch.cuda.set_device(self.source if self.source.type == "cuda" else self.device)
        buffer = ReplayBuffer(storage=STORAGES[storage](self.horizon, device=self.device))
        for _ in range(self.horizon):
            buffer.add(self.step)
        buffer.empty()
        self.pace.is_on = pace is not None and PACES[pace]
        with ThreadPoolExecutor(1, "learner") as background:
            learned = background.submit(self._learn, updates if pace else 0, found)
            left = itertools.count() if pace else range(self.horizon)
            for _ in left:
                self._pretend(pause_s)
                began = time.perf_counter()
                buffer.add(self.step)
                self._wait()
                found.store_ms.append(1e3 * (time.perf_counter() - began))
                if pace and learned.done():
                    break
            learned.result()
        assert torch.equal(buffer.storage[0]["policy"].cpu(), self.step["policy"].cpu())

    def _learn(self, updates: int, found: Found) -> None:
        if self.device.type == "cuda":
            torch.cuda.set_device(self.device)
        for _ in range(updates):
            began = time.perf_counter()
            self.learner.update(self.rollout)
            found.update_s.append(time.perf_counter() - began)

    def _pretend(self, pause_s: float) -> None:
        """Call small operations where steps come from, for so long."""
        small, until = torch.zeros(64, device=self.source), time.perf_counter() + pause_s
        while time.perf_counter() < until:
            small = small + 1

    def _wait(self) -> None:
        """Until the next operation where steps come from could begin."""
        if self.source.type == "cuda":
            torch.cuda.current_stream(self.source).synchronize()
        elif self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()


def main() -> None:
    """Time all variants in turns, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in (("num-envs", 1024), ("horizon", 32), ("pixels", 96), ("mini-batches", 4), ("updates", 2)):
        parser.add_argument(f"--{name}", type=int, default=usual, help="(default: %(default)s)")
    parser.add_argument("--pause-ms", type=float, default=5.0, help="between two steps (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each variant runs (default: %(default)s)")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu", help="that learns")
    sizes = parser.parse_args()
    bench = Bench(sizes.num_envs, sizes.horizon, sizes.pixels, sizes.mini_batches, torch.device(sizes.device))
    on_gpu = bench.device.type == "cuda"
    busy: list[tuple[str, str, str | None]] = list(
        itertools.product(STORAGES, PRIORITIES if on_gpu else ["same priority"], PACES if on_gpu else ["ahead"])
    )
    idle: list[tuple[str, str, str | None]] = [(storage, "same priority", None) for storage in STORAGES]
    variants = [*idle, *busy]
    found = {variant: Found() for variant in variants}
    bench.learner.update(bench.rollout)  # what is made once
    for _ in range(sizes.rounds):
        for variant in variants:
            bench.run(*variant, sizes.updates, sizes.pause_ms / 1e3, found[variant])

    device = torch.cuda.get_device_name(bench.device) if on_gpu else "CPU"
    title = f"{device}, steps from {bench.source}: {sizes.num_envs} x {sizes.horizon}, {sizes.pixels} px, torch {torch.__version__}"
    table = Table("storage", "stream", "learner", "ms a step", "90% within", "s an update", title=title)
    for (storage, priority, pace), took in found.items():
        within = statistics.quantiles(took.store_ms, n=10)[-1]
        update = f"{statistics.median(took.update_s):.3f}" if took.update_s else ""
        table.add_row(
            storage, priority, pace or "idle", f"{statistics.median(took.store_ms):.2f}", f"{within:.2f}", update
        )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
