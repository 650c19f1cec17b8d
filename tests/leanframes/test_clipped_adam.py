"""Clipping and Adam in one optimizer take the steps of PyTorch's own, and its checkpoints are PyTorch's."""

import copy
from typing import Any

import pytest
import torch
from leanframes.clipped_adam import ClippedAdam
from torch import nn

DEVICES = ["cpu", *(["cuda:0"] if torch.cuda.is_available() else [])]
MOST_NORM = 0.5
UNUSED = 5
"""Size of a parameter that never has a gradient."""


def networks(device: str) -> list[nn.Module]:
    """Return two networks."""
    torch.manual_seed(0)
    second = nn.Sequential(nn.Linear(3, 70), nn.Linear(70, 1))
    second.register_parameter("unused", nn.Parameter(torch.ones(UNUSED)))
    return [nn.Sequential(nn.Conv2d(1, 3, 2), nn.Linear(12, 3)).to(device), second.to(device)]


def learn(made: list[nn.Module], optimizer: Any, clips: bool, steps: int, scale: float) -> None:
    """Take some steps by random gradients, which are clipped where `scale` is large."""
    for step in range(steps):
        random = torch.Generator().manual_seed(step)
        for parameter in parameters_of(made):
            if parameter.shape == (UNUSED,):
                continue
            parameter.grad = scale * torch.randn(parameter.shape, generator=random).to(parameter.device)
        if clips:
            for network in made:
                nn.utils.clip_grad_norm_(network.parameters(), MOST_NORM)
        optimizer.step()


def parameters_of(made: list[nn.Module]) -> list[nn.Parameter]:
    return [parameter for network in made for parameter in network.parameters()]


def clipped(made: list[nn.Module]) -> ClippedAdam:
    return ClippedAdam([list(network.parameters()) for network in made], 1e-2, MOST_NORM)


def assert_alike(left: list[nn.Module], right: list[nn.Module]) -> None:
    for one, other in zip(parameters_of(left), parameters_of(right), strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [1e-3, 100.0])
def test_steps_are_pytorchs(device: str, scale: float):
    ours, theirs = networks(device), networks(device)
    learn(theirs, torch.optim.Adam(parameters_of(theirs), lr=1e-2), True, 20, scale)
    learn(ours, clipped(ours), False, 20, scale)
    assert_alike(ours, theirs)
    assert torch.equal(ours[1].get_parameter("unused").cpu(), torch.ones(UNUSED))


@pytest.mark.parametrize("device", DEVICES)
def test_a_checkpoint_goes_to_pytorchs_optimizer_and_back(device: str):
    theirs = networks(device)
    optimizer = torch.optim.Adam(parameters_of(theirs), lr=1e-2)
    learn(theirs, optimizer, True, 5, 1.0)
    weights, state = copy.deepcopy([network.state_dict() for network in theirs]), copy.deepcopy(optimizer.state_dict())
    learn(theirs, optimizer, True, 5, 2.0)

    ours = networks(device)
    own = clipped(ours)
    learn(ours, own, False, 3, 1.0)  # what it learned so far is replaced
    for network, loaded in zip(ours, weights, strict=True):
        network.load_state_dict(loaded)
    own.load_state_dict(state)
    own.take_state()
    learn(ours, own, False, 5, 2.0)
    assert_alike(ours, theirs)

    back = networks(device)
    again = torch.optim.Adam(parameters_of(back), lr=1e-2)
    for network, loaded in zip(back, [network.state_dict() for network in ours], strict=True):
        network.load_state_dict(loaded)
    again.load_state_dict(copy.deepcopy(own.state_dict()))
    learn(back, again, True, 3, 1.0)
    learn(ours, own, False, 3, 1.0)
    assert_alike(ours, back)


def test_a_gradient_that_is_no_number_stays_none():
    made = networks("cpu")
    optimizer = clipped(made)
    for parameter in parameters_of(made):
        parameter.grad = torch.ones_like(parameter)
    parameters_of(made)[0].grad = torch.full_like(parameters_of(made)[0], torch.nan)
    optimizer.step()
    assert all(parameter.isnan().all() for parameter in made[0].parameters())  # as with clip_grad_norm_
    assert not any(parameter.isnan().any() for parameter in made[1].parameters())


def test_a_closure_is_refused():
    with pytest.raises(ValueError, match="ClippedAdam takes no closure"):
        clipped(networks("cpu")).step(lambda: 0.0)
