"""docs/lean.md and docs/lean-measured.md: what lean frames gain, with this version and with earlier ones."""

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any, Literal

from envknee.after.compare.sides import Side, sides
from envknee.base.point import rollout_size
from envknee.measure.rows import timed_rows
from envknee.record.read import read_rows
from envknee.record.schema import Row
from envknee.verdict.schema.joint import ConfirmedSetting
from envknee.words.joint_costs import short_setting

from benchmarks.pages.cells import share, table, times
from benchmarks.pages.findings import H200, OPPONENTS, SAME_GPU, WARP_LEARNING, compiled_ratio, task_pairs, task_ratio
from benchmarks.pages.joint_runs import answer_of, seconds
from benchmarks.pages.published import (
    PUBLISHED,
    fps_ratio,
    json_of,
    learning_ratio,
    median_fps,
    median_gb,
    median_phase_s,
    median_s_to_target,
    only,
    peak_gb,
    phases_of,
    records_of,
    throughput_of,
    timed_records,
    uuid_of,
)
from benchmarks.pages.published import ratio_of as pair_ratio
from benchmarks.pages.two_cameras import OF_A_STEP
from benchmarks.second_task import FRAMES, reward_of
from benchmarks.two_versions import by_pair, fps_of, in_words, ratio_of

H100, CUDA, TRITON = "cartpole-stock-lean-decided", "cartpole-stock-lean-cuda", "cartpole-stock-lean-4096"
TWO_MACHINES = "cartpole-stock-lean"
FIVE_MINUTES = "cartpole-five-minutes"
FEW, FEW_BEFORE = "cartpole-few-environments", "cartpole-few-environments-before"
OPPONENTS_ARMS = {
    "stock": "stock",
    "stock-compiled": "stock, compiled",
    "stock-mixed": "stock, mixed precision",
    "stock-warp": "stock, Warp's frontend",
    "lean": "lean",
    "lean-warp": "lean-warp",
}
ARMS = ("stock", "lean")


def three_arms() -> str:
    """Return FPS, ratio and memory by size and arm."""
    rows = []
    for size in (1024, 4096):
        for arm in ("stock", "lean", "lean-warp"):
            ratio = "1" if arm == "stock" else share(fps_ratio(SAME_GPU, arm, size))
            fps = f"{median_fps(SAME_GPU, arm, size):,.0f}"
            rows.append((f"{size:,}", arm, fps, ratio, f"{median_gb(SAME_GPU, arm, size):.2f}"))
    return table(("environments", "arm", "FPS", "ratio", "GB"), rows)


def on_h200s() -> str:
    """Return FPS, ratio and memory by size, where an H200 measured each arm."""
    stock, warp = (throughput_of(H200, arm, 32) for arm in ("stock", "lean-warp"))
    rows = []
    for size in (4096, 8192, 16384):
        fps = [f"{limit.point(size).fps:,.0f}" for limit in (stock, warp)]
        memory = [f"{peak_gb(H200, arm, size):.2f}" for arm in ("stock", "lean-warp")]
        rows.append((f"{size:,}", *fps, share(fps_ratio(H200, "lean-warp", size)), *memory))
    return table(("environments", "FPS, stock", "FPS, lean-warp", "ratio", "GB, stock", "GB, lean-warp"), rows)


def opponents() -> str:
    """Return FPS and memory of Isaac Lab's frames in four ways and of lean ones, and what lean-warp has of each, by size."""
    rows = []
    for size in (1024, 4096, 8192):
        for arm, what in OPPONENTS_ARMS.items():
            trials = len(timed_records(OPPONENTS, arm, size))
            factor = "1" if arm == "lean-warp" else share(fps_ratio(OPPONENTS, "lean-warp", size, to=arm))
            fps, memory = median_fps(OPPONENTS, arm, size), median_gb(OPPONENTS, arm, size)
            rows.append((f"{size:,}", what, str(trials), f"{fps:,.0f}", factor, f"{memory:.2f}"))
    return table(("environments", "", "trials", "FPS", "lean-warp has times as many", "GB"), rows)


