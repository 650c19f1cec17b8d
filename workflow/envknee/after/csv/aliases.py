"""Names and units of columns, as people write them: the one place to add another. Data alone.

Names are written as `headings.canonical` leaves them: in lower case, `per second` as `/s`, and without punctuation. The first name
of a column that a table has counts; what is left over is named in the answer.
"""

from collections.abc import Mapping
from decimal import Decimal

ALIASES: Mapping[str, tuple[str, ...]] = {
    "num_envs": (
        "num envs", "envs", "n envs", "nenvs", "numenvs", "environments", "num environments", "n environments", "numenvironments",
        "number of envs", "number of environments", "no of envs", "no of environments", "# envs", "#envs", "# of envs",
        "# environments", "# of environments", "env count", "environment count", "envs count", "parallel envs",
        "parallel environments", "batch of envs", "num env instances", "env instances", "num parallel envs", "envs in parallel",
        "nworld", "nworlds", "n worlds", "num worlds", "worlds", "number of worlds", "envs/gpu", "num envs/gpu", "environments/gpu",
        "worlds/gpu", "n", "b",
    ),
    "total_envs": (
        "total envs", "envs total", "total environments", "environments total", "num envs total", "total num envs", "global envs",
        "global num envs", "envs all gpus", "total worlds",
    ),
    "fps": (
        "total fps", "fps total", "totalfps", "mean total fps", "mean fps", "train fps", "training fps", "env steps/s",
        "environment steps/s", "env step/fps", "env fps", "total env steps/s", "frames/s", "sps", "env sps", "total sps",
        "sps total", "total steps/s", "world steps/s", "agent steps/s", "sim steps/s", "simulation steps/s", "physics steps/s",
        "steps/s", "samples/s", "transitions/s", "images/s", "imgs/s", "experiences/s", "throughput", "fps", "frames/h",
        "steps/h", "env steps/h", "samples/h", "frames/min", "steps/min", "env steps/min", "frame rate", "simulation fps",
        "sim fps",
    ),
    "fps_per_env": ("fps/env", "steps/s/env", "sps/env", "frames/s/env", "fps each env"),
    "fps_per_gpu": ("fps/gpu", "steps/s/gpu", "sps/gpu", "env steps/s/gpu", "samples/s/gpu", "frames/s/gpu"),
    "seconds_per_iteration": (
        "s/iter", "iteration time", "iter time", "time/iter", "seconds iteration", "s iteration", "s / iteration", "iteration s",
        "iteration seconds",
    ),
    "iterations_per_second": ("iter/s", "iterations/s", "it/s", "its/s", "iters/s", "updates/s"),
    "seconds_per_step": ("s/step", "step time", "time/step", "env step time", "step s"),
    "vram_gb": (
        "vram", "gpu memory", "gpu mem", "device memory", "device mem", "cuda memory", "cuda mem", "gpu ram", "memory", "mem",
        "memory gpu", "mem gpu", "gpu", "显存", "",
    ),
    "ram_gb": (
        "ram", "host memory", "host mem", "cpu memory", "cpu mem", "rss", "system memory", "system ram", "host ram", "cpu ram",
        "main memory",
    ),
    "horizon": (
        "horizon", "rollout", "rollout length", "rollout len", "rollout steps", "rollouts", "n steps", "nsteps", "num steps",
        "num steps/env", "steps/env", "horizon length", "unroll length", "unroll", "num transitions/env", "t horizon",
    ),
    "batch_size": ("batch size", "batch", "minibatch size", "mini batch size", "minibatch", "mini batch", "batchsize"),
    "gpus": (
        "gpus", "num gpus", "n gpus", "ngpus", "numgpus", "# gpus", "#gpus", "# of gpus", "number of gpus", "no of gpus", "gpu count",
        "gpu s", "world size", "num devices", "n devices", "devices", "ranks", "num ranks",
    ),
    "repeat": ("repeat", "seed", "run", "trial", "rep", "replicate", "repetition", "run id", "repeats"),
    "seconds_to_target": ("seconds to target",),
    "budget_s": ("budget s",),
    "status": ("status", "ok", "success", "error", "result", "outcome", "state", "completed", "failed", "exit"),
}  # fmt: skip
"""Column -> its names."""

NOISE: Mapping[str, frozenset[str]] = {
    "num_envs": frozenset({"parallel", "simulated", "vectorized", "concurrent", "batched", "the"}),
    "fps": frozenset({"mean", "avg", "average", "median", "overall", "total", "approx", "measured", "aggregate", "steady", "the"}),
    "vram_gb": frozenset({
        "peak", "max", "maximum", "used", "usage", "use", "mean", "avg", "total", "allocated", "reserved", "consumption", "nvidia",
        "smi", "torch", "the", "footprint",
    }),
    "ram_gb": frozenset({"peak", "max", "maximum", "used", "usage", "use", "mean", "avg", "total", "process"}),
    "seconds_per_iteration": frozenset({"mean", "avg", "average", "median", "total", "wall", "train", "training"}),
    "iterations_per_second": frozenset({"mean", "avg", "average", "median", "train", "training"}),
    "seconds_per_step": frozenset({"mean", "avg", "average", "median", "wall", "sim", "simulation"}),
    "fps_per_env": frozenset({"mean", "avg", "average", "median"}),
    "fps_per_gpu": frozenset({"mean", "avg", "average", "median"}),
}  # fmt: skip
"""Column -> words that change nothing about what it is."""

