"""Memory remedies: what each does to a trial's environment, to trainers' configurations, and at the end of an iteration."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from envknee import trainers
from envknee.run.resources import environment_of
from envknee.study import remedies
from envknee.study.arm import Memory
from records import a_trial

TRAINERS = trainers.names()


def test_a_remedy_that_is_not_asked_for_changes_nothing() -> None:
    memory = Memory()
    assert remedies.environment(memory) == {} and remedies.after_learning(memory, None) is None
    for trainer in (*TRAINERS, "mine"):
        assert remedies.agent_fields(memory, trainer) == {} and not list(
            remedies.refusals(memory, trainer, on_cpu=True)
        )


def test_segments_are_a_variable_of_the_trials_processes() -> None:
    request = a_trial(16).request.model_copy(update={"memory": Memory(expandable_segments=True)})
    assert environment_of(request)["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"


@pytest.mark.parametrize("trainer", [*TRAINERS, "mine"])
@pytest.mark.parametrize(("name", "value"), [("mixed_precision", True), ("on_oom", "retry_accumulate")])
def test_a_trainer_is_configured_or_refuses(trainer: str, name: str, value: Any) -> None:
    memory = Memory(**{name: value})
    refused = [refusal[0] for refusal in remedies.refusals(memory, trainer, on_cpu=False)]
    assert bool(remedies.agent_fields(memory, trainer)) == (not refused) and refused in ([], [name])
    assert not list(remedies.refusals(memory, "rsl_rl", on_cpu=True))


def test_the_cache_of_a_gpu_is_cleared_when_it_is_time() -> None:
    cleared = []
    meter: Any = SimpleNamespace(
        device=torch.device("cuda"), rows=[], timeline=SimpleNamespace(phase=lambda _: nullcontext()),
        memory=SimpleNamespace(use=lambda: len(meter.rows), clear_cache=lambda: cleared.append(len(meter.rows))),
    )  # fmt: skip
    for _ in range(6):
        meter.rows.append(None)
        used = remedies.after_learning(Memory(clear_cache_every=3), meter)
        assert used == (len(meter.rows) if len(meter.rows) in (2, 5) else None)
    assert cleared == [2, 5]
