"""The kernel of PPO's losses: each term and each gradient is that of PyTorch, at every side of every clip."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from leanframes.policy_loss import losses
from torch.distributions import Normal, kl_divergence

STEPS, TRANSITIONS, SIZE, ACTIONS = 6, 600, 400, 3


def settings(value_loss_coef: float, entropy_coef: float, is_clipped: bool = True) -> SimpleNamespace:
    return SimpleNamespace(
        clip_param=0.2,
        value_loss_coef=value_loss_coef,
        entropy_coef=entropy_coef,
        use_clipped_value_loss=is_clipped,
    )


def drawn() -> tuple[list[torch.Tensor], torch.Tensor, SimpleNamespace]:
    """Return predictions [SIZE, ...], places and a rollout whose ratios and values lie within and beyond the clips."""
    torch.manual_seed(0)
    means, values = torch.randn(TRANSITIONS, ACTIONS), torch.randn(TRANSITIONS, 1)
    deviations = torch.rand(TRANSITIONS, ACTIONS) + 0.5
    actions = Normal(means, deviations).sample()
    log_probs = Normal(means, deviations).log_prob(actions).sum(-1, keepdim=True)
    advantages = torch.randn(TRANSITIONS, 1)
    advantages[::7] = 0.0
    kept = (actions, log_probs, values, torch.randn(TRANSITIONS, 1), advantages)
    names = ("actions", "actions_log_prob", "values", "returns", "advantages")
    rollout = SimpleNamespace(
        distribution_params=[tensor.unflatten(0, (STEPS, -1)) for tensor in (means, deviations)],
        **{name: tensor.unflatten(0, (STEPS, -1)) for name, tensor in zip(names, kept, strict=True)},
    )
    places = torch.randperm(TRANSITIONS)[:SIZE]
    near = [means[places] + 0.1 * torch.randn(SIZE, ACTIONS), deviations[places] * 1.05]
    near.append(values[places] + 0.3 * torch.randn(SIZE, 1))
    # What has not changed at all has a ratio of 1 and a KL divergence of exactly 0.
    for predicted, kept in zip(near, (means, deviations, values), strict=True):
        predicted[:20] = kept[places[:20]]
    return [tensor.requires_grad_() for tensor in near], places, rollout


def in_pytorch(
    predicted: list[torch.Tensor], places: torch.Tensor, rollout: Any, weights: SimpleNamespace
) -> list[torch.Tensor]:
    """Return the same terms, each [SIZE], by PyTorch's own operations."""
    mean, deviation, value = predicted

    def taken(kept: torch.Tensor) -> torch.Tensor:
        return kept.flatten(0, 1)[places]

    policy, clip = Normal(mean, deviation), weights.clip_param
    values, returns = taken(rollout.values), taken(rollout.returns)
    old_mean, old_deviation = map(taken, rollout.distribution_params)
    ratio = torch.exp(policy.log_prob(taken(rollout.actions)).sum(-1) - taken(rollout.actions_log_prob).squeeze(1))
    advantage = taken(rollout.advantages).squeeze(1)
    surrogate = torch.max(-advantage * ratio, -advantage * ratio.clamp(1.0 - clip, 1.0 + clip))
    value_loss = (value - returns).square()
    if weights.use_clipped_value_loss:
        near = values + (value - values).clamp(-clip, clip)
        value_loss = torch.max(value_loss, (near - returns).square())
    divergence = kl_divergence(Normal(old_mean, old_deviation), policy).sum(-1)
    return [value_loss.squeeze(1), surrogate, policy.entropy().sum(-1), divergence]


@pytest.mark.numerics
@pytest.mark.parametrize("is_clipped", [True, False])
def test_terms_and_gradients_are_pytorchs(is_clipped: bool):
    weights = settings(1.5, 0.03, is_clipped)
    predicted, places, rollout = drawn()
    terms, gradients = losses(predicted[0], predicted[1], predicted[2], places, rollout, weights, SIZE)
    expected = in_pytorch(predicted, places, rollout, weights)
    torch.testing.assert_close(terms, torch.stack(expected), rtol=1e-5, atol=2e-6)
    assert (terms[3, :20] == 0.0).all() and (terms[3, 20:] > 0.0).all()
    value_loss, surrogate, entropy, _ = (term.mean() for term in expected)
    slopes = torch.autograd.grad(surrogate + 1.5 * value_loss - 0.03 * entropy, predicted)
    for ours, slope in zip(gradients, slopes, strict=True):
        torch.testing.assert_close(ours, slope, rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_what_is_not_a_number_stays_none(number: int):
    predicted, places, rollout = drawn()
    with torch.no_grad():
        predicted[number][7] = torch.nan
    weights = settings(1.0, 0.01)
    terms, gradients = losses(predicted[0], predicted[1], predicted[2], places, rollout, weights, SIZE)
    assert gradients[number][7].isnan().all() and gradients[number][8:].isfinite().all()
    assert terms[0 if number == 2 else 1, 7].isnan() and terms[:, 8:].isfinite().all()
