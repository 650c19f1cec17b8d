"""Published curves: one figure per point, so that nothing is decided, and what they show is shown."""

from pathlib import Path

import pytest
from envknee.after.csv.command import read_table
from envknee.after.csv.verdict import Options, decide
from envknee.verdict.schema.table import TableVerdict
from envknee.verdict.series import Series
from envknee.words.next_measurement import next_measurement
from envknee.words.table import estimate_statement, series_label
from places import ROOT
from records import known

PUBLISHED = ROOT / "tests/fixtures/published"

FILES = sorted(PUBLISHED.glob("*.csv"))


def verdict(name: str, device_gb: float | None = None) -> TableVerdict:
    path = PUBLISHED / f"{name}.csv"
    return decide(read_table(path), path.name, Options(device_gb=device_gb))


def test_there_are_eight_and_each_names_its_source():
    assert len(FILES) == 8
    for path in FILES:
        comments = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
        assert any("Source: " in line for line in comments), path.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_one_figure_per_point_is_never_reached(path: Path):
    (series,) = decide(read_table(path), path.name, Options(device_gb=85.0)).series
    assert (series.throughput.state, series.throughput.threshold_num_envs) == ("undecided", None)
    assert all(len(point.fps_repeats) == 1 for point in series.throughput.points)
    assert all(gain.repeats == 1 for gain in series.throughput.gains)
    assert all(gain.gain_upper_one_sided is None for gain in series.throughput.gains)
    assert ", 3 times each in separate processes" in next_measurement(known(series.measure_next), series.throughput)
    assert series.estimate is not None
    assert estimate_statement(series.estimate).startswith(("estimate: ", "still gaining "))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        # 36784 / 33585, and 30085 below 36784
        ("gb10_mjlab", "estimate: 2,048 environments (a doubling gains 9.5%; FPS fall beyond 4,096)"),
        # (11076852 / 10969399) to the power of 1 / log2(18000 / 15000); 11076852 is 3.7% below 11497237, within noise
        ("genesis_4090l", "estimate: 15,000 environments (a doubling gains 3.8%)"),
        # 37865 / 36447, and 69090 / 40944
        ("h100_anymal", "estimate: 8,192 environments (a doubling gains 3.9%; doubling 32,768 gains 69% again)"),
        # 45406 / 41304
        ("rtx4050_physx", "estimate: 4,096 environments (a doubling gains 9.9%)"),
        ("isaac-lab-rtx-4090", "still gaining 20% a doubling at 1,024, the largest size"),
    ],
)
def test_a_table_without_repeats_gets_its_best_estimate(name: str, said: str):
    assert estimate_statement(known(verdict(name).series[0].estimate)) == said


def test_a_jump_that_should_not_be_and_memory_that_is_no_line_are_named():
    said = verdict("h100_anymal")
    assert known(said.series[0].estimate).jumps == [32768]
    assert said.memory is not None and known(said.missed_peak).share > 0.05
    straight = verdict("genesis_4090l")
    assert straight.memory is not None and straight.missed_peak is None


@pytest.mark.parametrize(
    ("name", "gains", "law_error"),
    [
        # 22325 / 13870, 33922 / 22325 and 40591 / 33922: it still gains at the end
        ("isaac-lab-rtx-4090", [61.0, 51.9, 19.7], 0.10),
        # 44.1 / 40.9, 47.8 / 44.1 and 42.4 / 47.8: less than delta everywhere, and a loss at the end
        ("madrona-rtx-4090", [7.8, 8.4, -11.3], 0.10),
        # 29.7 / 27.1, 31.4 / 29.7 and 32.2 / 31.4: it has long stopped paying, but one figure cannot show it
        ("maniskill-rtx-4090", [9.6, 5.7, 2.5], 0.02),
        ("h100-stock", [86.9, 53.1, 39.7, 26.7, 14.8, 6.9], 0.10),
    ],
)
def test_gains_are_those_of_the_figures_and_the_law_is_close(name: str, gains: list[float], law_error: float):
    (limit,) = (series.throughput for series in verdict(name).series)
    assert [round(100 * gain.gain, 1) for gain in limit.gains] == gains
    assert known(limit.law).largest_relative_error < law_error


def test_the_h100_table_with_its_memory():
    said = verdict("h100-stock", 85.0)
    assert series_label(said.series[0], said) == "horizon 32"
    # 8,192 took 71.0 GB of 85, and 16,384 do not fit (README).
    assert 8192 < known(known(known(said.memory).wall(Series("", 32, None))).largest_num_envs) < 16_384
