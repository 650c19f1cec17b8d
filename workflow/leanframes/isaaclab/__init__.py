"""Lean frames in Isaac Lab's tasks (3.0.0).

camera_stacks  puts lean frames in place of Isaac Lab's own
frontend       makes environments on Isaac Lab's Warp frontend
warp_cartpole  the camera cart-pole on that frontend, which Isaac Lab lacks
stages         parts of its step as one CUDA graph each
"""

from leanframes.isaaclab.camera_stacks import use_lean_frames

__all__ = ["use_lean_frames"]
