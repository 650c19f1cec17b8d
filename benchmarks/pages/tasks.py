"""docs/tasks.md: PhysX beside Newton."""

from benchmarks.pages.cells import table
from benchmarks.pages.published import fps_ratio, median_fps, median_gb, median_phase_s

STUDY = "cartpole-physx-newton"
SIZES = (1024, 4096)
HORIZON = 32


def fps_and_memory() -> str:
    """Return FPS and memory with either physics, by size and frames."""
    rows = []
    for size in SIZES:
        for frames, suffix in (("stock", ""), ("lean", "-lean")):
            arms = [f"{physics}{suffix}" for physics in ("newton", "physx")]
            fps = [f"{median_fps(STUDY, arm, size):,.0f}" for arm in arms]
            ratio = fps_ratio(STUDY, arms[1], size, to=arms[0])
            memory = [f"{median_gb(STUDY, arm, size):.2f}" for arm in arms]
            rows.append(
                (f"{size:,}", frames, *fps, f"{ratio.ratio:.2f} ({ratio.lower:.2f} to {ratio.upper:.2f})", *memory)
            )
    heads = (
        "environments", "frames", "Newton FPS", "PhysX FPS", "PhysX ÷ Newton (95% interval)", "Newton GB", "PhysX GB",
    )  # fmt: skip
    return table(heads, rows)


def phases() -> str:
    """Return the milliseconds of phases of an environment step with stock frames, by size."""
    rows = []
    for size in SIZES:
        cells = [f"{size:,}"]
        for phase in ("physics", "other", "render"):
            cells += [f"{1e3 * median_phase_s(STUDY, arm, size, phase) / HORIZON:.2f}" for arm in ("newton", "physx")]
        rows.append(cells)
    heads = ("environments", "physics, Newton", "PhysX", "other, Newton", "PhysX", "rendering, Newton", "PhysX")
    return table(heads, rows)


BLOCKS = {"physx-newton": fps_and_memory, "physx-phases": phases}
