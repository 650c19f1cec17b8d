"""What trials on the other GPUs of a machine cost: how rounds become ratios. Real GPUs are in test_gpu.py."""

import pytest
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
