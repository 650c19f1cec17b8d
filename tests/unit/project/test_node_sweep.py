"""How fast a sweep went on a host, and trials that shared a GPU, by hand. Real sweeps on GPUs are read the same way."""

from collections.abc import Sequence

import pytest
from envknee.machine.schema import Device
from envknee.record.schema import Record
from records import GPU, a_trial

from benchmarks.node_sweep import clashes, pace

ONE, TWO = (GPU.model_copy(update={"uuid": uuid}) for uuid in ("one", "two"))


def ran(number: int, device: Device, began_s: float, took_s: float = 20.0, gpus: int = 1) -> Record:
    """Return the record of a trial that began `began_s` seconds after the first one."""
    record = a_trial(64, number=number, device=device, gpus=gpus).record
    times = {"started_unix_s": 1e9 + began_s, "total_s": took_s}
    return record.model_copy(update={"outcome": record.outcome.model_copy(update=times)})


def names(records: Sequence[Record]) -> list[tuple[str, str]]:
    return [clash.trials for clash in clashes(records)]


def test_trials_a_minute_count_from_the_first_start_to_the_last_end():
    found = pace([ran(0, ONE, 0.0), ran(1, TWO, 5.0), ran(2, ONE, 20.0)])
    assert (found.trials, found.gpus, found.wall_s) == (3, 2, pytest.approx(40.0))
    assert found.trials_a_minute == pytest.approx(4.5)
    assert found.busy_share == pytest.approx(60 / 80)
    skipped = a_trial(64, number=3, status="skipped").record
    assert pace([ran(0, ONE, 0.0), skipped]).trials == 1
    with pytest.raises(ValueError, match="none of them ran"):
        pace([skipped])


def test_trials_that_share_a_gpu_are_found_and_others_are_not():
    beside = [ran(0, ONE, 0.0), ran(1, TWO, 1.0), ran(2, ONE, 20.0), ran(3, TWO, 20.9)]
    assert names(beside) == []  # the last overlaps by a tenth of a second: clocks are read before a GPU is let go
    assert names([*beside, ran(4, ONE, 30.0)]) == [("demo/0002", "demo/0004")]
