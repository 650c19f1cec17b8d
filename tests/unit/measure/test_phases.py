"""Every moment belongs to one phase; what is resolved in some steps stands for all."""

import time

import pytest
import torch
from envknee.measure.phases import ENV_STEP, SAMPLED_STEPS, Timeline, iteration_times
from envknee.record.schema import PHASES
from hypothesis import given, settings
from hypothesis import strategies as st
from records import known

CPU = torch.device("cpu")
HORIZON = 2 * SAMPLED_STEPS


def started(horizon: int = HORIZON) -> Timeline:
    timeline = Timeline(CPU, "sampled", horizon)
    timeline.start()
    return timeline


def test_an_iteration_is_cut_at_its_marks():
    marks = [("other", False), ("inference", False), ("other", False), (ENV_STEP, True), ("physics", True)]
    marks += [(ENV_STEP, True), ("render", True), ("observation", True), (ENV_STEP, True), ("other", False)]
    marks += [("storage", False), ("learning", False), ("other", False), ("other", False)]
    seconds = [1.0, 2.0, 0.5, 1.0, 4.0, 0.25, 8.0, 16.0, 0.75, 0.25, 3.0, 100.0, 5.0]
    times = iteration_times(marks, seconds)
    assert times.env_step_s == 1 + 4 + 0.25 + 8 + 16 + 0.75
    assert times.collect_s == 2 + 0.5 + times.env_step_s + 0.25 + 3  # neither what came before nor what comes after
    assert times.learn_s == 100
    assert times.phases_s == pytest.approx(
        {"physics": 4, "render": 8, "observation": 16, "inference": 2, "storage": 3, "learning": 100, "other": 8.75}
    )
    unresolved = [(phase, False) for phase, _ in marks]
    assert iteration_times(unresolved, seconds).phases_s is None


def test_collecting_begins_with_what_a_library_copies_before_it_acts():
    marks = [("other", False), ("storage", False), ("inference", False), (ENV_STEP, False), ("learning", False)]
    times = iteration_times(marks, [1.0, 2.0, 4.0, 8.0, 16.0])
    assert (times.collect_s, times.learn_s) == (14.0, 16.0)


def test_what_is_learned_between_steps_is_not_collecting():
    marks = [("other", False), *2 * [("inference", False), (ENV_STEP, False), ("storage", False), ("learning", False)]]
    marks.append(("other", False))
    times = iteration_times(marks, [1.0, 2.0, 4.0, 8.0, 100.0, 16.0, 32.0, 64.0, 200.0])
    assert (times.collect_s, times.learn_s, times.env_step_s) == (2.0 + 4 + 8 + 16 + 32 + 64, 300.0, 36.0)


def test_a_sampled_step_stands_for_the_others():
    marks = [(ENV_STEP, False), (ENV_STEP, True), ("physics", True), ("other", False)]
    times = iteration_times(marks, [30.0, 1.0, 9.0])
    assert (times.env_step_s, known(times.phases_s)["physics"], known(times.phases_s)["other"]) == (40.0, 36.0, 4.0)


def test_so_does_what_lies_before_it():
    marks = [("other", False), ("inference", False), ("other", False), (ENV_STEP, False), ("other", True)]
    marks += [("storage", True), ("other", True), ("inference", True), ("other", True), (ENV_STEP, True)]
    marks += [("learning", False), ("other", False)]
    times = iteration_times(marks, [7.0, 3.0, 1.0, 10.0, 1.0, 2.0, 0.5, 4.0, 0.5, 10.0, 100.0])
    between_s = 3 + 1 + 1 + 2 + 0.5 + 4 + 0.5
    assert times.collect_s == 20 + between_s
    scale = between_s / 8.0  # of what lies before the sampled step
    assert times.phases_s == pytest.approx(
        {"physics": 0, "render": 0, "observation": 0, "inference": 4 * scale, "storage": 2 * scale, "learning": 100}
        | {"other": 7 + 2 * scale + 20}
    )


def test_a_mark_costs_time_so_few_steps_have_many():
    timeline = started()
    for iteration in range(3):
        for _ in range(HORIZON):
            with timeline.phase("inference"):
                pass
            with timeline.phase(ENV_STEP), timeline.phase("physics"):
                pass
            with timeline.phase("storage"):
                pass
        marks = [mark.phase for mark in timeline._marks]
        assert marks.count(ENV_STEP) == HORIZON + SAMPLED_STEPS  # again where physics ends
        assert marks.count("physics") == SAMPLED_STEPS
        assert marks.count("inference") == SAMPLED_STEPS + iteration % 2  # before the first step always
        timeline.end_iteration()


def test_each_step_of_a_short_rollout_is_resolved():
    timeline = started(horizon=SAMPLED_STEPS - 1)
    for _ in range(SAMPLED_STEPS - 1):
        with timeline.phase(ENV_STEP), timeline.phase("physics"):
            pass
    assert [mark.phase for mark in timeline._marks].count("physics") == SAMPLED_STEPS - 1


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([*PHASES, ENV_STEP]), st.booleans(), st.floats(min_value=1e-6, max_value=10.0)),
        min_size=1,
    )
)
def test_the_phases_always_add_up_to_the_whole(pieces):
    marks = [(phase, sampled) for phase, sampled, _ in pieces] + [("other", False)]
    seconds = [duration for _, _, duration in pieces]
    phases_s = iteration_times(marks, seconds).phases_s
    if phases_s is not None:
        assert set(phases_s) == set(PHASES)
        assert sum(phases_s.values()) == pytest.approx(sum(seconds))


class Simulation:
    def __init__(self) -> None:
        self.calls = 0

    def step(self, seconds: float) -> int:
        time.sleep(seconds)
        self.calls += 1
        return self.calls


@pytest.mark.alone
def test_wrapped_calls_are_timed_in_some_steps_of_every_iteration():
    timeline, simulation = Timeline(CPU, "sampled", HORIZON), Simulation()
    timeline.wrap(simulation, "step", "physics")
    timeline.start()
    for iteration in range(2):
        for step in range(HORIZON):
            with timeline.phase(ENV_STEP):
                assert simulation.step(0.002) == iteration * HORIZON + step + 1
        times = timeline.end_iteration()()
        assert 0.8 * times.env_step_s < known(times.phases_s)["physics"] <= times.env_step_s


def test_an_error_closes_the_phase_it_came_from():
    timeline = started()
    with pytest.raises(RuntimeError, match="of the simulation"), timeline.phase("learning"):
        raise RuntimeError("of the simulation")
    began_s = time.perf_counter()
    with timeline.phase("storage"):
        time.sleep(0.05)
    slept_s = time.perf_counter() - began_s
    times = timeline.end_iteration()()
    assert times.learn_s < slept_s
    assert times.collect_s == 0.0


def test_outside_environment_steps_nothing_fine_is_marked():
    timeline = started()
    with timeline.phase("render"):  # as when an environment is reset
        time.sleep(0.002)
    assert timeline.end_iteration()().env_step_s == 0.0
