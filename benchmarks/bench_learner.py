"""What an update of PPO costs on camera frames: stock, lean, and lean with steps of its learner. Anyone can run it.

    python benchmarks/bench_learner.py                                        on the GPU: 4,096 environments x 32 steps, 96 pixels
    python benchmarks/bench_learner.py --num-envs 16 --horizon 4 --pixels 32  small enough for a CPU
    python benchmarks/bench_learner.py --only stock --only lean               some of the variants

All learn from one rollout of random frames with the networks of Isaac Lab's camera cart-pole (actor: a CNN on stacked frames;
critic: an MLP on states), from the same weights and in the same mini-batches: their first losses must agree. They take turns, round
by round; seconds are medians. A run that is broken off goes on where it was: OUTPUT/learner.json has every update that was timed,
and OUTPUT/learner.md the table.

Memory is a variant's own: its rollout, its networks, and the most that one of its updates adds (torch's allocator).
"""

import argparse
import gc
import json
import statistics
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "workflow")]

import torch
import warp

warp.init()

from envknee.study.files import write_atomically
from leanframes import LeanFrameStack
from leanframes.rsl_rl import FrameStorage, LeanCNNModel, LeanPPO, LearnerSteps
from rich.console import Console
from rich.table import Table
from rsl_rl.algorithms import PPO
from rsl_rl.models import CNNModel, MLPModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

CHANNELS, STATES = 3, 4
NONE = LearnerSteps(fused=False, fused_adam=False, fused_loss=False, cuda_graph=False, critic_beside=False)


@dataclass(frozen=True)
class Sizes:
    """What is learned, and how; updates of other sizes are not compared."""

    num_envs: int = 4096
    horizon: int = 32
    pixels: int = 96
    frames: int = 2
    mini_batches: int = 16
    epochs: int = 4
    schedule: str = "fixed"


def variants_of(device: str) -> dict[str, LearnerSteps | None]:
    """Return what is measured by name, the most telling first; None is stock."""
    variants: dict[str, LearnerSteps | None] = {"stock": None, "lean": NONE}
    variants["lean + fused_adam"] = replace(NONE, fused_adam=True)
    if device != "cpu":
        switches = ("fused", "fused_adam", "fused_loss", "cuda_graph", "critic_beside")
        for count in range(1, len(switches) + 1):
            taken = switches[:count]
            variants[" + ".join(taken)] = replace(NONE, **dict.fromkeys(taken, True))
    return variants


def an_algorithm(sizes: Sizes, device: str, steps: LearnerSteps | None, storage: Any) -> Any:
    """Return PPO with the weights that all variants begin with; no storage: a new one for its kind."""
    dtype = torch.float32 if steps is None else torch.uint8
    channels = sizes.frames * CHANNELS
    image = torch.zeros(sizes.num_envs, channels, sizes.pixels, sizes.pixels, dtype=dtype, device=device)
    obs = TensorDict(
        {"policy": image, "critic": torch.zeros(sizes.num_envs, STATES, device=device)}, batch_size=[sizes.num_envs]
    )
    groups = {"actor": ["policy"], "critic": ["critic"]}
    torch.manual_seed(0)
    actor = (CNNModel if steps is None else LeanCNNModel)(
        obs, groups, "actor", 1, hidden_dims=[64], activation="elu",
        distribution_cfg={"class_name": "GaussianDistribution", "init_std": 1.0},
        cnn_cfg={"output_channels": [8, 16, 16], "kernel_size": [5, 3, 3], "stride": [2, 2, 2], "activation": "relu"},
    )  # fmt: skip
    critic = MLPModel(obs, groups, "critic", 1, hidden_dims=[32, 32], activation="elu")
    if storage is None and steps is None:
        storage = RolloutStorage("rl", sizes.num_envs, sizes.horizon, obs, [1], device)
    elif storage is None:
        storage = FrameStorage(sizes.num_envs, sizes.horizon, obs, {"policy": sizes.frames}, [1], device)
    settings: Any = {
        "num_learning_epochs": sizes.epochs, "num_mini_batches": sizes.mini_batches, "value_loss_coef": 2.0,
        "entropy_coef": 0.0, "learning_rate": 3e-4, "schedule": sizes.schedule, "desired_kl": 0.008, "device": device,
    }  # fmt: skip
    if steps is None:
        return PPO(actor, critic, storage, **settings)
    return LeanPPO(actor, critic, storage, steps=steps, **settings)