def by_minute() -> str:
    """Return FPS and the slowest iteration of each minute of the trial that was timed for five."""
    [record] = records_of(FIVE_MINUTES)
    request = record.request
    timed = timed_rows(read_rows(PUBLISHED[FIVE_MINUTES].trial(request.number)), request)
    minutes: dict[int, list[Row]] = {}
    for row in timed:
        minutes.setdefault(int((row.wall_s - timed[0].wall_s) // 60), []).append(row)
    rows = []
    for minute, own in sorted(minutes.items()):
        seconds = [row.iteration_s or 0.0 for row in own]
        fps = len(own) * rollout_size(request.num_envs, request.horizon) / sum(seconds)
        rows.append((str(minute + 1), str(len(own)), f"{fps:,.0f}", f"{1e3 * max(seconds):.0f} ms"))
    return table(("minute", "iterations", "FPS", "slowest iteration"), rows)


def second_task() -> str:
    """Return FPS, memory and reward of mjlab's cube task with its own frames and with lean ones."""
    rows = [
        (
            f"{frames}'s own" if frames == "mjlab" else frames,
            f"{fmean(map(fps_of, runs)):,.0f}",
            ratio,
            f"{1e3 * fmean(learning_s(run) for run in runs):.0f} ms",
            f"{fmean(run['used_gb'] for run in runs):.2f}",
            f"{fmean(map(reward_of, runs)):.1f}",
        )
        for frames, runs, ratio in zip(FRAMES, task_pairs(), ("1", task_factor()), strict=True)
    ]
    return table(("frames", "FPS", "ratio", "an update takes", "GB", "reward at the end"), rows)


def learning_s(run: dict[str, Any]) -> float:
    """Return the median seconds of an update after the warm-up."""
    return median(run["learn_s"][run["warmup_iterations"] :])


def task_factor() -> str:
    """Return FPS of lean frames over mjlab's own on the second task, with its interval."""
    return in_words(task_ratio())


def bare_loops() -> str:
    """Return the milliseconds of an iteration of RSL-RL's bare loop before and after the learner became faster."""
    rows = []
    for size in (1024, 4096):
        before, now = (iteration_ms(version, size) for version in ("c1506af", "f247536"))
        rows.append((f"{size:,}", f"{before:.1f}", f"{now:.1f}", f"{1.0 - now / before:.0%}"))
    return table(("environments", "ms per iteration, before", "now", "time saved"), rows)


def few_environments() -> str:
    """Return FPS of the two versions that took turns on H200s, and their ratio, by size."""
    kept = json_of("two-versions-h200")
    before, now = kept["versions"]
    rows = []
    for size in kept["num_envs"]:
        pairs = [by_pair(kept["runs"], version, size) for version in (before, now)]
        spreads = [f"{fmean(own):,.0f} ({min(own):,.0f} to {max(own):,.0f})" for own in pairs]
        rows.append((f"{size:,}", *spreads, in_words(ratio_of(*pairs))))
    return table(("environments", f"FPS, {before}", f"FPS, {now}", "ratio"), rows)


def profile() -> str:
    """Return what the profiler saw of an environment step and of a mini-batch, before they took fewer kernels and now."""
    versions = json_of("profile-lean-warp-h200")
    rows = []
    for size in versions["before"]:
        for window, what in (("collect", "environment step"), ("learn", "mini-batch")):
            before, now = (versions[version][size][window] for version in ("before", "now"))
            kernels = [f"{own['kernels']:.0f}" for own in (before, now)]
            times = [f"{value / 1e3:.2f} ms" for value in (before["wall_us"], now["wall_us"], now["busy_us"])]
            rows.append((f"{int(size):,}", what, *kernels, *times, f"{now['occupancy']:.0%}"))
    columns = (
        "environments", "part", "kernels, before", "now", "takes, before", "now", "of which kernels run", "occupancy, now"
    )  # fmt: skip
    return table(columns, rows)


def few_seconds() -> str:
    """Return seconds to reward 4.5 at two settings with few environments, before and now, and the ratios of both versions."""
    rows = []
    for batch_size in (512, 1024):
        before, now = (confirmed_of(study, batch_size) for study in (FEW_BEFORE, FEW))
        pair = few_sides(batch_size)
        ratios = [share(pair_ratio(pair, measure)) for measure in ("seconds_to_target", "frames_to_target")]
        rows.append((short_setting(now), seconds(before), seconds(now), *ratios))
    return table(("setting", "seconds, before", "now", "ratio of seconds", "ratio of environment steps"), rows)


def confirmed_of(study: str, batch_size: int) -> ConfirmedSetting:
    """Return the confirmed setting of a study of few environments that has a batch size."""
    confirmed = answer_of(study, "lean-warp", "learning").confirmed
    return next(setting for setting in confirmed if setting.batch_size == batch_size)


def few_sides(batch_size: int) -> list[Side]:
    """Return the trials of both versions at a batch size."""
    (pair,) = sides(*(str(PUBLISHED[study].root) for study in (FEW_BEFORE, FEW)))
    return only(pair, lambda record: record.request.batch_size == batch_size)


def iteration_ms(version: str, num_envs: int) -> float:
    """Return the median iteration of a version's bare loops after their warm-up: the mean over its runs."""
    runs = [
        own["iteration_s"][own["warmup_iterations"] :]
        for own in json_of("bare-loop-h100")["runs"]
        if (own["version"], own["num_envs"]) == (version, num_envs)
    ]
    return 1e3 * fmean(map(median, runs))


def by_machine() -> str:
    """Return FPS of stock and lean on each of two machines, their ratios, and memory, by size."""
    rows = []
    for size in (1024, 2048, 4096, 8192, 16384):
        fps = {arm: on_machines(arm, size, "fps_total") for arm in ARMS}
        steps = {arm: on_machines(arm, size, "fps_env_step") for arm in ARMS}
        stock_gb, lean_gb = (median_gb(TWO_MACHINES, arm, size) for arm in ARMS)
        rows.append(
            (
                f"{size:,}",
                *("; ".join(f"{own:,.0f}" for own in fps[arm]) for arm in ARMS),
                ratios(fps),
                ratios(steps),
                f"{stock_gb:.2f}",
                f"{lean_gb:.2f}",
                f"{lean_gb / stock_gb:.2f}",
            )
        )
    heads = (
        "environments", "FPS, stock", "FPS, lean", "ratio", "of an environment step", "GB, stock", "GB, lean", "ratio",
    )  # fmt: skip
    return table(heads, rows)


def on_machines(arm: str, num_envs: int, measure: Literal["fps_total", "fps_env_step"]) -> list[float]:
    """Return the median of an arm's trials on each machine, in the order of the machines' first trials."""
    by_gpu: dict[str | None, list[float]] = {}
    for record in sorted(records_of(TWO_MACHINES), key=lambda record: record.request.number):
        own = by_gpu.setdefault(uuid_of(record), [])
        spread = getattr(record, measure)
        if (record.request.arm, record.request.num_envs) == (arm, num_envs) and spread is not None:
            own.append(spread.median)
    return [median(own) for own in by_gpu.values()]


def ratios(by_arm: Mapping[str, Sequence[float]]) -> str:
    """Return lean's values over stock's on each machine."""
    return "; ".join(f"{lean / stock:.2f}" for stock, lean in zip(by_arm["stock"], by_arm["lean"], strict=True))


def with_cuda() -> str:
    """Return FPS, ratio and memory by size, with the first layer in CUDA C++."""
    rows = []
    for size in (1024, 4096):
        fps = [f"{median_fps(CUDA, arm, size):,.0f}" for arm in ARMS]
        memory = [f"{median_gb(CUDA, arm, size):.2f}" for arm in ARMS]
        rows.append((f"{size:,}", *fps, share(fps_ratio(CUDA, "lean", size)), *memory))
    return table(("environments", "FPS, stock", "FPS, lean", "ratio, 95% interval", "GB, stock", "GB, lean"), rows)


def with_triton() -> str:
    """Return FPS, ratio, memory and phases of an environment step, with the earlier Triton kernels."""
    rows = [
        ("FPS", *(f"{median_fps(TRITON, arm, 4096):,.0f}" for arm in ARMS)),
        ("ratio, 95% interval", "1", share(fps_ratio(TRITON, "lean", 4096))),
        ("GB", *(f"{median_gb(TRITON, arm, 4096):.2f}" for arm in ARMS)),
    ]
    for phase, what in OF_A_STEP.items():
        each = (f"{1e3 * median_phase_s(TRITON, arm, 4096, phase) / 32:.2f}" for arm in ARMS)
        rows.append((f"{what}, ms of an environment step", *each))
    return table(("4,096 environments", *ARMS), rows)


def what_bounds() -> str:
    """Return the shares of an iteration's time of each phase, with lean frames and Warp's frontend."""
    size = 4096
    point = next(own for own in phases_of(H200, "lean-warp", 32).points if own.num_envs == size)
    iteration_s = sum(point.seconds.values())
    rows = [
        (phase, f"{1e3 * seconds:.1f} ms", f"{point.shares[phase]:.0%}")
        for phase, seconds in sorted(point.seconds.items(), key=lambda pair: -pair[1])
    ]
    return table((f"phase, {size:,} environments", f"of {1e3 * iteration_s:.0f} ms", "share"), rows)


def fps_range(num_envs: int) -> str:
    """Return the smallest and the largest FPS of lean frames and Warp's frontend at a size."""
    fps = [own.fps_total.median for own in timed_records(SAME_GPU, "lean-warp", num_envs) if own.fps_total]
    return f"{min(fps):,.0f} to {max(fps):,.0f}"


def learns() -> str:
    """Return the seconds to the target of both kinds of frames, and the shares of seconds and of environment steps."""
    stock_s, warp_s = (median_s_to_target(WARP_LEARNING, arm) for arm in ("stock", "lean-warp"))
    seconds = learning_ratio(WARP_LEARNING, "lean-warp", "seconds_to_target")
    frames = learning_ratio(WARP_LEARNING, "lean-warp", "frames_to_target")
    return (
        f"Stock took {stock_s:.1f} s and lean-warp {warp_s:.1f} s (medians):"
        f" {share(seconds)} of the seconds, and {share(frames)} of the environment steps"
    )


BLOCKS = {
    "lean-three-arms": three_arms,
    "lean-h200": on_h200s,
    "lean-opponents": opponents,
    "lean-five-minutes": by_minute,
    "lean-compiled-factor": lambda: times(compiled_ratio()),
    "lean-second-task": second_task,
    "lean-second-task-pairs": lambda: str(len(task_pairs()[0])),
    "lean-second-task-factor": task_factor,
    "lean-bounds": what_bounds,
    "lean-range-1024": lambda: fps_range(1024),
    "lean-range-4096": lambda: fps_range(4096),
    "lean-bare-loops": bare_loops,
    "lean-few-environments": few_environments,
    "lean-profile": profile,
    "lean-few-seconds": few_seconds,
    "lean-by-machine": by_machine,
    "lean-cuda": with_cuda,
    "lean-triton": with_triton,
    "lean-learns": learns,
    "lean-factor": lambda: times(fps_ratio(H200, "lean-warp", 8192)),
    "lean-factor-torch": lambda: times(fps_ratio(SAME_GPU, "lean", 4096)),
    "lean-factor-warp": lambda: times(fps_ratio(SAME_GPU, "lean-warp", 4096)),
    "lean-8192-h100": lambda: times(fps_ratio(H100, "lean-warp", 8192)),
}
