"""Memory is told apart by what took it: real allocations, on the CPU."""

import gc
import mmap
import sys
import weakref

import pytest
import torch
from envknee.measure.memory import MemoryWatch, reset_peak_rss
from envknee.measure.shared import SharedProcess
from records import a_trial, known

CPU = torch.device("cpu")


def take(megabytes: int) -> mmap.mmap:
    """Return memory of its own, every page of it touched, that goes back to the system when it is closed."""
    memory = mmap.mmap(-1, megabytes * 1_000_000)
    for page in range(0, len(memory), mmap.PAGESIZE):
        memory[page] = 1
    return memory


def test_the_parts_of_the_map_are_what_was_taken_when():
    reset_peak_rss()  # tests before this one may have used more
    watch = MemoryWatch(CPU)
    assert watch.map() is None
    before_gb = watch.use().rss_gb
    environment = take(100)
    watch.environment_made()
    rollout, model = take(60), torch.ones(2_500_000)
    watch.learner_made(len(rollout), lambda: [model])
    observations = take(30)
    for megabytes in (40, 80, 20):  # the largest counts: it is what must fit
        watch.learning_begins()
        take(megabytes).close()
        watch.learning_ended()
    memory_map = known(watch.map())
    assert memory_map.static_gb == pytest.approx(before_gb + 0.1, abs=0.01)
    assert (memory_map.rollout_gb, memory_map.model_gb) == (0.06, 0.01)
    assert memory_map.collecting_gb == pytest.approx(0.03, abs=0.01)
    assert memory_map.learner_gb == pytest.approx(0.08, abs=0.01)
    assert memory_map.device_used_gb == pytest.approx(before_gb + 0.1 + 0.06 + 0.01 + 0.03 + 0.08, abs=0.02)
    assert abs(memory_map.unattributed_gb) < 0.01
    parts = memory_map.model_dump(exclude={"device_used_gb"}).values()
    assert sum(parts) == pytest.approx(memory_map.device_used_gb)
    assert watch.use().peak_rss_gb == memory_map.device_used_gb
    environment.close()
    observations.close()


def test_memory_that_ran_out_in_the_middle_of_learning_is_the_learners():
    watch = MemoryWatch(CPU)
    watch.environment_made()
    watch.learning_begins()
    held = take(50)
    assert known(watch.map()).learner_gb == pytest.approx(0.05, abs=0.01)
    held.close()


def test_what_each_trial_of_a_process_leaves_is_freed_and_imports_are_looked_through_once():
    class Simulation:
        """In a circle: only the search for garbage frees it."""

        def __init__(self) -> None:
            self.own = self

    shared, left, later = SharedProcess(world_size=1), [], []
    trial = a_trial(16)
    try:
        for number in range(3):
            shared.begin("cpu", None, trial.request.point)
            left.append(weakref.ref(Simulation()))
            if number == 0:
                gc.freeze()  # as the process does behind its imports
            assert shared.end(trial.request, trial.outcome) is None
            later = later or [number]
        looked_through = {id(tracked) for tracked in gc.get_objects()}  # all that is not frozen
    finally:
        gc.unfreeze()
    assert [simulation() for simulation in left] == [None] * 3
    assert id(later) in looked_through and id(sys.modules) not in looked_through
