"""docs/two-cameras.md: what a second camera costs, and what fits in 8 GB."""

from statistics import median

from envknee.record.schema import Phase
from envknee.verdict.schema.levers import Change, Remedies
from envknee.words.remedies import remedies_statement

from benchmarks.pages.cells import table
from benchmarks.pages.published import median_fps, median_gb, median_phase_s, timed_records, verdict_of

CAMERAS, CARD = "cartpole-dual-camera", "cartpole-small-card"
ARMS = ("one-camera", "two-cameras")
SIZES = (128, 512, 2048)
OF_A_STEP: dict[Phase, str] = {"observation": "frames", "render": "rendering", "physics": "physics"}
COMMON = 16
"""num_envs at which the remedies' FPS and memory are compared."""


def second_camera() -> str:
    """Return FPS and memory with one camera and with two, by size."""
    rows = []
    for size in SIZES:
        one, two = (median_fps(CAMERAS, arm, size) for arm in ARMS)
        steps = [
            median(own.fps_env_step.median for own in timed_records(CAMERAS, arm, size) if own.fps_env_step)
            for arm in ARMS
        ]
        few, more = (median_gb(CAMERAS, arm, size) for arm in ARMS)
        rows.append(
            (
                f"{size:,}", f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}", f"{steps[1] / steps[0]:.2f}",
                f"{few:.2f}", f"{more:.2f}", f"{more / few:.2f}",
            )
        )  # fmt: skip
    heads = (
        "environments",
        "FPS, one camera",
        "FPS, two",
        "ratio",
        "of an environment step",
        "GB, one",
        "GB, two",
        "ratio",
    )
    return table(heads, rows)


def where_time_goes() -> str:
    """Return the phases of an environment step, and of an iteration, with one camera and with two."""
    horizon, size = 32, SIZES[-1]
    rows = []
    for phase, what in OF_A_STEP.items():
        one, two = (1e3 * median_phase_s(CAMERAS, arm, size, phase) / horizon for arm in ARMS)
        rows.append((f"{what}, of an environment step", f"{one:.2f} ms", f"{two:.2f} ms"))
    one, two = (median_phase_s(CAMERAS, arm, size, "learning") for arm in ARMS)
    rows.append(("learning, of an iteration", f"{one:.2f} s", f"{two:.2f} s"))
    return table((f"phase, {size:,} environments", "one camera", "two"), rows)


def on_a_small_card() -> str:
    """Return what each remedy makes fit in 8 GB, with its FPS and memory."""
    found = _remedies()
    own_gb = median_gb(CARD, found.baseline, COMMON)
    fps = median_fps(CARD, found.baseline, COMMON, found.horizon)
    wall = found.baseline_wall
    assert wall is not None
    rows = [(f"`{found.baseline}`", f"{wall.largest_num_envs:,}", "1", f"{fps:,.0f}", f"{own_gb:.2f}")]
    for remedy in found.remedies:
        assert remedy.fits is not None and remedy.fps is not None and remedy.at_num_envs == COMMON
        rows.append(
            (
                f"`{remedy.arm}`",
                f"{remedy.largest_num_envs:,}",
                f"{1.0 + remedy.fits.value:.2f}",
                _shown(remedy.fps),
                f"{remedy.peak_gb:.2f}",
            )
        )
    heads = (
        "arm", "environments that fit, by the model", "times as many (no interval)", f"FPS with {COMMON}", f"GB with {COMMON}",
    )  # fmt: skip
    return table(heads, rows)


def advice() -> str:
    """Return the report's advice, as a quotation."""
    return f"> {remedies_statement(_remedies())}"


def each_repeat(arm: str) -> str:
    """Return the FPS of an arm's repeats at the common size."""
    fps = [own.fps_total.median for own in timed_records(CARD, arm, COMMON) if own.fps_total is not None]
    return " and ".join(f"{own:,.0f}" for own in fps)


def _remedies() -> Remedies:
    found = verdict_of(CARD).remedies
    assert found is not None
    return found


def _shown(change: Change) -> str:
    if change.shown == "not shown" or change.lower is None or change.upper is None:
        return "not shown"
    return f"{change.value:+.0%} ({change.lower:+.0%} to {change.upper:+.0%})"


BLOCKS = {
    "two-cameras": second_camera,
    "two-cameras-phases": where_time_goes,
    "small-card": on_a_small_card,
    "small-card-advice": advice,
    "small-card-baseline": lambda: each_repeat("baseline"),
    "small-card-128-pixels": lambda: each_repeat("128-pixels"),
}