NOT_FPS = frozenset({
    "std", "stdev", "sd", "sem", "min", "max", "low", "high", "ci", "p5", "p10", "p90", "p95", "p99", "speedup", "speed", "ratio", "gain",
    "change", "delta", "relative", "improvement", "%", "error", "err", "var", "variance", "target", "limit", "scaling", "efficiency",
    "up", "vs", "x", "rank", "loss",
})  # fmt: skip
"""Words beside an FPS name that make something else of it."""

ONE, KILO, MEGA = Decimal(1), Decimal(1000), Decimal(10**6)
COUNTS: Mapping[str, Decimal] = {
    "": ONE, "k": KILO, "x1000": KILO, "thousand": KILO, "thousands": KILO, "m": MEGA, "million": MEGA, "millions": MEGA, "mio": MEGA,
    "g": Decimal(10**9), "b": Decimal(10**9), "billion": Decimal(10**9),
}  # fmt: skip
RATES: Mapping[str, Decimal] = {
    f"{times}{rate}".strip(): factor
    for times, factor in COUNTS.items()
    for rate in (
        "", "1/s", "/s", "steps/s", " steps/s", "frames/s", " frames/s", "hz", "fps", " fps", "sps", " sps", "env steps/s",
        " env steps/s", "samples/s", "images/s",
    )
}  # fmt: skip
SECONDS: Mapping[str, Decimal] = {
    "": ONE, "s": ONE, "sec": ONE, "secs": ONE, "second": ONE, "seconds": ONE, "ms": Decimal("1e-3"), "msec": Decimal("1e-3"),
    "milliseconds": Decimal("1e-3"), "us": Decimal("1e-6"), "µs": Decimal("1e-6"), "min": Decimal(60), "minutes": Decimal(60),
    "s/iter": ONE, "s/it": ONE, "ms/iter": Decimal("1e-3"), "s/step": ONE, "ms/step": Decimal("1e-3"),
}  # fmt: skip
BYTES: Mapping[str, Decimal] = {
    "gb": ONE, "g": ONE, "mb": Decimal("1e-3"), "gib": Decimal(2**30).scaleb(-9), "mib": Decimal(2**20).scaleb(-9), "tb": KILO,
    "bytes": Decimal("1e-9"),
}  # fmt: skip

UNITS: Mapping[str, Mapping[str, Decimal]] = {
    "num_envs": COUNTS | {"envs": ONE, "env": ONE, "environments": ONE, "worlds": ONE},
    "total_envs": COUNTS,
    "fps": RATES, "fps_per_env": RATES, "fps_per_gpu": RATES,
    "iterations_per_second": {"": ONE, "it/s": ONE, "iter/s": ONE, "1/s": ONE, "/s": ONE},
    "seconds_per_iteration": SECONDS, "seconds_per_step": SECONDS,
    "vram_gb": BYTES, "ram_gb": BYTES,
    "horizon": COUNTS | {"steps": ONE}, "batch_size": COUNTS,
    "gpus": {"": ONE, "x": ONE, "×": ONE, "gpu": ONE, "gpus": ONE},
    "seconds_to_target": SECONDS, "budget_s": SECONDS,
}  # fmt: skip
"""Column -> unit in lower case -> factor to the column's own unit. A column without "" needs a unit."""

SETTINGS = frozenset({
    "gpu", "card", "device", "hardware", "machine", "host", "gpu name", "gpu model", "gpu type", "node", "accelerator",
    "task", "env", "env id", "env name", "environment", "scene", "robot", "body", "game", "benchmark", "image", "camera", "backend",
    "engine", "simulator", "sim", "physics", "physics engine", "renderer", "render mode", "library", "framework", "trainer", "algo",
    "algorithm", "mode", "precision", "dtype", "branch", "obs", "observation", "observations", "model", "policy", "compile", "compiled",
    "jit", "cpu", "driver", "os", "cuda", "setup", "method", "implementation", "build", "preset", "platform", "system", "solver",
    "terrain", "graph", "sensor", "layer",
})  # fmt: skip
"""Headings of settings: rows that differ in one are different series. Numbers below such a heading are a measurement of it."""

HARDWARE = frozenset(
    {
        "gpu",
        "card",
        "device",
        "hardware",
        "machine",
        "gpu name",
        "gpu model",
        "gpu type",
        "accelerator",
        "platform",
        "system",
    }
)
"""Headings of the hardware."""

NUMBERED_SETTINGS = frozenset({
    "nodes", "num nodes", "resolution", "width", "height", "image size", "img size", "pixels", "cameras", "cams", "num cameras",
    "num cams", "decimation", "substeps", "cores", "cpu cores", "num cpus", "num agents", "agents", "minibatches", "num minibatches",
    "mini batches", "num mini batches", "version", "epochs", "num objects", "dof",
})  # fmt: skip
"""Headings of settings that are numbers."""

NAMES_OF_ROWS = frozenset(
    {"date", "day", "time", "timestamp", "commit", "config", "configuration", "variant", "experiment", "label", "name"}
)
"""Headings of settings that may also name a row: they part series unless every row has a value of its own."""
