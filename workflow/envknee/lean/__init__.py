"""Camera frames that stay uint8 from the renderer to the network: a ring per camera, and stacks rebuilt where they are read.

Input: camera frames (num_envs, height, width, channels). Output: stacks of the newest K frames, as uint8, or normalized as
Isaac Lab does (`x / 255 - mean`). Knows Warp and torch, but neither Isaac Lab nor RSL-RL: those seams are
`envknee.tasks.frames` and `envknee.trainers.lean`.
"""

from envknee.lean.frames import LeanFrameStack
from envknee.lean.operations import Layout, gather, gather_normalized, normalized

__all__ = ["LeanFrameStack", "Layout", "gather", "gather_normalized", "normalized"]
