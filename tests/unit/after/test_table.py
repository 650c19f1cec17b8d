"""A person's own table: what is read, every way to be wrong, the verdict over it, and the command."""

import json
import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from envknee.after.csv import grid
from envknee.after.csv.command import main, read_table
from envknee.after.csv.rows import COLUMNS
from envknee.after.csv.table import Table, parse, step_of
from envknee.after.csv.verdict import Options, decide
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.model import Decide
from envknee.verdict import learning, memory_limit, throughput
from envknee.verdict.measurements import measurements_of
from envknee.verdict.schema.table import ColumnNotRead, NotMeasured, SeriesVerdict, TableVerdict
from envknee.words.next_measurement import next_measurement
from envknee.words.table import (
    closing_lines,
    detail_lines,
    estimate_statement,
    found,
    found_briefly,
    point_rows,
    series_label,
)
from fps_data import fps_of
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from programs import python, refused, run_main, told
from records import GPU, a_trial, fps_trials, known, records_of

Measured = tuple[int, float | None, float | None]
"""num_envs, FPS, GB."""

REACHED = {16: [100.0, 101.0, 102.0], 32: [200.0, 201.0, 202.0], 64: [202.0, 203.0, 204.0]}


def table(*lines: str) -> Table:
    return parse("\n".join(lines), "fps.csv")


def as_lines(fps: Mapping[int, Sequence[float]]) -> list[str]:
    rows = (f"{n},{repeat},{value}" for n, values in fps.items() for repeat, value in enumerate(values))
    return ["num_envs,repeat,fps", *rows]


def verdict(lines: Sequence[str], **options: Any) -> TableVerdict:
    return decide(table(*lines), "fps.csv", Options(**options))


# --- What is read


def test_columns_in_any_order_and_numbers_as_spreadsheets_write_them():
    read = table('# mine, "unfinished', "", "FPS , Num_Envs", "# half way", "200.5, 32", "", "1e2,16")
    assert [(row.num_envs, row.fps, row.line) for row in read.rows] == [(16, 100.0, 7), (32, 200.5, 5)]
    assert read.columns == {"num_envs", "fps"}
    (row,) = table("num_envs,fps,batch_size", "64.0,5,1.28e2").rows
    assert (row.num_envs, row.batch_size) == (64, 128)


def test_empty_cells_are_missing_and_not_zero():
    (row,) = table("num_envs,fps,vram_gb,batch_size,seconds_to_target,budget_s", "64,5,,,,").rows
    assert (row.vram_gb, row.batch_size, row.seconds_to_target, row.budget_s) == (None, None, None, None)


def test_a_byte_order_mark_is_let_through(tmp_path: Path):
    path = tmp_path / "fps.csv"
    path.write_bytes(b"\xef\xbb\xbfnum_envs,fps\n16,1\n")
    assert read_table(path).rows[0].num_envs == 16


def test_other_columns_are_named_and_left_out():
    assert table("num_envs,fps,vram,gpu", "16,1,n/a,A100").columns_not_read == (
        ColumnNotRead(heading="vram", nearest="vram_gb"),
        ColumnNotRead(heading="gpu", nearest=None),
    )


@pytest.mark.parametrize(
    ("lines", "understood"),
    [
        (("| envs | FPS (k) |", "|---:|---:|", "| 1,024 | **1.5** |"), 2),
        (("envs\tFPS (k)", "1024\t1.5"), 2),
        (("envs;FPS (k)", "1024;1.5"), 2),
        (("num_envs,total_fps", "1024,1500"), 1),
        (("Number of envs,steps/s", "1024,1500"), 2),
    ],
)
def test_tables_as_people_have_them(lines: tuple[str, ...], understood: int):
    read = table(*lines)
    assert [(row.num_envs, row.fps) for row in read.rows] == [(1024, 1500.0)]
    assert len(read.columns_read) == understood
    assert {(column.column, column.factor) for column in read.columns_read} <= {
        ("num_envs", 1.0),
        ("fps", 1.0),
        ("fps", 1000.0),
    }


