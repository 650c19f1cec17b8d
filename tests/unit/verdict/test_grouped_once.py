"""Records are grouped once for each verdict: `decide` makes the groups, and analysers take them."""

import ast
from collections import Counter
from pathlib import Path

import pytest
from envknee import verdict
from envknee.verdict.measurements import filtered, joined, measurements_of
from envknee.verdict.series import Series, by_series
from records import fps_trials, learning_trials, records_of

FOLDER = Path(str(verdict.__file__)).parent


def calls_of(function: str) -> dict[str, int]:
    """Return the modules of verdict/ that call a function, and how often."""
    calls = Counter[str]()
    for path in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == function:
                calls[path.name] += 1
    return dict(calls)


@pytest.mark.parametrize(
    ("function", "calls"),
    [
        ("measurements_of", {"decide.py": 1}),
        # Once for each kind, and once more for the repeats that a composition adds.
        ("by_series", {"measurements.py": 3}),
        ("joined", {"throughput.py": 1}),
    ],
)
def test_a_verdict_groups_its_records_once(function: str, calls: dict[str, int]):
    assert calls_of(function) == calls


def test_an_arm_has_its_part_of_the_groups_and_not_a_grouping_of_its_own():
    trials = [
        *fps_trials({16: [1.0, 2.0], 32: [3.0]}, arm="one"),
        *fps_trials({16: [4.0]}, arm="two", first=10),
        *learning_trials({16: [5.0]}, arm="two", first=20),
    ]
    whole = measurements_of(records_of(trials))
    one, two = whole.of_arm("one"), whole.of_arm("two")
    assert (whole.arms, one.arms, two.arms) == ({"one", "two"}, {"one"}, {"two"})
    (series,) = one.throughput
    assert one.throughput[series] is whole.throughput[series]
    assert [record.request.number for record in two.at(Series("two", 8, 128), 16)] == [10, 20]


def test_only_what_counts_is_left_and_no_empty_point():
    groups = by_series(records_of(fps_trials({16: [1.0, 2.0], 32: [3.0]})), "throughput")
    kept = filtered(groups, lambda record: record.request.number == 0)
    assert [{size: len(group) for size, group in by_size.items()} for by_size in kept.values()] == [{16: 1}]
    assert filtered(groups, lambda _: False) == {}


def test_further_records_come_where_they_would_have_been():
    records = records_of(fps_trials({16: [1.0, 2.0], 32: [3.0, 4.0], 64: [5.0]}))
    some, others = records[::2], records[1::2]
    groups = by_series(some, "throughput")
    assert joined(groups, others, "throughput") == by_series(records, "throughput")
    assert joined(groups, [], "throughput") is groups
