"""Waiting for others before a trial: how long at most, what it is counted by, and who never waits."""

from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from envknee.record.schema import Cost
from envknee.run import quiet
from envknee.run.quiet import Spent, longest_wait_s, others_cores, spent_in, taken
from envknee.study.files import canonical_json
from envknee.study.paths import StudyFolder
from records import a_study, a_trial


@pytest.mark.parametrize(
    ("trials_s", "waited_s", "longest_s"),
    [
        ([], 0.0, 0.0),  # nobody knows yet how long a trial takes
        ([10.0], 0.0, 5.0),  # half of what was measured
        ([10.0] * 10, 0.0, 15.0),  # 1.5 trial lengths
        ([10.0] * 10, 48.0, 2.0),
        ([10.0] * 10, 60.0, 0.0),
    ],
)
def test_a_wait_is_bounded_by_a_trial_s_length_and_by_the_measuring_time(
    trials_s: list[float], waited_s: float, longest_s: float
):
    assert longest_wait_s(Spent(trials_s, waited_s)) == pytest.approx(longest_s)


@pytest.mark.parametrize(
    ("busy", "machine", "needed", "cores"), [(1.0, 2, 2, 1.0), (1.0, 32, 2, 0.0), (31.0, 32, 2, 1.0), (0.1, 1, 1, 0.1)]
)
def test_only_cores_that_the_trial_needs_are_taken_from_it(busy: float, machine: int, needed: int, cores: float):
    assert taken(busy, machine, needed) == pytest.approx(cores)


class Clock:
    """A clock that time passes on only by reading the load."""

    def __init__(self, busy: Iterator[float | None]) -> None:
        self.now_s = 0.0
        self._busy = busy

    def cores_over(self, over_s: float) -> float | None:
        self.now_s += over_s
        return next(self._busy, 0.0)


@pytest.fixture
def waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[float, Clock]]:
    """Return a function that waits before trial 9, after nine trials of 10 s, while others take so many cores."""
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)
    folder = StudyFolder(tmp_path)
    for number in range(9):
        earlier, trial = folder.trial(number), a_trial(64, number=number).ended(total_s=10.0)
        earlier.root.mkdir(parents=True)
        earlier.request.write_text(canonical_json(trial.request))
        earlier.outcome.write_text(canonical_json(trial.outcome))
        earlier.cost.write_text(canonical_json(Cost(gpus=0, held_s=10.0, energy_j=None, waited_s=2.0)))

    def wait(*busy: float | None, on_gpu: bool = False, **changes: object) -> tuple[float, Clock]:
        clock = Clock(iter(busy))
        monkeypatch.setattr(quiet.time, "monotonic", lambda: clock.now_s)
        request = a_trial(64, number=9).request.model_copy(update={"waits": True} | changes)
        return quiet.wait(folder.trial(9), request, on_gpu, clock.cores_over), clock

    return wait


def test_a_trial_waits_until_others_are_gone_and_says_so(waits, capsys):
    assert waits(1.0, 1.0, 1.0, 0.0)[0] == pytest.approx(0.2 + 3.0)
    assert "waiting while other processes are busy, 15 s at most" in capsys.readouterr().err


def test_it_begins_beside_others_who_stay(waits):
    waited_s, _ = waits(*[2.0] * 99)
    assert 15.0 <= waited_s < 16.5


@pytest.mark.parametrize(
    ("busy", "changes"),
    [
        ([0.3], {}),
        ([None], {}),  # a sensor that cannot be read is no load
        ([1.0] * 9, {"waits": False}),
        ([1.0] * 9, {"kind": "learning"}),
        ([1.0] * 9, {"nodes": 2}),
    ],
)
def test_who_does_not_wait(waits, capsys, busy: list[float | None], changes: dict[str, object]):
    assert waits(*busy, **changes)[0] == 0.0
    assert capsys.readouterr().err == ""


def test_trials_that_run_side_by_side_do_not_wait_for_each_other(waits, tmp_path: Path):
    StudyFolder(tmp_path).study.write_text(canonical_json(a_study(slots=2)))
    assert waits(*[1.0] * 9)[0] == 0.0


def test_what_was_spent_comes_from_the_folder_and_a_damaged_file_counts_nothing(waits, tmp_path: Path):
    folder = StudyFolder(tmp_path)
    assert spent_in(folder) == Spent([10.0] * 9, 18.0)
    folder.trial(3).outcome.write_text("{")
    folder.trial(4).cost.unlink()
    assert spent_in(folder) == Spent([10.0] * 8, 16.0)


def test_the_machine_s_load_is_read_or_unknown(monkeypatch: pytest.MonkeyPatch):
    cores = others_cores(0.05)
    assert cores is not None and 0.0 <= cores <= (psutil.cpu_count() or 1) + 1.0

    def fails() -> None:
        raise FileNotFoundError("/proc/stat")

    monkeypatch.setattr(psutil, "cpu_times", fails)
    assert others_cores(0.01) is None
