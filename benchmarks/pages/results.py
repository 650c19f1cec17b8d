"""docs/results.md: FPS, gains and memory by size."""

from dataclasses import replace

from envknee.after.compare.sides import Side
from envknee.verdict.schema.limit import Gain
from envknee.verdict.schema.throughput import ThroughputLimit, ThroughputPoint

from benchmarks.pages.cells import change, gigabytes, table, times
from benchmarks.pages.findings import H200, SAME_GPU, WARP_LEARNING
from benchmarks.pages.published import (
    both_sides,
    fits,
    fps_ratio,
    gain_from,
    learning_ratio,
    median_fps,
    peak_gb,
    ratio_of,
    target_of,
    throughput_of,
    uuid_of,
)

LEAN_LEARNING = "cartpole-stock-lean-learning"
H100, GRID, DECIDED, QUICK = "cartpole-stock-lean-decided", "cartpole-one-gpu-full", "cartpole-one-gpu-decided", "quick"


def fps_at(limit: ThroughputLimit, num_envs: int) -> str:
    """Return FPS at a size, or that it does not fit."""
    if any(point.num_envs == num_envs for point in limit.infeasible):
        return "out of memory"
    return f"{limit.point(num_envs).fps:,.0f} FPS"


def gain_at(limit: ThroughputLimit, num_envs: int) -> str:
    """Return what doubling a size gains; empty at the largest one."""
    if any(point.num_envs == 2 * num_envs for point in limit.infeasible):
        return "does not fit"
    return next((change(gain) for gain in limit.gains if gain.num_envs == num_envs), "")


def on_h200s() -> str:
    """Return FPS, gains and memory on H200s by size, with Isaac Lab's frames and with lean ones."""
    stock, warp = (throughput_of(H200, arm, 32) for arm in ("stock", "lean-warp"))
    rows = []
    for point in stock.points:
        size = point.num_envs
        ratio = fps_ratio(H200, "lean-warp", size)
        gains = [gain_at(limit, size) for limit in (stock, warp)]
        memory = gigabytes(peak_gb(H200, "lean-warp", size), peak_gb(H200, "stock", size))
        compared = "" if ratio.lower is None else times(ratio)
        rows.append((f"{size:,}", fps_at(stock, size), gains[0], fps_at(warp, size), gains[1], compared, memory))
    heads = (
        "environments", "Isaac Lab's frames", "doubling gains", "lean frames, `frontend: warp`", "doubling gains",
        "FPS, lean ÷ Isaac Lab's", "memory",
    )  # fmt: skip
    return table(heads, rows)


def on_an_h100() -> str:
    """Return FPS and gains on an H100 by size, with Isaac Lab's frames and with lean ones."""
    stock, warp = (throughput_of(H100, arm, 32) for arm in ("stock", "lean-warp"))
    rows = []
    for point in warp.points:
        size = point.num_envs
        rows.append((f"{size:,}", fps_at(stock, size), gain_at(stock, size), fps_at(warp, size), gain_at(warp, size)))
    heads = ("environments", "Isaac Lab's frames", "doubling gains", "lean frames, `frontend: warp`", "doubling gains")
    return table(heads, rows)


