"""Camera frames that stay uint8 from the renderer to the network: each is stored once, and stacked again when it is read.

Input: camera frames [num_envs, height, width, channels]. Output: stacks of the newest K frames, as uint8, or normalized as in Isaac Lab
(`x / 255 - mean`). docs/leanframes.md shows how to use it in a training script.

PyTorch is all that the modules below need. With Warp most operations take one kernel; without it PyTorch gives the same bits in more.
Folders connect libraries, and import them: `isaaclab` puts lean frames into its tasks, `rsl_rl` has the learner.

frames         a camera's stack of frames
stacks         finds the stacks of an environment
operations     stacks, sums and normalizes the newest frames
rollouts       stacks of any transitions of a rollout that stores each frame once
checks         checks the arguments of kernels
launch         launches Warp's kernels on PyTorch's tensors
kernels        Warp's kernels
policy_loss    PPO's losses and their gradients in one kernel of Warp's
clipped_adam   clipping and Adam in a few kernels for each network
fused          convolutions that read bytes, on an NVIDIA GPU
fused_kernels  their Triton kernels
fused_fits     checks whether they run here
first_layer    the first convolution in CUDA C++
captured       a function as a CUDA graph
errors         what the author of a training script can mend
"""

from leanframes.frames import LeanFrameStack
from leanframes.operations import normalized
from leanframes.rollouts import gather, gather_normalized

__all__ = ["LeanFrameStack", "gather", "gather_normalized", "normalized"]
