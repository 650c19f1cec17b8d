"""What trials on the other GPUs of a machine cost: how rounds become ratios. Real GPUs are in test_gpu.py."""

import pytest
from envknee.ask.ask import request_for
from envknee.base.point import Point
from envknee.study.errors import UserError
from envknee.study.load import read_study
from envknee.study.space import Slot
from places import ROOT
from rich.console import Console

from benchmarks import neighbours
from benchmarks.neighbours import Measured

ROUNDS = [
    Measured(1024, blocks, number, alone * share)
    for number, alone in enumerate((100.0, 110.0, 105.0))
    for blocks, share in ((1, 1.0), (2, 0.9), (4, 0.8))
]


def test_each_round_gives_a_ratio_to_one_block_alone():
    for blocks, share in ((2, 0.9), (4, 0.8)):
        pairs = neighbours.ratios([*ROUNDS, Measured(4096, 2, 0, 1.0)], 1024, blocks)
        assert [beside / alone for beside, alone in pairs] == pytest.approx([share] * 3)


def test_the_table_has_a_row_for_each_size_and_count_of_blocks():
    console = Console(width=120)
    with console.capture() as capture:
        console.print(neighbours.shown(ROUNDS, "two GPUs"))
    rows = [line for line in capture.get().splitlines() if "1,024" in line]
    assert len(rows) == 2 and "0.900" in rows[0] and "0.800" in rows[1], rows


@pytest.mark.parametrize(
    ("visible_gpus", "on_one_gpu", "counts"),
    [(2, None, [1, 2]), (4, None, [1, 2, 4]), (3, None, [1, 2]), (1, 4, [1, 4]), (4, 3, [1, 3])],
)
def test_one_block_alone_is_compared_with_as_many_as_there_are_gpus_or_as_were_asked_for(
    visible_gpus, on_one_gpu, counts
):
    assert neighbours.block_counts(visible_gpus, on_one_gpu) == counts


@pytest.mark.parametrize(
    ("visible_gpus", "on_one_gpu", "words"),
    [
        (1, None, "shows 1 NVIDIA GPUs, and neighbours need 2"),
        (0, 4, "expected 2 blocks or more, and a GPU"),
        (1, 1, "expected 2 blocks or more, and a GPU"),
    ],
)
def test_too_few_gpus_or_blocks_are_named(visible_gpus, on_one_gpu, words):
    with pytest.raises(UserError, match=words):
        neighbours.block_counts(visible_gpus, on_one_gpu)


def test_blocks_on_one_gpu_are_timed_for_so_long_that_they_overlap():
    study = read_study(ROOT / "config/studies/stock-lean-warp.yaml")
    assert study.ask_version == 1, "a file that no sweep has begun: version 1 knows no least time"
    request = request_for(
        neighbours.timed_together(study), Slot(0, "lean-warp", "throughput", 0), Point(1024, 32, None), None
    )
    assert request.least_timed_s == neighbours.ON_ONE_GPU_TIMED_S and not request.waits
