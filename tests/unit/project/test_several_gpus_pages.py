"""Tables of studies with several GPUs, on those that are published. Numbers of today's pages say the same."""

import pytest
from published import ROOT

from benchmarks.pages import several_gpus

SCALING, LEARNING = "cartpole-two-gpus-lean", "cartpole-two-gpu-learning"


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of a table in Markdown, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]


def test_efficiency_has_the_numbers_that_stand_in_the_docs():
    rows = rows_of(several_gpus.efficiency(SCALING))
    assert [row[:3] for row in rows] == [
        ["lean", "1,024", "2"], ["lean", "4,096", "2"], ["Isaac Lab's", "1,024", "2"], ["Isaac Lab's", "4,096", "2"],
    ]  # fmt: skip
    page = (ROOT / "docs/measuring.md").read_text(encoding="utf-8")
    for frames, size, _, *cells in rows:
        assert f"| {frames} | {size} | {' | '.join(cells)} |" in page


@pytest.mark.parametrize(("study", "rows"), [(SCALING, 4), ("cartpole-two-gpus", 3)])
def test_parts_of_a_loss_add_up_to_it(study: str, rows: int):
    found = rows_of(several_gpus.losses(study))
    assert len(found) == rows
    for row in found:
        more, slowest, exchange, collecting = (float(cell.replace(",", "")) for cell in row[4:8])
        assert slowest + exchange + collecting == pytest.approx(more, abs=0.21)  # each is rounded
        assert (row[8] == "–") == (collecting <= 0.0)


def test_costs_to_the_target_have_intervals_and_gpu_seconds_count_every_gpu():
    soonest, alone, pipeline = rows_of(several_gpus.sooner(LEARNING))
    assert soonest[:5] == ["2", "1,024", "8,192", "5 of 5", "27.2 (23.3 to 31.8)"]
    assert soonest[5] == "54.4 (46.5 to 63.7)"
    assert alone[0] == "1" and alone[4] == alone[5]
    assert pipeline[:2] == ["2", "1,024"]  # of its two GPUs one simulates


def test_ways_to_use_two_gpus_tell_staleness_only_of_a_pipeline():
    ways = {"pipeline": ("a pipeline", 1024), "data-parallel": ("data-parallel", 512), "none": ("no such arm", 1)}
    pipeline, parallel = rows_of(several_gpus.strategies(LEARNING, ways))
    assert (pipeline[0], pipeline[3], parallel[3]) == ("a pipeline", "1", "0")
    assert pipeline[1] == parallel[1] == "1,024"
    assert (parallel[8], parallel[9]) == ("27.6 (25.1 to 31.6)", "2.75 (2.23 to 2.98)")  # as in docs/trainers.md