def lean_rollout(sizes: Sizes, device: str) -> FrameStorage:
    """Return a rollout of random frames, in which episodes end now and then."""
    algorithm = an_algorithm(sizes, device, NONE, None)
    stack = LeanFrameStack(sizes.num_envs, sizes.frames, device)

    def observe() -> TensorDict:
        shape = (sizes.num_envs, sizes.pixels, sizes.pixels, CHANNELS)
        stacked = stack(torch.randint(0, 256, shape, dtype=torch.uint8, device=device))
        states = torch.rand(sizes.num_envs, STATES, device=device)
        return TensorDict({"policy": stacked, "critic": states}, batch_size=[sizes.num_envs])

    with torch.inference_mode():
        obs = observe()
        for _ in range(sizes.horizon):
            algorithm.act(obs)
            dones = torch.rand(sizes.num_envs, device=device) < 0.01
            stack.reset(dones)
            obs = observe()
            algorithm.process_env_step(obs, torch.rand(sizes.num_envs, device=device), dones, {})
        algorithm.compute_returns(obs)
    return algorithm.storage


def stock_rollout(sizes: Sizes, device: str, lean: FrameStorage) -> Any:
    """Return the same rollout as stock keeps it."""
    stock: Any = an_algorithm(sizes, device, None, None).storage
    stock.observations["critic"].copy_(lean.observations["critic"])
    for step in range(sizes.horizon):
        places = torch.arange(sizes.num_envs, device=device) + step * sizes.num_envs
        stock.observations["policy"][step] = lean.stacks("policy", places)
    others = "actions rewards dones values actions_log_prob returns advantages distribution_params"
    for name in others.split():
        setattr(stock, name, getattr(lean, name))
    return stock


class Bench:
    """The variants of one size on one device, made when they are first run."""

    def __init__(self, sizes: Sizes, device: str) -> None:
        """Note what is to be made: nothing yet, for there may be nothing left to measure."""
        self.sizes, self.device = sizes, device
        self.lean: Any = None
        self.stock: Any = None
        self._made: dict[str, tuple[Any, float]] = {}

    def update(self, name: str, steps: LearnerSteps | None, figures: dict[str, Any]) -> None:
        """Time one update of a variant, after two that warm it up, and add what it took to `figures`."""
        if name not in self._made:
            self.lean = self.lean or lean_rollout(self.sizes, self.device)
            if steps is None and self.stock is None:
                self.stock = stock_rollout(self.sizes, self.device, self.lean)
            before = self._allocated()
            algorithm = an_algorithm(self.sizes, self.device, steps, self.stock if steps is None else self.lean)
            torch.manual_seed(1)
            figures["losses"] = algorithm.update()
            algorithm.update()
            kept = self._allocated() - before
            self._made[name] = algorithm, kept
        algorithm, kept = self._made[name]
        has_graph = steps is not None and steps.cuda_graph
        before = self._allocated()
        if self.device != "cpu":
            torch.cuda.reset_peak_memory_stats()
        if has_graph:
            algorithm.update()  # captures it again: only then its memory shows
        self._wait()
        began = time.perf_counter()
        algorithm.update()
        self._wait()
        figures.setdefault("seconds", []).append(time.perf_counter() - began)
        if self.device != "cpu":
            peak = torch.cuda.max_memory_allocated() - before + kept + rollout_bytes(algorithm.storage)
            figures["peak_gb"] = max(figures.get("peak_gb", 0.0), peak / 1e9)
        if has_graph:
            # A graph keeps the memory of a mini-batch: nine variants with theirs and stock's rollout do not fit a device.
            algorithm._captured_step = None
            gc.collect()
            torch.cuda.empty_cache()

    def profile(self, name: str, steps: LearnerSteps | None) -> str:
        """Return what the kernels of one more update of a variant took, the longest first."""
        if name not in self._made:
            self.update(name, steps, {})
        with torch.profiler.profile() as profile:
            self._made[name][0].update()
        longest = "self_device_time_total" if self.device != "cpu" else "self_cpu_time_total"
        return profile.key_averages().table(sort_by=longest, row_limit=40, max_name_column_width=90)

    def _allocated(self) -> int:
        return torch.cuda.memory_allocated() if self.device != "cpu" else 0

    def _wait(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()


def rollout_bytes(storage: Any) -> int:
    """Return the size of a rollout's observations, with what is needed to stack them."""
    if isinstance(storage, FrameStorage):
        return storage.observations.bytes() + storage.frames.bytes() + storage.sums.bytes() + storage.history.nbytes
    return storage.observations.bytes()


def table_of(kept: dict[str, Any], variants: dict[str, LearnerSteps | None]) -> list[list[str]]:
    """Return the rows of the table, headings first."""
    rows = [["variant", "s / update", "range", "x stock", "GB", "updates", "losses - stock's"]]
    measured = kept["variants"]
    stock = measured.get("stock", {})
    for name in [name for name in variants if name in measured]:
        figures = measured[name]
        times = figures.get("seconds", [])
        if "failed" in figures or not times:
            rows.append([name, "failed", figures.get("failed", "")[:70], "", "", "0", ""])
            continue
        median = statistics.median(times)
        faster = f"{statistics.median(stock['seconds']) / median:.2f}" if stock.get("seconds") else ""
        apart = ""
        if stock.get("losses") and name != "stock":
            pairs = [(figures["losses"][loss], stock["losses"][loss]) for loss in ("value", "surrogate")]
            apart = ", ".join(f"{mine - other:+.1e}" for mine, other in pairs)
        memory = f"{figures['peak_gb']:.2f}" if "peak_gb" in figures else ""
        rows.append(
            [name, f"{median:.4f}", f"{min(times):.4f}..{max(times):.4f}", faster, memory, str(len(times)), apart]
        )
    return rows


def markdown(kept: dict[str, Any], rows: list[list[str]]) -> str:
    """Return the table as Markdown, with what it was measured on."""
    facts = [f"* {key}: {value}" for key, value in kept["measured"].items()]
    heading, *table = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*facts, "", heading, "|" + " --- |" * len(rows[0]), *table, ""])


