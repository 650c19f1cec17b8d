"""docs/scaling.md: what choosing trials saves, asked of recorded grids again."""

from envknee.study.load import read_study

from benchmarks.economy_replay import Answers, answers_of, replay, with_drawn
from benchmarks.pages.cells import table
from benchmarks.pages.published import PUBLISHED, records_of

SEEDS = range(3)
"""Draws of the repeats that were not measured; each takes seconds."""
REPEATS = 5
"""Repeats of each point, with the drawn ones."""


def adaptive_beside_grid() -> str:
    """Return trials and device time of `sampler: adaptive`, beside those of the whole grid."""
    one, full = "cartpole-one-gpu", "cartpole-one-gpu-full"
    measured = answers_of(read_study(PUBLISHED[one].study), "throughput", records_of(one))
    rows = [
        ("`cartpole-one-gpu` (H100, one horizon, 3 repeats measured)", *cells(one, [measured])),
        (f"the same, {REPEATS} repeats (2 drawn)", *cells(one, drawn(one))),
        (
            f"`cartpole-one-gpu-full` (H200, three horizons, {REPEATS} repeats, of which 3 drawn)",
            *cells(full, drawn(full)),
        ),
    ]
    return table(("study", "grid", "adaptive", "of the grid's time"), rows)


def drawn(study: str) -> list[Answers]:
    """Return the grid of a study with `REPEATS` repeats of each point, once for each seed."""
    measured = answers_of(read_study(PUBLISHED[study].study), "throughput", records_of(study))
    return [with_drawn(measured, REPEATS, seed) for seed in SEEDS]


def cells(study: str, grids: list[Answers]) -> tuple[str, str, str]:
    """Return trials and seconds of a grid, and of `sampler: adaptive`, over some draws of it."""
    replays = [replay(read_study(PUBLISHED[study].study), "throughput", grid, "adaptive") for grid in grids]
    records = [record for of_point in grids[0].values() for record in of_point]
    grid_s = sum(record.outcome.total_s * record.world_size for record in records)
    trials = sorted({own.trials for own in replays})
    shares = [own.device_s / grid_s for own in replays]
    ends = dict.fromkeys((f"{min(shares):.0%}", f"{max(shares):.0%}"))
    asked = f"{trials[0]} to {trials[-1]}" if len(trials) > 1 else f"{trials[0]}"
    return f"{len(records)} trials, {grid_s:,.0f} s", f"{asked} trials", " to ".join(ends)


BLOCKS = {"economy-replay": adaptive_beside_grid}
