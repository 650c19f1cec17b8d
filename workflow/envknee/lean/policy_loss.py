"""PPO's losses of a mini-batch and their gradients in one kernel, for Gaussian policies: PyTorch needs over a hundred short ones.

Input: what networks predict for a mini-batch, and a rollout, which is read at the mini-batch's places. Output: the losses of each
transition, and the gradients of their mean with respect to the predictions. Arithmetic: float32, term by term as `PPO.update` of
rsl-rl-lib 5.5.1 and PyTorch's gradients of it (`torch.max` gives each of two equal sides half). Source of the losses: Schulman et al.
2017, Proximal Policy Optimization, arXiv:1707.06347, equations 7 and 9.
"""

# Python's type checker does not understand Warp's kernels.
# pyright: reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false
# pyright: reportAssignmentType=false, reportCallIssue=false, reportInvalidTypeForm=false

import math
from typing import NamedTuple

import torch
import warp as wp

from envknee.lean import launch

HALF_LOG_2_PI = wp.constant(0.5 * math.log(2.0 * math.pi))


class Rollout(NamedTuple):
    """What PPO compares with: tensors of all transitions [n * t, ...], float32, contiguous."""

    actions: torch.Tensor
    """[n * t, num_actions]"""
    means: torch.Tensor
    """Of the policy that acted [n * t, num_actions]"""
    deviations: torch.Tensor
    """Of the policy that acted [n * t, num_actions]"""
    log_probs: torch.Tensor
    """[n * t, 1]"""
    values: torch.Tensor
    """[n * t, 1]"""
    returns: torch.Tensor
    """[n * t, 1]"""
    advantages: torch.Tensor
    """[n * t, 1]"""


class Weights(NamedTuple):
    """PPO's settings, by the names of RSL-RL."""

    clip_param: float
    value_loss_coef: float
    entropy_coef: float
    use_clipped_value_loss: bool


def losses(
    mean: torch.Tensor,
    deviation: torch.Tensor,
    value: torch.Tensor,
    places: torch.Tensor,
    rollout: Rollout,
    weights: Weights,
    size: int,
) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """Return the losses of some transitions of a mini-batch, and the gradients of PPO's loss.

    Args:
        mean: of the policy that learns [b, num_actions], float32
        deviation: the same shape
        value: [b, 1], float32
        places: transitions in the rollout [b], int64
        rollout: read at `places`
        weights: PPO's settings
        size: transitions of the whole mini-batch, over which PPO takes means

    Returns:
        Terms [4, b] of each transition: value loss, surrogate loss, entropy, and KL divergence from the policy that acted. And the
        gradients of the mini-batch's loss with respect to mean, deviation and value, in their shapes.
    """
    mean, deviation, value = mean.detach(), deviation.detach().contiguous(), value.detach()
    terms = mean.new_empty(4, len(places))
    gradients = torch.empty_like(mean), torch.empty_like(mean), torch.empty_like(value)
    launch.run(
        _losses,
        (len(places),),
        [
            *map(launch.array, (places, mean, deviation, value, *rollout)),
            1.0 - weights.clip_param, 1.0 + weights.clip_param, weights.clip_param, weights.use_clipped_value_loss,
            weights.value_loss_coef / size, weights.entropy_coef / size, 1.0 / size,
            *map(launch.array, (*gradients, terms)),
        ],
        mean.device,
    )  # fmt: skip
    return terms, gradients


@wp.func
def _slope_of_max(left: wp.float32, right: wp.float32, left_slope: wp.float32, right_slope: wp.float32):
    """Return the gradient of max(left, right), as `torch.max` gives it."""
    if left > right:
        return left_slope
    if left < right:
        return right_slope
    return 0.5 * (left_slope + right_slope)


@wp.kernel(enable_backward=False)
def _losses(
    places: wp.array(dtype=wp.int64),
    mean: wp.array2d(dtype=wp.float32),
    deviation: wp.array2d(dtype=wp.float32),
    value: wp.array2d(dtype=wp.float32),
    actions: wp.array2d(dtype=wp.float32),
    old_mean: wp.array2d(dtype=wp.float32),
    old_deviation: wp.array2d(dtype=wp.float32),
    old_log_prob: wp.array2d(dtype=wp.float32),
    old_value: wp.array2d(dtype=wp.float32),
    returns: wp.array2d(dtype=wp.float32),
    advantages: wp.array2d(dtype=wp.float32),
    lowest: wp.float32,
    highest: wp.float32,
    clip: wp.float32,
    clips_value: wp.bool,
    value_weight: wp.float32,
    entropy_weight: wp.float32,
    weight: wp.float32,
    mean_gradient: wp.array2d(dtype=wp.float32),
    deviation_gradient: wp.array2d(dtype=wp.float32),
    value_gradient: wp.array2d(dtype=wp.float32),
    terms: wp.array2d(dtype=wp.float32),
):
    """Write one transition's terms and gradients. dim: b. Where something is NaN, so are its term and gradient."""
    row = wp.tid()
    place = wp.int32(places[row])
    log_prob, entropy, divergence = wp.float32(0.0), wp.float32(0.0), wp.float32(0.0)
    for action in range(mean.shape[1]):
        spread = deviation[row, action]
        away = actions[place, action] - mean[row, action]
        logarithm = wp.log(spread)
        log_prob += -(away * away) / (2.0 * (spread * spread)) - logarithm - HALF_LOG_2_PI
        entropy += 0.5 + HALF_LOG_2_PI + logarithm
        variances = old_deviation[place, action] / spread
        variances = variances * variances
        moved = (old_mean[place, action] - mean[row, action]) / spread
        divergence += 0.5 * (variances + moved * moved - 1.0 - wp.log(variances))

    advantage = advantages[place, 0]
    ratio = wp.exp(log_prob - old_log_prob[place, 0])
    is_within = ratio >= lowest and ratio <= highest
    plain, clipped = -advantage * ratio, -advantage * wp.clamp(ratio, lowest, highest)
    slope = _slope_of_max(plain, clipped, plain, wp.where(is_within, plain, 0.0)) * weight
    for action in range(mean.shape[1]):
        spread = deviation[row, action]
        away = (actions[place, action] - mean[row, action]) / spread
        mean_gradient[row, action] = slope * away / spread
        deviation_gradient[row, action] = slope * (away * away - 1.0) / spread - entropy_weight / spread

    wrong = value[row, 0] - returns[place, 0]
    value_loss, value_slope = wrong * wrong, 2.0 * wrong
    if clips_value:
        step = value[row, 0] - old_value[place, 0]
        near = old_value[place, 0] + wp.clamp(step, -clip, clip) - returns[place, 0]
        near_slope = wp.where(step >= -clip and step <= clip, 2.0 * near, 0.0)
        value_slope = _slope_of_max(value_loss, near * near, value_slope, near_slope)
        value_loss = wp.where(near * near > value_loss, near * near, value_loss)
    value_gradient[row, 0] = value_slope * value_weight

    terms[0, row] = value_loss
    terms[1, row] = wp.where(clipped > plain, clipped, plain)
    terms[2, row] = entropy
    terms[3, row] = divergence
