"""How long a study takes and what it costs: by earlier trials of this machine, or by its own limits, and how the plan says so."""

from collections.abc import Sequence
from typing import Any

import pytest
from envknee.ask.plan import plan_of
from envknee.record.schema import Record
from envknee.study.load import read_study
from envknee.verdict.schema.plan import PlanTime
from envknee.words.plan import time_lines
from published import PUBLISHED, records_of
from records import LEARNING, a_study, a_trial, fps_trials
from records import records_of as records_of_trials

SIZES: dict[str, Any] = {"num_envs": [16, 32], "horizon": [8], "batch_size": 128, "repeats": 3, "limit_s": 600}
EARLIER = records_of_trials(fps_trials({16: [1.0, 1.1, 0.9, 1.05]}))
"""Four trials of 20 s."""


def time_of(earlier: Sequence[Record] = (), on_cpu: bool = True, visible_gpus: int = 1, **sections: Any) -> PlanTime:
    return plan_of(a_study(**{"throughput": SIZES} | sections), earlier, on_cpu, visible_gpus).time


def test_without_earlier_trials_a_study_takes_its_limits_at_most():
    time = time_of()
    assert (time.least_s, time.most_s, time.limit_s) == (None, None, 6 * 600.0)
    line = "Time: not known before trials of each kind ran here; up to 60 min in all, if every trial took its limit_s"
    assert time_lines(time) == [line]
    on_gpu = time_of(arms={"one": {"gpus": 1}, "two": {"gpus": 2}}, on_cpu=False)
    assert on_gpu.gpu_hours_limit == pytest.approx(6 * 600 * (1 + 2) / 3600)
    assert time_lines(on_gpu)[1] == "Cost: at most 3 GPU-hours"


def test_earlier_trials_give_a_range_and_a_cost():
    time = time_of(earlier=EARLIER, on_cpu=False, visible_gpus=2)
    assert (time.least_s, time.most_s, time.earlier_trials) == (120.0, 120.0, 4)
    assert time.gpu_hours_most == pytest.approx(120 / 3600), "auto takes one of the two GPUs"
    assert time_lines(time) == [
        "Time: about 2 min, by 4 earlier trials of this task on this machine",
        "Cost: about 0.033 GPU-hours",
    ]
    assert time_of(earlier=EARLIER).gpu_hours_most is None, "a CPU costs no GPU-hours"


def test_a_kind_that_never_ran_here_leaves_the_whole_unknown():
    learning = records_of_trials(
        [a_trial(16, kind="learning", seconds=9.0, number=9), a_trial(16, status="skipped", number=10)]
    )
    time = time_of(learning=LEARNING | {"repeats": 2}, earlier=[*EARLIER, *learning])
    assert [(own.kind, own.most_s) for own in time.kinds] == [("throughput", 120.0), ("learning", None)]
    assert time.most_s is None and time.earlier_trials == 5
    assert "throughput about 2 min, up to " in time_lines(time)[0]


def test_a_time_limit_ends_repeats_and_workers_share_them():
    assert time_of(throughput=SIZES | {"time_limit_s": 50.0}, earlier=EARLIER).most_s == 50.0
    assert time_of(throughput=SIZES | {"time_limit_s": 50.0}, earlier=EARLIER).least_s == 40.0, "the first repeat"
    assert time_of(throughput=SIZES | {"time_limit_s": 30.0}, earlier=EARLIER).most_s == 40.0, (
        "it is measured in any case"
    )
    assert time_of(slots=2, window=2, earlier=EARLIER).most_s == 60.0


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_study_lasted_as_its_own_trials_say(name: str):
    records = records_of(name)
    study = read_study(PUBLISHED[name].study).model_copy(update={"slots": 1})
    time = plan_of(study, records, visible_gpus=1).time
    measured = [record for record in records if record.outcome.status != "skipped"]
    took_s = sum(record.outcome.total_s for record in measured)
    if time.least_s is None or time.most_s is None:
        assert any(sum(own.request.kind == kind for own in measured) < 2 for kind in study.sections)
    else:
        assert time.least_s <= time.most_s <= time.limit_s
        assert took_s <= time.most_s
        if len(records) == sum(own.trials for own in time.kinds):
            assert time.least_s <= took_s
