"""Clips the gradients of networks and does Adam's step, in four short kernels for each network.

PyTorch's fused Adam gives a block of threads 65,536 parameters (`multi_tensor_apply`, 2.11.0), so that a small network keeps a GPU's
few blocks busy for 60 microseconds, and clipping it takes some 20 kernels more.

Arithmetic: that of `torch.nn.utils.clip_grad_norm_` and `torch.optim.Adam` of PyTorch 2.11.0, within float error. Source of Adam:
Kingma and Ba 2015, arXiv:1412.6980, algorithm 1.
"""

from collections.abc import Sequence
from typing import Any

import torch

from leanframes import kernels, launch

ALIGNED = 64
"""Parameters begin at a multiple of so many numbers, 256 bytes, as PyTorch's allocator places them."""


class _Network:
    """The parameters of a network, and Adam's moments of their gradients, in one tensor each."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        self.parameters = parameters
        lengths = [-(-parameter.numel() // ALIGNED) * ALIGNED for parameter in parameters]
        device = parameters[0].device
        self.values, self.first, self.second = (torch.zeros(sum(lengths), device=device) for _ in range(3))
        self.gaps = [
            torch.zeros(length - own.numel(), device=device) for own, length in zip(parameters, lengths, strict=True)
        ]
        for own, view in zip(parameters, self.views_of(self.values), strict=True):
            view.copy_(own.data)
            own.data = view

    def views_of(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Return a tensor's part for each parameter, in its shape."""
        views, start = [], 0
        for own, gap in zip(self.parameters, self.gaps, strict=True):
            views.append(flat[start : start + own.numel()].view_as(own))
            start += own.numel() + len(gap)
        return views

    def gradients(self) -> torch.Tensor:
        """Return the gradients in the order of the parameters; a parameter that has none is never moved."""
        pieces = []
        for own, gap in zip(self.parameters, self.gaps, strict=True):
            pieces += [torch.zeros_like(own).view(-1) if own.grad is None else own.grad.reshape(-1), gap]
        return torch.cat(pieces)


class ClippedAdam(torch.optim.Adam):
    """Adam over networks that share no parameter, which clips each network's gradients as part of its step.

    Parameters become views of one tensor for each network. Checkpoints are those of `torch.optim.Adam`.
    """

    def __init__(self, networks: Sequence[Sequence[torch.nn.Parameter]], lr: Any, most_norm: float) -> None:
        """Take the float32 parameters of networks on one device, Adam's rate, and the norm to which gradients are clipped.

        `lr` is a number, or a tensor [] on the device, float32.
        """
        parameters = [parameter for network in networks for parameter in network]
        device = parameters[0].device
        super().__init__(parameters, lr=lr, capturable=device.type == "cuda")
        self.most_norm = most_norm
        self._networks = [_Network(list(network)) for network in networks]
        self._count = torch.zeros((), device=device)
        """Steps so far."""
        self._rate = torch.zeros((), device=device)
        """The rate of the current step."""
        self.take_state()

    def take_state(self) -> None:
        """Move what was loaded from a checkpoint to where the kernels read it; else do nothing."""
        for network in self._networks:
            moments = zip(network.views_of(network.first), network.views_of(network.second), strict=True)
            for own, (first, second) in zip(network.parameters, moments, strict=True):
                loaded = self.state[own]
                if loaded and loaded["exp_avg"] is not first and loaded["exp_avg"].data_ptr() != first.data_ptr():
                    first.copy_(loaded["exp_avg"])
                    second.copy_(loaded["exp_avg_sq"])
                    self._count.copy_(loaded["step"])
                self.state[own] = {"step": self._count, "exp_avg": first, "exp_avg_sq": second}

    def state_dict(self) -> dict[str, Any]:
        """Return what `torch.optim.Adam` does: a count of steps for each parameter, which another optimizer may count on."""
        packed = super().state_dict()
        states = {key: {**state, "step": state["step"].clone()} for key, state in packed["state"].items()}
        return packed | {"state": states}

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """Clip the gradients of each network, and move its parameters."""
        if closure is not None:
            raise ValueError("ClippedAdam takes no closure")
        (group,) = self.param_groups
        rate = group["lr"]
        if not isinstance(rate, torch.Tensor):
            self._rate.fill_(rate)
        elif rate is not self._rate:
            self._rate.copy_(rate)
        first_decay, second_decay = group["betas"]
        self._count += 1
        for network in self._networks:
            gradients = network.gradients()
            # In two steps: of one tensor, one block of threads would take the norm.
            norm = torch.linalg.vector_norm(torch.linalg.vector_norm(gradients.view(-1, ALIGNED), dim=1))
            tensors = (network.values, gradients, network.first, network.second, norm, self._rate, self._count)
            launch.run(
                kernels.adam_step,
                (len(gradients),),
                [
                    *(launch.array(tensor.view(-1)) for tensor in tensors),
                    self.most_norm, first_decay, second_decay, group["eps"],
                ],
                gradients.device,
            )  # fmt: skip