def main() -> None:
    """Measure what is still missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for size in fields(Sizes)[:-1]:
        name = size.name.replace("_", "-")
        parser.add_argument(f"--{name}", type=int, default=size.default, help="(default: %(default)s)")
    parser.add_argument("--schedule", choices=["fixed", "adaptive"], default="fixed", help="of the learning rate")
    parser.add_argument("--rounds", type=int, default=5, help="updates that are timed of each (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no update after so long")
    parser.add_argument("--only", action="append", help="a variant; again for more (default: all)")
    parser.add_argument(
        "--profile", action="append", default=[], help="a variant: its kernels go to OUTPUT/profile-*.txt"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "results/bench-learner")
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    device: str = arguments.device
    sizes = Sizes(**{field.name: getattr(arguments, field.name) for field in fields(Sizes)})
    variants = variants_of(device)
    unknown = sorted({*(arguments.only or []), *arguments.profile} - set(variants))
    if unknown:
        parser.error(f"no variant is called {unknown[0]!r}. There are: {', '.join(variants)}")

    measured = {
        "device": "CPU" if device == "cpu" else torch.cuda.get_device_name(device),
        "torch": torch.__version__, "warp": warp.__version__, **asdict(sizes),
    }  # fmt: skip
    path: Path = arguments.output / "learner.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"measured": measured, "variants": {}}
    if kept["measured"] != measured:
        parser.error(f"{path} was measured otherwise: {kept['measured']}. Name another --output")

    console, began, bench = Console(), time.monotonic(), Bench(sizes, device)
    chosen = [name for name in variants if not arguments.only or name in arguments.only]
    for number in range(arguments.rounds):
        for name in chosen:
            steps = variants[name]
            figures = kept["variants"].setdefault(name, {"steps": asdict(steps) if steps else None})
            if (
                "failed" in figures
                or len(figures.get("seconds", [])) > number
                or time.monotonic() - began > arguments.seconds
            ):
                continue
            try:
                bench.update(name, steps, figures)
            except (RuntimeError, torch.cuda.OutOfMemoryError) as error:
                figures["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                console.print(f"{name}: {figures['failed']} (take it out of {path} to try again)")
            write_atomically(path, json.dumps(kept, indent=1) + "\n")
            write_atomically(path.with_suffix(".md"), markdown(kept, table_of(kept, variants)))
            if figures.get("seconds"):
                console.print(
                    f"{time.monotonic() - began:5.0f} s  round {number + 1}  {name}: {figures['seconds'][-1]:.4f} s"
                )
    rows = table_of(kept, variants)
    for name in arguments.profile:
        target = path.with_name(f"profile-{name.replace(' ', '_').replace(',', '')}.txt")
        write_atomically(target, bench.profile(name, variants[name]) + "\n")
    title = f"{measured['device']}: {sizes.num_envs:,} environments x {sizes.horizon} steps, {sizes.pixels} x {sizes.pixels}"
    table = Table(title=f"{title} pixels, {sizes.frames} frames, {sizes.mini_batches} mini-batches x {sizes.epochs}")
    for heading in rows[0]:
        table.add_column(heading, justify="left" if heading == "variant" else "right")
    for row in rows[1:]:
        table.add_row(*row)
    console.print(table, f"in {path.parent}")


if __name__ == "__main__":
    main()