@pytest.mark.parametrize(
    ("name", "said", "first", "last", "failed"),
    [
        # Spaces between thousands.
        ("a6000-go2.md", "still gaining 20% a doubling at 32,768", (64, 2136.0, None), (32768, 194147.0, None), None),
        # Units within cells, under a heading without one.
        ("physx-12gb.md", "still gaining 19% a doubling at 16,384", (2048, 55425.0, 3.5), (16384, 142034.0, 8.3), None),
        # Bold numbers, and a column of notes.
        ("metal-humanoid.md", "still gaining 21% a doubling at 8,192", (1, 46.0, None), (8192, 198263.0, None), None),
        # Two columns of steps, a remark behind a number, out of memory in another column than FPS.
        ("newton-soft.md", "estimate: 64 environments (a doubling loses 32.1%", (1, 52.0, 1.8), (384, None, None), 384),
        # FPS of training before FPS of the environment, and memory in MB.
        ("mlx-cartpole.md", "still gaining 11% a doubling at 8,192", (16, 29884.0, 0.0949), (8192, 688175.0, 0.0712), None),
        ("maniskill-isaaclab-80px.csv", "still gaining 29% a doubling at 1,024", (4, 647.703, None), (1024, 46796.53, None), None),
        # Tabs, and FPS in thousands.
        ("envpool-pong.tsv", "estimate: 16 environments (a doubling gains 5.9%)", (1, 14577.17, None), (32, 199684.5, None), None),
    ],
)  # fmt: skip
def test_tables_of_seven_projects_as_they_wrote_them(
    name: str, said: str, first: Measured, last: Measured, failed: int | None
):
    path = ROOT / "tests/fixtures/as_written" / name
    read = parse(path.read_text(encoding="utf-8"), name)
    for row, wanted in ((read.rows[0], first), (read.rows[-1], last)):
        assert (row.num_envs, row.fps, row.vram_gb) == pytest.approx(wanted)
    (series,) = decide(read, name, Options()).series
    assert series.estimate is not None and estimate_statement(series.estimate).startswith(said)
    assert [point.num_envs for point in series.throughput.infeasible] == ([] if failed is None else [failed])


def test_two_repeats_get_an_estimate_and_three_a_verdict():
    two = decide(table("num_envs,fps,repeat", "16,100,0", "16,101,1", "32,102,0", "32,103,1"), "t", Options()).series[0]
    estimate = known(two.estimate)
    assert (estimate.num_envs, estimate.assumed_cv) == (16, None) and known(estimate.step).gain == pytest.approx(
        0.0199, abs=1e-4
    )
    single = decide(table("num_envs,fps", "16,100.5", "32,102.5"), "t", Options()).series[0]
    steps = [known(series.estimate).steps[0] for series in (single, two)]
    wide, narrow = (step.gain_upper - step.gain_lower for step in steps)
    assert narrow < wide, "a mean of two is less noisy than one"
    three = verdict(as_lines({16: [100.0, 100.1, 100.2], 32: [100.0, 100.1, 100.2]})).series[0]
    assert (three.estimate, three.throughput.state) == (None, "reached")


def test_units_of_memory_and_a_name_of_its_own_before_others():
    (row,) = table("num_envs,fps,total_fps,VRAM (MiB)", "16,5,7,1000").rows
    assert (row.fps, row.vram_gb) == (5.0, pytest.approx(1.048576))
    assert table("num_envs,fps,VRAM (GiB)", "16,5,1").rows[0].vram_gb == pytest.approx(2**30 / 1e9)
    assert table("num_envs,fps,vram_mb", "16,5,1500").rows[0].vram_gb == pytest.approx(1.5)


