"""docs/measuring.md: what measuring costs, and what a second GPU brings."""

from collections.abc import Sequence

from benchmarks.pages.cells import table
from benchmarks.pages.published import fps_of_processes, json_of, peak_gb, verdict_of

TWO_GPUS = "cartpole-two-gpus-lean"
BARE_LOOPS = {
    "overhead-lean-warp-4096-h200": "",
    "overhead-lean-warp-1024-h100": "",
    "overhead-lean-warp-1024-h100-earlier": ", an earlier version",
    "overhead-lean-warp-1024-h100-earlier-2": " of another host, an earlier version",
    "overhead-lean-warp-1024-h200": ", on a busy host, an earlier version",
}
"""By file, what was different there."""


def bare_loops() -> str:
    """Return a trial's FPS over those of RSL-RL's bare loop, by file."""
    rows = []
    for file, differs in BARE_LOOPS.items():
        measured = json_of(file)
        ratio = measured["spreads"]["trial / bare loop"]
        card = measured["environment"]["device"]["name"].split()[1]
        quartiles = f"quartiles {ratio['lower_quartile']:.3f} to {ratio['upper_quartile']:.3f}"
        rows.append(
            (
                f"{measured['request']['num_envs']:,}",
                f"{card}{differs}",
                f"{ratio['iterations']}",
                f"{ratio['median']:.3f} times ({quartiles})",
                pair_range(measured["ratios"]["trial / bare loop"]),
                f"[`{file}.json`](../results-published/{file}.json)",
            )
        )
    return table(("environments", "GPU", "pairs", "a trial's FPS, of the bare loop's", "its pairs", "record"), rows)


def pair_range(ratios: Sequence[float]) -> str:
    """Return the smallest and the largest ratio of a pair."""
    return f"{min(ratios):.3f} to {max(ratios):.3f}"


def beside_train() -> str:
    """Return a trial's FPS over those of `isaaclab train`, and FPS with phases over those without."""
    measured = json_of("overhead-h200")
    size, rows = measured["request"]["num_envs"], []
    for name, what in (
        ("trial / isaaclab train", "a trial ÷ `isaaclab train`"),
        ("phases: sampled / off", "with phases ÷ without"),
    ):
        own = measured["spreads"][name]
        quartiles = f"quartiles {own['lower_quartile']:.3f} to {own['upper_quartile']:.3f}"
        rows.append((what, f"{own['iterations']}", f"{own['median']:.3f} times ({quartiles})"))
    return table((f"{size:,} environments, an H200", "pairs", "FPS"), rows)


def two_gpus() -> str:
    """Return FPS and memory of one GPU and of two, by frames and size."""
    rows = []
    for arm, seen in (("two-gpus", "Isaac Lab's"), ("lean-two-gpus", "lean")):
        scaling = next(own for own in verdict_of(TWO_GPUS).scaling if own.arm == arm)
        assert scaling.partner is not None
        for point in scaling.points:
            size = point.num_envs
            rows.append(
                (
                    seen,
                    f"{size:,}",
                    f"{fps_of_processes(TWO_GPUS, scaling.partner, size):,.0f}",
                    f"{point.fps_all_ranks:,.0f}",
                    f"{point.speedup:.2f}",
                    f"{point.efficiency:.0%} ({point.efficiency_lower:.0%} to {point.efficiency_upper:.0%})",
                    f"{peak_gb(TWO_GPUS, scaling.partner, size):.2f}",
                    f"{peak_gb(TWO_GPUS, arm, size):.2f}",
                )
            )
    heads = (
        "frames", "environments on each GPU", "FPS, one GPU", "FPS, two GPUs", "times", "efficiency", "GB, one GPU", "GB, each of two",
    )  # fmt: skip
    return table(heads, rows)


BLOCKS = {"overhead-bare-loops": bare_loops, "overhead-beside-train": beside_train, "two-gpus": two_gpus}
