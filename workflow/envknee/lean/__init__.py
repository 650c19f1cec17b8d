"""Camera frames that stay uint8 from the renderer to the network: each is stored once, and stacked again when it is read.

Input: camera frames [num_envs, height, width, channels]. Output: stacks of the newest K frames, as uint8, or normalized as in Isaac Lab
(`x / 255 - mean`). Knows Warp and torch, but neither Isaac Lab nor RSL-RL: `envknee.tasks.frames` and `envknee.trainers.rsl_rl` connect
those.

frames         a camera's stack of frames
operations     stacks, sums and normalizes the newest frames
rollouts       stacks of any transitions of a rollout that stores each frame once
checks         checks the arguments of kernels
launch         launches Warp's kernels on PyTorch's tensors
kernels        Warp's kernels
fused          convolutions that read bytes; fused_kernels has their Triton kernels, fused_fits checks whether they run here
first_layer    the first convolution in CUDA C++
policy_loss    PPO's losses and their gradients in one kernel
"""

from envknee.lean.frames import LeanFrameStack
from envknee.lean.operations import normalized
from envknee.lean.rollouts import gather, gather_normalized

__all__ = ["LeanFrameStack", "gather", "gather_normalized", "normalized"]
