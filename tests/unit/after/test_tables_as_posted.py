"""Tables as people post them: each of a corpus gets its right answer, and a series gets one answer in any layout and heading."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from envknee.after.csv.command import read_table
from envknee.after.csv.table import Choice, parse
from envknee.after.csv.verdict import Options, compare, decide
from envknee.study.errors import UserError
from envknee.verdict.schema.table import TableVerdict
from envknee.words.table import closing_lines, estimate_statement, found, no_curve_lines, series_label
from envknee.words.tables_beside import beside_statement, scaling_statement
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from programs import told

FOLDER = ROOT / "tests/fixtures/tables"
ANSWERS: dict[str, list[Any]] = json.loads((FOLDER / "answers.json").read_text(encoding="utf-8"))


def answer_of(verdict: TableVerdict) -> list[Any]:
    """Return what the corpus knows of each series: label, ends, sizes that did not fit, and the limit in words."""
    if verdict.no_curve:
        return [text for _, text in no_curve_lines(verdict)]
    answers = []
    for series in verdict.series:
        points = series.throughput.points
        ends = [[point.num_envs, round(point.fps, 1)] for point in (points[0], points[-1])] if points else []
        failed = [point.num_envs for point in series.throughput.infeasible]
        answers.append([series_label(series, verdict), ends, failed, found(series)])
    return answers


@pytest.mark.parametrize("name", ANSWERS)
def test_a_posted_table_gets_its_answer(name: str):
    assert answer_of(decide(read_table(FOLDER / name), name, Options())) == ANSWERS[name]


def test_the_corpus_is_whole():
    files = {path.name for path in FOLDER.iterdir()} - {"README.md", "answers.json"}
    assert files == ANSWERS.keys() and len(files) >= 40


# --- One series in every layout and heading

Series = Sequence[tuple[int, int]]
"""num_envs and FPS."""


def as_csv(envs: str, fps: str, rows: Series) -> str:
    return "\n".join([f'"{envs}","{fps}"', *(f"{n},{value}" for n, value in rows)])


def as_quoted_csv(envs: str, fps: str, rows: Series) -> str:
    return "\n".join([f'"{envs}","{fps}"', *(f'"{n:,}","{value:,}"' for n, value in rows)])


def as_semicolons(envs: str, fps: str, rows: Series) -> str:
    return "\n".join([f"{envs};{fps}", *(f"{n};{value},0" for n, value in rows)])


def as_tabs(envs: str, fps: str, rows: Series) -> str:
    return "\n".join([f"{envs}\t{fps}", *(f"{n}\t{value}" for n, value in rows)])


def as_markdown(envs: str, fps: str, rows: Series) -> str:
    lines = [f"| {envs} | {fps} |", "|---:|:---|", *(f"| {n:,} | **{value:,}** |" for n, value in rows)]
    return "\n".join(["Some words, and a list:", "- one", "", *lines, "", "The end."])


def as_bare_pipes(envs: str, fps: str, rows: Series) -> str:
    return "\n".join([f"{envs} | {fps}", "--- | ---", *(f"{n:_} | ~{value:_}" for n, value in rows)])


def as_grid(envs: str, fps: str, rows: Series) -> str:
    rule = "+------------------+------------------+"
    lines = [rule, f"| {envs} | {fps} |", rule.replace("-", "=")]
    return "\n".join([*lines, *(line for n, value in rows for line in (f"| {n} | {value} |", rule))])


def as_columns(envs: str, fps: str, rows: Series) -> str:
    return "\n".join([f"{envs:<30}{fps}", *(f"{n:<30}{value}" for n, value in rows)])


def as_list_table(envs: str, fps: str, rows: Series) -> str:
    lines = [f"   * - {envs}\n     - {fps}", *(f"   * - {n}\n     - {value}" for n, value in rows)]
    return "\n".join([".. list-table::", "   :header-rows: 1", "", *lines])


def as_records(envs: str, fps: str, rows: Series) -> str:
    return json.dumps({"setup": {"card": "x"}, "results": [{envs: n, fps: value} for n, value in rows]})


def as_json_lines(envs: str, fps: str, rows: Series) -> str:
    return "\n".join(json.dumps({envs: n, "note": None, fps: value}) for n, value in rows)


def as_lists(envs: str, fps: str, rows: Series) -> str:
    return json.dumps({envs: [n for n, _ in rows], fps: [value for _, value in rows]})


def as_html(envs: str, fps: str, rows: Series) -> str:
    body = [f"<tr>\n<td align=right>{n:,}</td>\n<td><b>{value:,}</b></td></tr>" for n, value in rows]
    return "\n".join([f"<h2>One</h2>\n<table>\n<thead><tr><th>{envs}<th>{fps}</thead>", *body, "</table>"])


def as_exchanged(envs: str, fps: str, rows: Series) -> str:
    cells = [f"| {envs} | {' | '.join(str(n) for n, _ in rows)} |", "|---|" + "---|" * len(rows)]
    return "\n".join([*cells, f"| {fps} | {' | '.join(str(value) for _, value in rows)} |"])


LAYOUTS: tuple[Callable[[str, str, Series], str], ...] = (
    as_csv, as_quoted_csv, as_semicolons, as_tabs, as_markdown, as_bare_pipes, as_grid, as_columns, as_list_table, as_records,
    as_json_lines, as_lists, as_exchanged, as_html,
)  # fmt: skip
ENVIRONMENTS = (
    "num_envs", "Num Envs", "numEnvs", "envs", "n_envs", "N envs", "nworld", "# of Environments", "Number of environments",
    "Parallel Envs", "num_envs (per GPU)", "envs/GPU",
)  # fmt: skip
FPS = (
    "fps", "FPS", "total_fps", "Mean Total FPS", "Perf/total_fps", "FPS (avg)", "SPS", "SPS total", "env-steps/s", "steps_per_sec",
    "env_steps_per_s", "samples/s", "Steps per second", "throughput", "charts/SPS",
)  # fmt: skip

series = st.lists(st.integers(500, 5_000_000), min_size=2, max_size=6).map(
    lambda values: [(128 * 2**place, 7 * value) for place, value in enumerate(values)]
)


@settings(deadline=None)
@given(st.sampled_from(LAYOUTS), st.sampled_from(ENVIRONMENTS), st.sampled_from(FPS), series)
def test_a_series_gets_one_answer_in_every_layout_and_heading(
    layout: Callable[[str, str, Series], str], envs: str, fps: str, rows: Series
):
    plain = decide(parse(as_csv("num_envs", "fps", rows), "t"), "t", Options())
    (expected,) = plain.series
    (said,) = decide(parse(layout(envs, fps, rows), "t"), "t", Options()).series
    assert said.estimate == expected.estimate
    assert said.throughput == expected.throughput


@settings(deadline=None, max_examples=50)
@given(st.sampled_from(LAYOUTS), series, series)
def test_rows_of_two_cards_are_two_series_whatever_their_order(
    layout: Callable[[str, str, Series], str], first: Series, second: Series
):
    rows = [(card, n, fps) for card, own in (("A", first), ("B", second)) for n, fps in own]
    text = "\n".join(["gpu,num_envs,fps", *(f"{card},{n},{fps}" for card, n, fps in rows)])
    verdicts = {one.labels: one for one in decide(parse(text, "t"), "t", Options()).series}
    for card, own in (("A", first), ("B", second)):
        (alone,) = decide(parse(layout("num_envs", "fps", own), "t"), "t", Options()).series
        assert verdicts[(("gpu", card),)].throughput.points == alone.throughput.points
        chosen = parse(text, "t", Choice(where=(("GPU", card),)))
        assert decide(chosen, "t", Options()).series[0].throughput.points == alone.throughput.points


# --- What is said


def verdict_of(*lines: str, choice: Choice | None = None) -> TableVerdict:
    return decide(parse("\n".join(lines), "t", choice), "t", Options())


def test_gpus_give_an_efficiency_and_frames_are_divided_once():
    total = verdict_of("gpus,num_envs,fps", "1,1024,10000", "2,2048,19000", "4,4096,36000")
    each = verdict_of("gpus,envs/GPU,fps", "1,1024,10000", "2,1024,19000", "4,1024,36000")
    per_gpu = verdict_of("gpus,envs/GPU,FPS per GPU", "1,1024,10000", "2,1024,9500", "4,1024,9000")
    assert scaling_statement(total.scaling[0]) == (
        "efficiency of 2 GPUs 95%, 4 GPUs 90% of one GPU's FPS each, with 1,024 environments on each"
    )
    assert total.scaling == each.scaling == per_gpu.scaling
    assert [one.kind for one in total.remarks] == ["total_envs"] and not each.remarks


def test_a_choice_that_no_row_has_names_those_that_rows_have():
    lines = ("gpu,num_envs,fps", "A,16,5", "B,16,6")
    text = "\n".join(lines)
    told(lambda: parse(text, "t", Choice(where=(("gpu", "C"),))), "no row has that. Column 'gpu' has A, B.")
    told(lambda: parse(text, "t", Choice(where=(("card", "A"),))), "--where names 'card', no column of 'gpu'")
    told(lambda: parse(text, "t", Choice(fps=("speed",))), "--fps is 'speed', no column of 'gpu', 'num_envs', 'fps'")


def test_a_column_of_fps_is_chosen_by_its_heading():
    lines = ("num_envs,Train FPS,Env FPS", "16,5,50", "32,6,90")
    usual, chosen = verdict_of(*lines), verdict_of(*lines, choice=Choice(fps=("env fps",)))
    assert [one.throughput.points[0].fps for one in (*usual.series, *chosen.series)] == pytest.approx([5, 50])
    assert ("note", "column 'Train FPS' counts as FPS; --fps chooses 'Env FPS'") in closing_lines(usual)


def test_the_same_point_twice_is_never_told_to_be_deleted():
    text = told(
        lambda: parse("num_envs,fps\n16,5\n32,9\n16,7", "t"),
        "line 4: the same point as line 2",
        "add a column that names it",
    )
    assert "remove" not in text and "delete" not in text.lower()


def test_rounding_alone_leaves_a_limit_undecided_only_where_it_is_coarse():
    coarse = verdict_of("num_envs,fps", "1,4", "4,5", "16,9", "32,9", "64,13").series[0].estimate
    fine = verdict_of("num_envs,fps", "1,4.01", "4,5.02", "16,9.03", "32,9.01", "64,13.01").series[0].estimate
    assert coarse is not None and coarse.rounded is not None and coarse.rounded.largest_share == pytest.approx(0.125)
    assert estimate_statement(coarse).startswith("undecided: rounding alone allows ± 12%")
    assert fine is not None and fine.rounded is None


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("1024 50000", "2048 90000"), ("line 1: the first line has numbers alone", "Write a header above it")),
        (("<table><tr><td>num_envs</td></tr></table>",), ("t holds no measurement",)),
        (("<table>", "<tr><th>num_envs<th>fps", "<tr><td>16", "<td>5O", "</table>"), ("line 3", "'fps' is '5O'")),
        (("<table><tr><td>num_envs<td>fps", "<tr><td rowspan=2000 colspan=30>16"), ("line 2", "more than 50,000")),
        (("| num_envs | fps |", "|--|--|", "| 16 | 5O |"), ("line 3", "column 'fps' is '5O'")),
        (('[{"num_envs": 16, "fps": 5}, {"fps": 6}]',), ("record 2", "column 'num_envs' is empty")),
    ],
)
def test_what_is_not_read_is_named_with_its_line(lines: tuple[str, ...], said: tuple[str, ...]):
    told(lambda: parse("\n".join(lines), "t"), *said)


def test_html_is_read_as_a_browser_shows_it():
    (one, two) = verdict_of(
        "<p>Rollouts &amp; learning<!-- <table><tr><td>num_envs", "</table> --> | A100", "<TABLE class='wide'>",
        "<tr><th rowspan=2>GPU</th><th rowspan=2>Num&nbsp;Envs</th><th colspan=2>FPS</th></tr>",
        "<tr><th>mean</th><th>std</th></tr>",
        "<tr><td rowspan='2'><a href='x'>A</a></td><td>1,024</td><td>41&nbsp;000<sup>1</sup></td><td>5</td></tr>",
        "<tr><td>2,048</td><td>79 000<br></td><td>5",
        "<tr><td rowspan=2>B</td><td>1,024</td><td>51 000</td><td>5</td></tr><tr><td>2,048<td>OOM<td></tr></TABLE>",
    ).series  # fmt: skip
    assert (one.labels, two.labels) == ((("GPU", "A"),), (("GPU", "B"),))
    assert [(point.num_envs, point.fps) for point in one.throughput.points] == [
        (1024, pytest.approx(41_000)), (2048, pytest.approx(79_000))
    ]  # fmt: skip
    assert [point.num_envs for point in two.throughput.infeasible] == [2048]


def test_a_table_of_html_stands_within_another_and_beside_it():
    def table(title: str, fps: int) -> str:
        return f"<table><caption>{title}</caption><tr><td>envs<td>fps<tr><td>16<td>{fps}<tr><td>32<td>{2 * fps}</table>"

    text = f"<table><tr><td>Menu<td>{table('first', 500)}<td>{table('second', 400)}</table>"
    verdict = decide(parse(text, "t"), "t", Options())
    assert [one.labels for one in verdict.series] == [(("table", "first"),), (("table", "second"),)]
    assert [(one.first, one.second) for one in verdict.beside] == [("first", "second")]


@pytest.mark.parametrize(
    "part", ["<a ", "<!--", "</td ", "<table>", "<td colspan=9999>", "<tr><td>1", "<sup>", "<td>1<"]
)
def test_a_page_of_nonsense_is_refused_in_a_second(part: str):
    def seconds(length: int) -> float:
        text = "<table><tr><td>num_envs<td>fps" + part * (length // len(part))
        began_s = time.process_time()
        told(lambda: parse(text, "t"), "t")
        return time.process_time() - began_s

    # In time that grows with the square, it would be a hundred times as long.
    # The least of several: a collection of garbage may fall into one of them.
    assert min(seconds(2_000_000) for _ in range(3)) < 50 * min(seconds(200_000) for _ in range(3))


def test_tables_that_are_equal_are_tables_of_their_own():
    lines = ("| num_envs | fps |", "|--|--|", "| 16 | 5 |", "| 32 | 9 |", "")
    assert [one.labels for one in verdict_of(*lines, *lines).series] == [(("table", f"table {n}"),) for n in (1, 2)]


def test_of_several_peaks_in_a_cell_the_largest_counts():
    lines = "num_envs,fps,vram_gb", "16,5,4.6 / 9.8", "32,9,9.8 / 10.2 GB"
    assert [row.vram_gb for row in parse("\n".join(lines), "t").rows] == [9.8, 10.2]
    told(lambda: parse("\n".join([*lines, "64,9,9 foo / 12 foo"]), "t"), "line 4", "'vram_gb' is '9 foo / 12 foo'")


def test_a_resolution_counts_no_gpus_and_milliseconds_of_a_step_give_fps():
    series = verdict_of("resolution,num_envs,fps", "64x64,16,5", "64x64,32,9", "128x128,16,3", "128x128,32,4").series
    assert [(one.labels, one.gpus) for one in series] == [
        ((("resolution", "64x64"),), 1), ((("resolution", "128x128"),), 1)
    ]  # fmt: skip
    (one,) = verdict_of("| N | ms/step |", "|--|--|", "| 1000 | 10 |", "| 2000 | 16 |").series
    assert [point.fps for point in one.throughput.points] == pytest.approx([100_000, 125_000])


def test_two_tables_side_by_side_name_the_size_that_got_slower():
    before = parse("num_envs,fps\n1024,50000\n2048,90000\n4096,120000", "a")
    after = parse("num_envs,fps\n1024,50100\n2048,90300\n4096,70000\n8192,oom", "b")
    (one,) = compare(before, after, ("a", "b"), Options(assume_cv=0.02)).beside
    assert [size.state for size in one.sizes] == ["not told apart", "not told apart", "slower"]
    assert (one.only_first, one.only_second, one.failed_second) == ([], [], [8192])
    assert beside_statement(one).startswith("b against a: slower at 4,096 environments (0.583 times the FPS)")


def test_repeats_decide_a_comparison_by_their_own_noise():
    lines = [f"{n},{repeat},{fps + repeat}" for n, fps in ((16, 1000), (32, 1900)) for repeat in range(3)]
    slower = [f"{n},{repeat},{0.99 * fps + repeat}" for n, fps in ((16, 1000), (32, 1900)) for repeat in range(3)]
    tables = [parse("\n".join(["num_envs,repeat,fps", *rows]), "t") for rows in (lines, slower)]
    (one,) = compare(tables[0], tables[1], ("a", "b"), Options()).beside
    assert [size.state for size in one.sizes] == ["slower", "slower"] and {size.repeats for size in one.sizes} == {3}


def test_tables_without_a_common_series_are_not_compared():
    first = parse("gpu,num_envs,fps\nA,16,5\nB,16,6", "a")
    second = parse("gpu,num_envs,fps\nC,16,5\nD,16,6", "b")
    told(lambda: compare(first, second, ("a", "b"), Options()), "no series in common", "--where COLUMN=VALUE")


@settings(deadline=None)
@given(st.text(alphabet="num_evsfp|0123456789.,\n-+:;oe \t*~/±>k{}[]\"'#", max_size=80))
def test_any_text_is_a_table_or_a_sentence(text: str):
    try:
        table = parse(text, "t")
    except UserError:
        return
    decide(table, "t", Options(device_gb=80.0))
