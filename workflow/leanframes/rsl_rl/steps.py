"""Switches of the lean learner, beyond frames that stay uint8. Each can be measured alone.

`python benchmarks/bench_learner.py` measures them on any device. Unless stated otherwise, factors are an update's time for 4,096
environments x 32 steps of 96 x 96 pixels on an H200. docs/leanframes.md has the table.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class LearnerSteps:
    """Switches of `LeanPPO`. An arm sets `fused` alone, by `overrides: {agent.algorithm.fused: false}`."""

    fused: bool | None = None
    """Use the convolutions of `leanframes.fused`, which read the rollout's bytes and compute in bfloat16, also when acting. With
    `fused_adam` an update takes 0.33 of stock's time on an H100. None: on for an NVIDIA GPU if the network allows it."""

    fused_adam: bool | None = None
    """Clip gradients and do Adam's step in a few kernels for each network (`leanframes.clipped_adam`); for another optimizer, or without
    Warp, PyTorch's `fused` form of its step. Equal within float error. Of a mini-batch of 512 images on an H200 clipping and the step
    take 0.04 ms; PyTorch's took 0.12. None: on for an NVIDIA GPU."""

    fused_loss: bool | None = None
    """Compute PPO's losses and their gradients in one kernel, which reads the rollout at a mini-batch's places
    (`leanframes.policy_loss`). Equal within float error. None: on for an NVIDIA GPU if the policy is Gaussian, and advantages are not
    normalized per mini-batch."""

    cuda_graph: bool | None = None
    """Capture a mini-batch's whole step once and replay it, because launches take longer than fused kernels. CUDA only, with `fused_loss`,
    whose mini-batches are their places alone. The kernels are the same, communication between ranks (NCCL) included. Added to `fused` on
    an H100, takes 0.56 of the time. None: on for an NVIDIA GPU if `fused_loss` is on and mini-batches are whole. A network that waits for
    the GPU is learned without a graph, and the log says so."""

    critic_beside: bool | None = None
    """In captured graphs, run the critic beside the actor, on a stream of its own: with few environments their small kernels leave most
    of a GPU idle. The kernels are the same. None: on if `cuda_graph` is on."""

    captured_acting: bool | None = None
    """Capture acting and storing as a graph each, for all steps of a rollout except the first, because launches take longer than such
    kernels. Drawing an action then never waits for the GPU. With the same noise, actions are equal to the bit. A CPU runs the same calls
    uncaptured. In one run on an H100 with a slow host, a rollout of 32 steps took 0.62 of the time at 1,024 environments and 0.81 at
    4,096. None: on for an NVIDIA GPU if the policy is Gaussian."""
