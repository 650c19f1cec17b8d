"""docs/faq.md: values in its answers."""

from envknee.verdict.power import enough_repeats

from benchmarks.pages.cells import table
from benchmarks.pages.findings import H200, fps_growth, lean_times, most_fps, soonest
from benchmarks.pages.joint import FAST, SLOW, STUDY
from benchmarks.pages.joint_runs import best_of
from benchmarks.pages.published import card_of

NEEDS = "[what that needs](lean.md#what-it-gains-and-what-that-needs)"


def how_many() -> str:
    """Return what to run on an H200."""
    (stock, _), (warp, _) = most_fps("stock"), most_fps("lean-warp")
    rows = [
        *(
            (
                f"to learn soonest, {frames}",
                f"{setting.num_envs:,} with horizon {setting.horizon} and batch {setting.batch_size:,}",
            )
            for frames, setting in (
                ("Isaac Lab's frames", best_of(STUDY, SLOW, "learning")),
                ("lean frames and `frontend: warp`", best_of(STUDY, FAST, "learning")),
            )
        ),
        ("for FPS", f"{stock.num_envs:,}"),
        (
            "for FPS, with lean frames and `frontend: warp`",
            f"{warp.num_envs:,}, with {lean_times()} times the FPS ({NEEDS})",
        ),
    ]
    return table(("on an H200", "environments"), rows)


def doubled() -> str:
    """Return the soonest size and its double: `1,024 to 2,048`."""
    size = soonest().point.num_envs
    return f"{size:,} to {2 * size:,}"


def in_24_gb(study: str, arm: str) -> str:
    """Return how many environments are predicted to fit a card of 24 GB."""
    return f"{card_of(study, arm, '24 GB').largest_num_envs:,}"


BLOCKS = {
    "how-many": how_many,
    "doubled": doubled,
    "fps-growth": fps_growth,
    "longer": lambda: soonest().longer,
    "repeats-for-a-plateau": lambda: f"{enough_repeats(0.05, 0.10, 0.95, when='as planned')}",
    "fits-24-gb": lambda: in_24_gb("cartpole-stock-lean", "stock"),
    "fits-24-gb-lean": lambda: in_24_gb(H200, "lean-warp"),
}