def test_training_bundles_are_read_and_other_json_is_refused():
    bundles = [{"run": {"num_envs": 16}, "runtime": {"total_fps": {"mean": fps}}} for fps in (5.0, 6.0)]
    assert [(row.repeat, row.fps) for row in parse(json.dumps(bundles), "b.json").rows] == [(0, 5.0), (1, 6.0)]
    assert parse(json.dumps(bundles[0]), "b.json").rows[0].fps == 5.0
    with pytest.raises(UserError, match="no training bundle of Isaac Lab"):
        parse('{"fps": 3}', "b.json")


# --- Every way to be wrong: the line, the column, the value, what was expected and what to do


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        *((lines, ["holds no measurement", "num_envs,fps"]) for lines in ((), ("# only this",), ("num_envs,fps",))),
        (("num_env,fps", "16,1"), ["line 1", "no column 'num_envs'", "did you mean 'num_env'?", "Rename the column"]),
        (("num_envs,fsp", "16,1"), ["no column 'fps'", "did you mean 'fsp'?"]),
        (("num_envs,speed", "16,1"), ["no column 'fps'", "'num_envs', 'speed'", "add it"]),
        (("num_envs,fps,fps", "16,1,2"), ["column 'fps' stands there 2 times"]),
        (("num_envs,fps,budget_s", "16,1,2"), ["'budget_s' needs a column 'seconds_to_target'"]),
        (("num_envs,fps", "16,fast"), ["line 2", "column 'fps' is 'fast'", "a number from 1e-09 to 1e+15", "in digits", "`oom`"]),
        (("num_envs,fps", "16,1", "many,2"), ["line 3", "column 'num_envs' is 'many'", "a whole number from 1 to 1e+12"]),
        (("num_envs,fps", "16,1_00"), ["'1_00'", "separators of thousands"]),
        (("num_envs,fps", "16,1,000"), ["line 2: 3 cells, and the header has 2", "no comma within a number"]),
        (("num_envs,fps", "16"), ["line 2: 1 cells, and the header has 2"]),
        (("num_envs,fps", "16,"), ["column 'fps' is empty"]),
        (("num_envs,fps", "16,-inf"), ["column 'fps' is '-inf'"]),
        (("num_envs,fps,vram_gb", "16,1,NaN"), ["column 'vram_gb' is 'NaN'", "leave the cell empty"]),
        (("num_envs,fps", "16,0"), ["column 'fps' is '0'"]),
        (("num_envs,fps", "16,-3.5"), ["column 'fps' is '-3.5'"]),
        (("num_envs,fps", "16,1e999"), ["column 'fps' is '1e999'"]),
        (("num_envs,fps", "0,5"), ["column 'num_envs' is '0'"]),
        (("num_envs,fps", "1e999,5"), ["column 'num_envs' is '1e999'"]),
        (("num_envs,fps", "16.5,5"), ["column 'num_envs' is '16.5'", "a whole number"]),
        (("num_envs,fps,repeat", "16,5,"), ["column 'repeat' is empty"]),
        (("num_envs,fps", "16,5", "32,6", "16,7"), ["line 4", "line 2", "num_envs 16", "no column 'repeat'"]),
        (
            ("num_envs,fps,repeat,horizon,batch_size", "16,5,1,8,64", "16,6,1,8,64"),
            ["line 3", "line 2", "num_envs 16, horizon 8, batch_size 64, repeat 1", "add a column that names it"],
        ),
        (("num_envs,fps,seconds_to_target", "16,oom,5"), ["fps is oom and seconds_to_target 5"]),
        (("num_envs,fps,seconds_to_target,budget_s", "16,1,70,60"), ["70 is above budget_s 60"]),
        (("num_envs,fps", '16,"1'), ["not CSV", "Close every quote"]),
    ],
)  # fmt: skip
def test_an_error_says_where_what_and_what_to_do(lines: tuple[str, ...], said: list[str]):
    assert told(lambda: table(*lines), *said).startswith("fps.csv")


def a_bundle(num_envs: str = "16", fps: str = "5") -> str:
    return f'{{"run": {{"num_envs": {num_envs}}}, "runtime": {{"total_fps": {{"mean": {fps}}}}}}}'


