"""Camera frames that stay uint8 from the renderer to the network: a ring per camera, and stacks rebuilt where they are read.

Input: camera frames (num_envs, height, width, channels). Output: stacks of the newest K frames, as uint8, or normalized as
Isaac Lab does (`x / 255 - mean`). Knows Warp and torch, but neither Isaac Lab nor RSL-RL: those seams are
`envknee.tasks.frames` and `envknee.trainers.rsl_rl`.

frames         a camera's stack of frames
operations     the newest frames: stacked, summed, normalized
rollouts       stacks of any transitions of a rollout that holds each frame once
checks         what a kernel is given
launch         Warp's kernels on PyTorch's tensors
kernels        Warp's kernels
fused          convolutions that read bytes, in Triton; fused_fits says whether they run here, fused_kernels has the
               kernels, first_layer one in CUDA C++
"""

from envknee.lean.frames import LeanFrameStack
from envknee.lean.operations import normalized
from envknee.lean.rollouts import Layout, gather, gather_normalized

__all__ = ["LeanFrameStack", "Layout", "gather", "gather_normalized", "normalized"]
