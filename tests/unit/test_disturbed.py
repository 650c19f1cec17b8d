"""What other processes took of the machine: said, and not counted where it is far more than usual."""

from collections.abc import Sequence

from envknee.record.schema import Record
from envknee.study.model import Decide
from envknee.verdict import throughput
from envknee.verdict.disturbed import disturbed
from records import a_trial


def records(cores: Sequence[float], num_envs: int = 64, first: int = 0, fps: float = 1000.0) -> list[Record]:
    return [
        a_trial(num_envs, number=first + place, fps=fps * (1 + 0.001 * place)).with_rows(others_cpu_percent=100 * busy).record
        for place, busy in enumerate(cores)
    ]  # fmt: skip


def test_a_trial_beside_a_busy_neighbour_is_not_counted():
    small = records([0.0, 0.1, 0.0, 0.9])
    large = records([0.1, 0.0, 0.1], num_envs=128, first=10, fps=1900.0)
    assert disturbed([*small, *large])[0] == {3}
    limit = throughput.analyse([*small, *large], Decide())[0]
    assert [len(point.fps_repeats) for point in limit.points] == [3, 3]
    assert limit.notes[-1] == "Not counted: 1 of 7 trials, of which others took half a core more than of the rest."


def test_a_neighbour_who_is_always_there_is_said():
    limit = throughput.analyse([*records([1.0] * 3), *records([0.9] * 3, 128, 10)], Decide())[0]
    assert limit.notes[-1] == "Other processes kept 0.9 cores busy meanwhile: this holds for a machine that busy."
    assert [len(point.fps_repeats) for point in limit.points] == [3, 3]


def test_where_it_was_not_measured_nothing_is_said():
    plain = [a_trial(64, number=number).record for number in range(3)]
    assert disturbed(plain) == (set(), [])