HUGE = {
    "nested list": ("[" * 200_000, "it is nested too deeply"),
    "nested object": ('{"a":' * 100_000, "it is nested too deeply"),
    "infinite environments": (a_bundle("Infinity"), "an infinite number"),
    "400 digits of FPS": (a_bundle(fps="9" * 400), "one of hundreds of digits"),
    "400 digits of environments": (a_bundle("9" * 400), "expected a whole number from 1"),
    "5,000 digits": (a_bundle("9" * 5000), "is missing or wrong"),
    "NaN": (a_bundle(fps="NaN"), "expected a number from"),
    "400 digits in a cell": (f"num_envs,fps\n{'9' * 400},1", "expected a whole number from 1"),
    "an exponent": ("num_envs,FPS (k)\n16,1e999999999", "expected a number from"),
    "bytes": ("num_envs,fps\n" + "16,5\n" * 3_000_000, "has more than 10,000,000 bytes"),
    "columns": (
        "num_envs,fps" + ",c" * 50_000 + "\n16,5" + ",1" * 50_000,
        "the table has 50,002 columns, more than 500",
    ),
    "rows": ("num_envs,fps,repeat\n" + "".join(f"16,5,{n}\n" for n in range(500_000)), "more than 5,000 rows"),
    "bundles": (f"[{','.join([a_bundle()] * 100_000)}]", "more than 5,000 rows"),
    "a heading of brackets": (f"num_envs,fps{'(' * 100_000}\n16,5", "a cell of 100,003 characters"),
    "a cell of commas": (f"| num_envs | fps |\n|--|--|\n| 16 | {'1,' * 200_000} |", "a cell of 400,002 characters"),
    "a cell of spaces": (f"| num_envs | fps |\n|--|--|\n| 16 | 5{' ' * 300_000}x |", "a cell of 300,004 characters"),
    "a table of tabs": (f"num_envs\tfps\n16\t5{' ' * 300_000}x", "a cell of 300,002 characters"),
    "an open quote": ('num_envs,fps\n16,"' + "5\n" * 400_000, "not CSV"),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_nobody_measured_is_refused_in_seconds(name: str, tmp_path: Path):
    text, words = HUGE[name]
    (tmp_path / "huge.csv").write_text(text)
    done = python("-m", "envknee", "limits", tmp_path / "huge.csv", timeout=60)
    assert words in refused(done, status=2)


def test_a_file_without_an_end_is_refused(tmp_path: Path):
    (tmp_path / "endless.csv").symlink_to("/dev/zero")
    told(lambda: read_table(tmp_path / "endless.csv"), "has more than 10,000,000 bytes")


def test_the_largest_table_takes_seconds():
    def seconds(rows: int, columns: int) -> float:
        sizes = [f"{16 + n // 3},{500 + n},{n % 3}" for n in range(rows)]
        notes = ",".join(f"note{n}" for n in range(columns))
        began_s = time.process_time()
        verdict(["num_envs,fps,repeat", *sizes])
        table(f"num_envs,fps,repeat,{notes}", f"16,5,0{',x' * columns}")
        return time.process_time() - began_s

    tenth_s = min(seconds(grid.MOST_ROWS // 10, grid.MOST_COLUMNS // 10) for _ in range(3))
    # In time that grows with the square, it would be a hundred times as long.
    assert seconds(grid.MOST_ROWS - 1, grid.MOST_COLUMNS - 3) < 50 * tenth_s


def test_the_same_num_envs_at_another_horizon_batch_or_repeat_is_no_duplicate():
    assert len(table("num_envs,fps,horizon", "16,5,8", "16,6,16").rows) == 2
    assert len(table("num_envs,fps,batch_size", "16,5,8", "16,6,16").rows) == 2
    assert len(table("num_envs,fps,repeat", "16,5,0", "16,6,1").rows) == 2


@pytest.mark.parametrize("data", [b"num_envs,fps\n16,\xff\n", "num_envs,fps\n16,1\n".encode("utf-16"), b"a\0b"])
def test_not_utf_8(data: bytes, tmp_path: Path):
    path = tmp_path / "fps.csv"
    path.write_bytes(data)
    with pytest.raises(
        UserError, match=r"fps\.csv cannot be read: ('utf-8' codec .* position|it holds NUL bytes).*UTF-8 text"
    ):
        read_table(path)


@settings(deadline=None)
@given(st.text(alphabet='num_evsfp,0123456789.\n"#-;oe \t\r', max_size=60).map(lambda text: f"num_envs,fps\n{text}"))
def test_any_text_is_a_table_or_a_user_error(text: str):
    try:
        read = parse(text, "fps.csv")
    except UserError:
        return
    canonical_json(decide(read, "fps.csv", Options(device_gb=80.0)))


# --- The verdict


def test_reached_is_the_verdict_of_the_same_records():
    (series,) = verdict(as_lines(REACHED)).series
    (limit,) = throughput.analyse(
        measurements_of(records_of(fps_trials(REACHED, horizon=1, batch_size=None))), Decide()
    )
    assert series.throughput.model_copy(update={"arm": "stock"}) == limit
    assert (limit.state, limit.threshold_num_envs, series.measure_next) == ("reached", 32, None)


def test_learning_and_memory_are_those_of_the_same_records():
    seconds = {16: [40.0, 41.0, None], 32: [20.0, 20.5, 21.0], 64: [19.0, 20.0, 21.0]}
    each = [(n, i, s, 1 + n / 10 + i / 100) for n, values in seconds.items() for i, s in enumerate(values)]
    header = "num_envs,repeat,fps,horizon,batch_size,vram_gb,seconds_to_target,budget_s"
    lines = [f"{n},{i},{n},8,128,{gb},{'' if s is None else s},60" for n, i, s, gb in each]
    said = verdict([header, *lines], device_gb=85.0)
    trials = [
        a_trial(n, number=10 * n + i, kind="learning", seconds=s, memory_gb=gb, device=GPU) for n, i, s, gb in each
    ]
    (learned,) = learning.analyse(measurements_of(records_of(trials)), Decide())
    limit = known(memory_limit.analyse(records_of(trials), Decide()))
    ours, memory = known(said.series[0].learning), known(said.memory)
    assert (ours.state, ours.threshold_num_envs, ours.gains) == (learned.state, None, learned.gains)
    assert [point.timeout for point in ours.points] == [1, 0, 0]
    assert (memory.terms_gb, memory.walls) == (limit.terms_gb, limit.walls)


def next_step(series: SeriesVerdict) -> str:
    return next_measurement(known(series.measure_next), series.throughput)


def test_one_point_only():
    (series,) = verdict(["num_envs,fps", "64,100"]).series
    assert found(series).endswith("one point (64 environments): a doubling needs two")
    assert next_step(series) == (
        "Measure 128 environments: no doubling is measured yet, and at least 3 repeats of each point (now 1)."
    )


def test_unsorted_rows_change_nothing():
    lines = as_lines(REACHED)
    assert verdict([lines[0], *lines[:0:-1]]).series == verdict(lines).series


def test_any_num_envs_pairs_with_its_double_and_the_others_are_told():
    lines = as_lines({100: [10.0, 10.1, 10.2], 200: [19.0, 19.1, 19.2], 300: [20.0, 20.1, 20.2]})
    (series,) = verdict(lines).series
    assert [(gain.num_envs, gain.doubled) for gain in series.throughput.gains] == [(100, 200)]
    note = "300 environments: measured, but neither half nor double was; in no doubling"
    assert ("note", note) in detail_lines(series)
    assert next_step(series) == "Measure 600 environments: 300 is in no doubling yet."
    alone = verdict(["num_envs,fps", "100,1", "150,2", "350,3"]).series[0]
    assert alone.throughput.gains == [] and alone.estimate is not None and alone.estimate.num_envs is None
    assert next_step(alone).startswith("Measure 350 and 700 environments, 3 times each")


def test_out_of_memory_is_a_result_and_names_what_is_left_to_measure():
    lines = ["num_envs,fps,vram_gb", "100,10,1", "200,20,2", "400,oom,"]
    said = verdict(lines, device_gb=4.0)
    (series,) = said.series
    assert [(point.num_envs, point.oom) for point in series.throughput.infeasible] == [(400, 1)]
    assert next_step(series).startswith("Memory ends the curve: 400 did not fit")
    assert said.memory is not None and said.memory.walls[0].smallest_failed == 400
    lonely = verdict(["num_envs,fps", "100,10", "150,oom"]).series[0]
    assert next_step(lonely).startswith("Measure 50 environments: no doubling is measured yet")
    nothing = verdict(["num_envs,fps", "100,oom"]).series[0]
    assert (nothing.throughput.state, next_step(nothing)) == (
        "no data", "Measure a num_envs that fits the memory, and twice as many."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ((20_000.0, 22_000.0, 24_000.0), 1_000.0),
        ((20_500.0, 22_000.0), 500.0),
        ((20_500.0, 22_010.0), 10.0),
        ((1.5, 2.0), 0.5),
        ((0.3, 0.1), 0.1),
        ((1e15,), 1e15),
        ((1 / 3, 2.0), 0.0),
        ((), 0.0),
    ],
)
def test_values_tell_what_they_were_rounded_to(values: tuple[float, ...], step: float):
    assert step_of(values) == step


@pytest.mark.parametrize("count", [2, 3, 5])
def test_rounded_fps_reach_no_threshold_oftener_than_the_confidence_allows(count: int):
    # Every doubling gains delta, the worst case. Taken as they stand, rounded repeats that agree reached one in 18 to 54% of these.
    wrong = studies = 0
    random = np.random.default_rng(count)
    for first in random.uniform(18_000.0, 24_000.0, 40):
        for _ in range(5):
            noise = np.exp(0.005 * random.standard_normal((3, count)))
            fps = np.round(first * np.array([[1.0], [1.1], [1.21]]) * noise / 500.0) * 500.0
            (series,) = verdict(as_lines(dict(zip((256, 512, 1024), fps.tolist(), strict=True)))).series
            wrong += series.throughput.state == "reached"
            studies += 1
    assert wrong / studies <= 0.05


def test_rounding_counts_as_noise_and_is_told_where_it_is_coarse():
    coarse = verdict(as_lines({16: [20_000] * 3, 32: [21_000] * 3}))
    fine = verdict(as_lines({16: [20_000, 20_001, 20_002], 32: [21_000, 21_001, 21_002]}))
    assert [table.series[0].throughput.state for table in (coarse, fine)] == ["undecided", "reached"]
    assert (coarse.fps_step, fine.fps_step) == (1_000.0, None)
    point = coarse.series[0].throughput.points[0]
    assert point.fps_lower is not None and point.fps_lower < 20_000.0 - 1_000.0 / 12**0.5


def test_horizons_and_batches_are_series_of_their_own():
    said = verdict(["num_envs,fps,horizon,batch_size", "16,1,8,64", "32,2,8,64", "16,3,16,64", "16,4,8,"])
    assert [(series_label(series, said), len(series.throughput.points)) for series in said.series] == [
        ("horizon 8, batch 64", 2), ("horizon 16, batch 64", 1), ("horizon 8, library batch", 1)
    ]  # fmt: skip


def test_without_a_horizon_only_the_seconds_of_the_law_differ():
    sizes = (16, 32, 64, 128)
    (plain,) = verdict(["num_envs,fps", *(f"{n},{fps_of(n)}" for n in sizes)]).series
    (given_one,) = verdict(["num_envs,fps,horizon", *(f"{n},{fps_of(n)},8" for n in sizes)]).series
    plain_law, given_law = known(plain.throughput.law), known(given_one.throughput.law)
    assert plain_law.asymptote_fps == pytest.approx(given_law.asymptote_fps) == pytest.approx(8000)
    assert plain_law.half_saturation_num_envs == pytest.approx(given_law.half_saturation_num_envs)
    assert given_law.t0_s == pytest.approx(8 * plain_law.t0_s)


def test_an_empty_time_without_a_budget_is_not_measured_and_said():
    said = verdict(["num_envs,fps,seconds_to_target", "16,1,5", "32,2,"])
    assert [point.num_envs for point in known(said.series[0].learning).points] == [16]
    assert said.not_measured == NotMeasured(rows=1, num_envs=[32])


def test_memory_without_a_device_and_without_a_column():
    lines = ["num_envs,fps,vram_gb", "16,1,1", "32,2,2", "64,3,4"]
    without = verdict(lines).memory
    assert without is not None and without.device_memory_gb is None and without.identifiable
    assert verdict(["num_envs,fps", "16,1"]).memory is None
    assert [wall.batch_size for wall in known(verdict(lines, device_gb=80.0).memory).walls] == [None]


# --- Its words


def test_notes_on_a_table_are_said_from_what_was_read():
    lines = ["envs,FPS (k),repeat,vram,seconds_to_target", "16,20,0,n/a,5", "16,20,1,n/a,6", "32,21,0,n/a,"]
    assert closing_lines(verdict(lines)) == [
        ("read", "fps.csv: 3 rows; a doubling stops paying below 10%, confidence 95%"),
        ("note", "column 'envs' is read as num_envs"),
        ("note", "column 'FPS (k)' is read as fps x 1,000"),
        ("note", "column 'vram' is not read (did you mean 'vram_gb'?)"),
        ("note", "every fps is a multiple of 1,000: repeats may hide what was rounded away, and it counts as noise. Give more"
         " digits where there are more"),
        ("note", "1 row (at 32 environments) without seconds_to_target and budget_s: taken as not measured; give budget_s where"
         " the target was not reached"),
    ]  # fmt: skip


def test_an_estimate_is_said_with_its_noise_and_a_size_with_what_a_step_from_it_gains():
    lines = ["num_envs,fps", "16,100", "32,150", "48,160", "96,120", "192,oom"]
    (series,) = verdict(lines, assume_cv=0.02).series
    assert known(series.estimate).falls_beyond == 48
    assert found(series) == "estimate: 48 environments (a doubling loses 25.0%; FPS fall beyond 48)"
    name, interval = detail_lines(series)[0]
    assert name == "interval" and ", with noise of 2.0% (--assume-cv)" in interval
    assert ("note", "one repeat per point: an estimate, not a verdict") in detail_lines(series)
    assert ("note", "infeasible (out of memory or refused): 192 environments") in detail_lines(series)
    assert [(row.size, row.fps, row.gain, row.remark) for row in point_rows(series)] == [
        ("16", "100", "+50.0%", ""),
        ("32", "150", "+11.7%", "to 48"),
        ("48", "160", "-25.0%", "estimate, FPS fall"),
        ("96", "120", "", ""),
        ("192", "", "", "out of memory"),
    ]  # fmt: skip


def test_a_title_has_the_limit_in_a_few_words():
    titles = [
        found_briefly(verdict(as_lines(fps)).series[0])
        for fps in (REACHED, {16: [100.0, 101.0, 102.0], 32: [200.0, 201.0, 202.0]}, {16: [100.0] * 3, 64: [150.0] * 3})
    ]
    assert titles[0].startswith("reached at 32 environments: doubling 32 gains 1.0% (at most ")
    assert titles[1].startswith("still pays at 32 environments: doubling 16 gains 99.0% (at least ")
    assert titles[2].startswith("undecided up to 64 environments: no measured num_envs is twice another")


# --- The command


def command(*arguments: str | Path, columns: int = 120) -> subprocess.CompletedProcess[str]:
    variables = {"PYTHONPATH": str(Path(memory_limit.__file__).parents[2]), "COLUMNS": str(columns)}
    return python("-m", "envknee", "limits", *arguments, env=variables)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "fps.csv"
    lines = [f"{line},{float(line.split(',')[0]) / 10}" for line in as_lines(REACHED)[1:]]
    path.write_text("\n".join(["num_envs,repeat,fps,vram_gb", *lines]) + "\n", encoding="utf-8")
    return path


def test_the_command_prints_threshold_interval_gains_law_and_memory(file: Path):
    done = command(file, "--device-gb", "80", columns=200)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for start in (
        "read fps.csv: 9 rows; a doubling stops paying below 10%, confidence 95%",
        "32 201 3 +1.0% -0.1% to +2.1% threshold",
        "throughput reached at 32 environments: doubling to 64 gains 1.0%",
        "interval the threshold is 32 alone",
        "law ",
        "memory far from binding: 95% of the GPU's 80.0 GB",
    ):
        assert any(line.startswith(start) for line in lines), start


def test_the_command_prints_an_estimate_without_columns_that_say_unknown():
    """Memory of 384 environments that did not fit cannot be on the line through the other peaks: what was measured is said."""
    done = command(ROOT / "tests/fixtures/as_written/newton-soft.md", "--device-gb", "25.8", columns=100)
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert [line.split()[0] for line in lines[:4] if line[0].islower()][:2] == ["throughput", "memory"]
    for start in (
        "memory 256 environments fit as measured, 384 did not; no line through the peaks",
        "envs FPS a doubling gains 95% interval",
        "64 1,141 -32.1% -36.4% to -27.4% estimate, FPS fall",
        "384 out of memory",
        "note one repeat per point: an estimate, not a verdict",
        "note column 'env-steps/s' is read as fps",
    ):
        assert any(line.startswith(start) for line in lines), start
    unsure = command(ROOT / "tests/fixtures/published/genesis_4090l.csv")
    assert "MB per environment (largest error" in unsure.stdout and "give --device-gb to see" in unsure.stdout
    assert "unknown" not in done.stdout and max(map(len, done.stdout.splitlines())) <= 100


def test_the_command_prints_json(file: Path):
    done = command(file, "--json", "--delta", "0.005", "--confidence", "0.9")
    said = TableVerdict.model_validate(json.loads(done.stdout))
    assert (said.delta, said.confidence, said.source) == (0.005, 0.9, "fps.csv")
    assert said.series[0].throughput.threshold_num_envs is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.csv"], "none.csv cannot be read: No such file or directory"),
        (["."], "cannot be read: Is a directory"),
        (["fps.csv", "--delta", "10"], "--delta is 10: Input should be less than 1. Give a number such as 0.1."),
        (["fps.csv", "--confidence", "0.1"], "--confidence is 0.1"),
        (
            ["fps.csv", "--device-gb", "-1"],
            "--device-gb is -1: Input should be greater than 0. Give a number such as 80.",
        ),
        (["fps.csv", "--device-gb", "nan"], "--device-gb is nan: Input should be a finite number"),
    ],
)
def test_the_command_explains_what_is_wrong(arguments: list[str], said: str, file: Path, monkeypatch):
    monkeypatch.chdir(file.parent)
    with pytest.raises(UserError, match=re.escape(said)):
        run_main(main, *arguments)


def test_an_error_is_a_line_and_an_exit_status(tmp_path: Path):
    done = command(tmp_path / "none.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("envknee: ") and done.stderr.count("\n") == 1


def test_help_names_every_column_and_how_to_censor_and_its_example_is_a_table():
    text, _, example = command("--help").stdout.partition("example:\n")
    assert all(f"  {column} " in text for column in COLUMNS)
    assert "leave\nseconds_to_target empty and give its budget_s" in text
    assert len(parse("\n".join(line.strip() for line in example.splitlines()), "help").rows) == 4