def three_arms() -> str:
    """Return FPS, memory, what fits and what learning takes, of three alternating arms."""
    arms = ("lean", "lean-warp")
    rows = []
    for size in (1024, 4096):
        cells = [f"{size:,}", f"{median_fps(SAME_GPU, 'stock', size):,.0f} FPS"]
        for arm in arms:
            ratio = times(fps_ratio(SAME_GPU, arm, size), bold=arm == "lean-warp")
            cells.append(f"{median_fps(SAME_GPU, arm, size):,.0f}: {ratio}")
        rows.append(cells)
    rows.append(["4,096: memory", *(f"{peak_gb(SAME_GPU, arm, 4096):.2f} GB" for arm in ("stock", *arms))])
    fitting = [fits(SAME_GPU, arm, "24 GB") for arm in ("stock", *arms)]
    rows.append(["What fits in 24 GB (from two sizes, no interval)", *fitting])
    lean = ratio_of(on_one_gpu(both_sides(LEAN_LEARNING, "stock", "lean")), "seconds to target")
    warp, frames = (
        learning_ratio(WARP_LEARNING, "lean-warp", measure) for measure in ("seconds to target", "frames to target")
    )
    rows.append(
        [
            f"1,024: seconds to reward {target_of(WARP_LEARNING):g}, as a share of stock's",
            "1",
            f"{times(lean).replace(' times', '')}, an H200",
            f"{times(warp).replace(' times', '')}, from {times(frames).replace(' times', ' of the frames')}",
        ]
    )
    return table(("environments", "Isaac Lab's frames", "lean frames", "lean frames, `frontend: warp`"), rows)


def on_one_gpu(pair: tuple[Side, Side]) -> tuple[Side, Side]:
    """Return two arms with the repeats that the same GPU measured on both sides."""
    gpus = [{(record.request.repeat, uuid_of(record)) for record in side.records} for side in pair]
    repeats = {repeat for repeat, _ in gpus[0] & gpus[1]}
    left, right = (
        replace(side, records=[record for record in side.records if record.request.repeat in repeats]) for side in pair
    )
    return left, right


def with_interval(point: ThroughputPoint) -> str:
    """Return FPS with the interval of the point alone."""
    if point.fps_lower is None:
        return f"{point.fps:,.0f} FPS"
    return f"{point.fps:,.0f} FPS ({point.fps_lower:,.0f} to {point.fps_upper:,.0f})"


def estimated(gain: Gain) -> str:
    """Return a gain without its interval: `10.5%`; from 16% on without decimals."""
    return f"{gain.gain:.{1 if gain.gain < 0.16 else 0}%}"


def quick_beside_grid() -> str:
    """Return FPS and gains of `quick` beside those of the full grid."""
    quick, grid = throughput_of(QUICK, "stock", 16), throughput_of(GRID, "stock", 16)
    rows = []
    for point in quick.points:
        size = point.num_envs
        cells = [f"{size:,}"]
        for limit in (quick, grid):
            gains = [estimated(gain) for gain in limit.gains if gain.num_envs == size]
            cells += [with_interval(limit.point(size)), *(gains or [""])]
        rows.append([*cells, f"{point.fps / grid.point(size).fps:.2f}"])
    heads = (
        "environments", "`quick`, an H100", "doubling gains", "`one-gpu-full`, H200s", "doubling gains", "FPS, `quick` ÷ grid",
    )  # fmt: skip
    return table(heads, rows)


def decided_beside_grid() -> str:
    """Return what `one-gpu-decided` says of each horizon, beside the full grid."""
    rows = []
    for horizon in (16, 32, 64):
        limit = throughput_of(DECIDED, "stock", horizon)
        size = limit.threshold_num_envs
        assert size is not None and limit.state == "reached"
        gain = gain_from(limit, size)
        bounds = f"{gain.gain_lower:.1%} to {gain.gain_upper:.1%}, {gain.repeats} repeats"
        whole = gain_from(throughput_of(GRID, "stock", horizon), size)
        rows.append(
            (
                f"{horizon}",
                f"{size:,} to {2 * size:,}",
                f"{gain.gain:.1%} ({bounds})",
                f"**{size:,}** are enough",
                f"{whole.gain:.1%} ({whole.repeats} repeat)",
            )
        )
    delta = f"{throughput_of(DECIDED, 'stock', 16).delta:.0%}"
    heads = ("horizon", "doubling", "`one-gpu-decided` gains", f"verdict at {delta}", "`one-gpu-full` gains")
    return table(heads, rows)


BLOCKS = {
    "results-h200": on_h200s,
    "results-h100": on_an_h100,
    "results-three-arms": three_arms,
    "results-quick": quick_beside_grid,
    "results-decided": decided_beside_grid,
}
