"""PPO's losses of a mini-batch and their gradients in one kernel, for Gaussian policies: PyTorch needs over a hundred short ones.

Arithmetic: float32, term by term as `PPO.update` of rsl-rl-lib 5.5.1 and PyTorch's gradients of it (`torch.max` gives each of two equal
sides half). Source of the losses: Schulman et al. 2017, Proximal Policy Optimization, arXiv:1707.06347, equations 7 and 9.
"""

from typing import Any

import torch

from leanframes import kernels, launch


def losses(
    mean: torch.Tensor,
    deviation: torch.Tensor,
    value: torch.Tensor,
    places: torch.Tensor,
    rollout: Any,
    weights: Any,
    size: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Return the losses of some transitions of a mini-batch, and the gradients of PPO's loss.

    Args:
        mean: of the policy that learns [b, num_actions], float32
        deviation: the same shape
        value: [b, 1], float32
        places: transitions in the rollout [b], int64
        rollout: RSL-RL's storage, read at `places`, or an object with its tensors, float32, contiguous: `actions` and the two
            `distribution_params` of the acting policy [t, n, num_actions], `actions_log_prob`, `values`, `returns` and `advantages`
            [t, n, 1]
        weights: RSL-RL's PPO, or an object with its settings `clip_param`, `value_loss_coef`, `entropy_coef` and
            `use_clipped_value_loss`
        size: transitions of the whole mini-batch, over which PPO takes means

    Returns:
        Terms [4, b] of each transition: value loss, surrogate loss, entropy, and KL divergence from the policy that acted. And the
        gradients of the mini-batch's loss with respect to mean, deviation and value, in their shapes.
    """
    mean, deviation, value = mean.detach(), deviation.detach().contiguous(), value.detach()
    terms = mean.new_empty(4, len(places))
    gradients = torch.empty_like(mean), torch.empty_like(mean), torch.empty_like(value)
    recorded = (
        rollout.actions, *rollout.distribution_params, rollout.actions_log_prob, rollout.values, rollout.returns,
        rollout.advantages,
    )  # fmt: skip
    launch.run(
        kernels.policy_losses,
        (len(places),),
        [
            *map(launch.array, (places, mean, deviation, value, *(tensor.flatten(0, 1) for tensor in recorded))),
            1.0 - weights.clip_param, 1.0 + weights.clip_param, weights.clip_param, weights.use_clipped_value_loss,
            weights.value_loss_coef / size, weights.entropy_coef / size, 1.0 / size,
            *map(launch.array, (*gradients, terms)),
        ],
        mean.device,
    )  # fmt: skip
    return terms, gradients
