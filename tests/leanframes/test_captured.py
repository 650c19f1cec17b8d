"""What is captured does on a GPU what it does without a graph, random numbers included; what waits for the GPU is left as it is."""

import gc

import pytest
import torch
from leanframes.captured import Captured, without_garbage_collection

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda:0", marks=GPU)])
def test_each_call_does_it_once_and_draws_on_as_without_a_graph(device: str):
    total, drawn = torch.zeros(1, device=device), torch.zeros(4, device=device)

    def step() -> None:
        drawn.normal_()
        total.add_(1)

    torch.manual_seed(5)
    expected = []
    for _ in range(4):
        step()
        expected.append(drawn.clone())
    following = torch.rand(2, device=device)
    torch.manual_seed(5)
    total.zero_()
    captured = Captured(step, torch.device(device), "a step")
    for number, values in enumerate(expected, start=1):
        captured()
        assert total.item() == number and torch.equal(drawn, values)
    assert torch.equal(torch.rand(2, device=device), following)
    assert (captured._run == step) == (device == "cpu")


@GPU
def test_what_waits_for_the_gpu_is_called_as_it_is_and_the_log_says_so(capsys: pytest.CaptureFixture[str]):
    total = torch.zeros(1, device="cuda:0")

    def step() -> None:
        if total.item() < 10:
            total.add_(1)

    captured = Captured(step, torch.device("cuda:0"), "a step that looks")
    for _ in range(3):
        captured()
    assert total.item() == 3 and captured._run == step
    assert "leanframes: a step that looks is not captured, and slower: " in capsys.readouterr().err


@GPU
def test_an_earlier_graph_in_the_garbage_does_not_end_a_capture():
    total = torch.zeros(1, device="cuda:0")
    frequent = gc.get_threshold()

    def step() -> None:
        garbage = [[] for _ in range(100)]
        assert garbage
        total.add_(1)

    def captured() -> None:
        """Replay a graph, and leave it in a list that holds itself: only a collection frees it."""
        made = Captured(step, torch.device("cuda:0"), "a step")
        held: list[object] = [made]
        held.append(held)
        for _ in range(3):
            made()

    gc.collect()
    gc.disable()
    try:
        captured()
        gc.enable()
        gc.set_threshold(1)
        captured()
    finally:
        gc.enable()
        gc.set_threshold(*frequent)
    assert total.item() == 6


@pytest.mark.parametrize("was_enabled", [True, False])
def test_no_garbage_is_collected_while_a_graph_is_captured(was_enabled: bool):
    if not was_enabled:
        gc.disable()
    try:
        with pytest.raises(KeyError), without_garbage_collection():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()
