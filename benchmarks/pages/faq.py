"""docs/faq.md: values in its answers."""

from envknee.verdict.power import enough_repeats

from benchmarks.pages.cells import table
from benchmarks.pages.findings import H200, fps_growth, lean_times, most_fps, soonest
from benchmarks.pages.published import fits


def how_many() -> str:
    """Return what to run on an H200."""
    found, (stock, _), (warp, _) = soonest(), most_fps("stock"), most_fps("lean-warp")
    rows = [
        ("to learn soonest", f"{found.point.num_envs:,} with horizon {found.limit.horizon}"),
        ("for FPS", f"{stock.num_envs:,}"),
        ("for FPS, with lean frames and `frontend: warp`", f"{warp.num_envs:,}, with {lean_times()} times the FPS"),
    ]
    return table(("on an H200", "environments"), rows)


def doubled() -> str:
    """Return the soonest size and its double: `1,024 to 2,048`."""
    size = soonest().point.num_envs
    return f"{size:,} to {2 * size:,}"


BLOCKS = {
    "how-many": how_many,
    "doubled": doubled,
    "fps-growth": fps_growth,
    "longer": lambda: soonest().longer,
    "repeats-for-a-plateau": lambda: f"{enough_repeats(0.05, 0.10, 0.95)}",
    "fits-24-gb": lambda: fits("cartpole-stock-lean", "stock", "24 GB").partition(" ")[0],
    "fits-24-gb-lean": lambda: fits(H200, "lean-warp", "24 GB").partition(" ")[0],
}
