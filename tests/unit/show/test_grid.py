"""Tables as lines: words stay whole at any width that has room for the longest, and no cell gets lost but where a table is to be brief."""

import numpy as np
import pytest
from envknee.show import grid
from envknee.words.tables import Table

WORDS = ("a", "lean", "4,096", "(256", "to", "2,048)", "undecided", "horizon")


def a_table(columns: int, rows: int, seed: int) -> Table:
    """Return a table of random words; the longest has nine characters."""
    draw = np.random.default_rng(seed)

    def row() -> tuple[str, ...]:
        return tuple(" ".join(draw.choice(WORDS, size=draw.integers(1, 5))) for _ in range(columns))

    return Table("made up", row(), [row() for _ in range(rows)])


@pytest.mark.parametrize("width", [24, 40, 80, 100])
@pytest.mark.parametrize("columns", [2, 3, 6, 20])
@pytest.mark.parametrize("rows", [1, 2, 10])
def test_no_line_is_too_wide_and_no_word_is_broken(width: int, columns: int, rows: int):
    for seed in range(10):
        table = a_table(columns, rows, seed)
        for lines in (grid.whole(table, width), grid.brief(table, width)):
            assert max(map(len, lines)) <= width
            words = {word.strip(":()") for line in lines for word in line.split()}
            assert {word for word in words if word.strip("─")} <= {word.strip("()") for word in (*WORDS, "every")}
        shown = {word.strip(":") for line in grid.whole(table, width) for word in line.split()}
        assert {word for row in (table.columns, *table.rows) for cell in row for word in cell.split()} <= shown


def test_a_table_that_fits_is_drawn_as_it_stands():
    table = Table("", ("arm", "gives"), [("lean", "10 FPS"), ("stock", "9 FPS")])
    drawn = ["arm     gives", "──────────────", "lean    10 FPS", "stock   9 FPS"]
    assert grid.whole(table, 14) == grid.brief(table, 14) == drawn


def test_a_column_with_one_cell_for_all_becomes_a_line_first():
    table = Table("", ("arm", "gives", "limited by"), [("lean", "10 FPS", "memory"), ("stock", "9 FPS", "memory")])
    assert grid.brief(table, 80)[0] == "arm     gives    limited by"
    expected = [
        "arm     gives",
        "──────────────",
        "lean    10 FPS",
        "stock   9 FPS",
        "limited by: memory",
        "(every arm)",
    ]
    assert grid.brief(table, 20) == grid.whole(table, 20) == expected


def test_a_brief_table_drops_its_last_columns_and_a_whole_one_is_split():
    columns = ("arm", "gives", "threshold", "limited by")
    table = Table(
        "", columns, [("lean", "10 FPS", "over 8,192", "memory"), ("stock", "9 FPS", "1,024", "nothing yet")] * 3
    )
    assert grid.brief(table, 30)[0] == "arm     gives    threshold"
    heads = [line for line in grid.whole(table, 30) if line.startswith("arm")]
    assert heads == ["arm     gives    threshold", "arm     limited by"]


def test_few_rows_become_columns():
    columns = tuple(f"setting {number}" for number in range(9))
    table = Table("", columns, [tuple("1,024" for _ in columns), tuple(f"{number}" for number in range(9))])
    lines = grid.whole(table, 40)
    assert lines[0] == "setting 0   1,024   0" and lines[-1] == "setting 8   1,024   8"


def test_a_row_without_a_cell_for_each_heading_is_an_error():
    with pytest.raises(ValueError, match="cards: 3 cells below 2 headings"):
        grid.whole(Table("cards", ("card", "lean"), [("8 GB", "1", "2")]), 80)


def test_a_name_that_no_terminal_has_room_for_ends_in_an_ellipsis():
    table = Table("", ("arm", "gives"), [("a" * 200, "10 FPS")])
    for lines in (grid.whole(table, 40), grid.brief(table, 40)):
        assert max(map(len, lines)) <= 40 and any("…" in line for line in lines)
