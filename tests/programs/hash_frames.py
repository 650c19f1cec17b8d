"""Stacks, normalizes and gathers; prints whether Warp and envknee are there, and a hash of all numbers."""

import hashlib
import importlib.util

import torch
from leanframes import LeanFrameStack, gather_normalized, normalized
from leanframes.launch import HAS_WARP
from leanframes.operations import copy_newest

random, hashed = torch.Generator().manual_seed(1), hashlib.sha256()
for height, width in ((8, 8), (7, 5)):
    stack = LeanFrameStack(num_envs=4, frames=3, device="cpu")
    frames, sums = torch.zeros(8, 4, 3, height, width, dtype=torch.uint8), torch.zeros(8, 4, 3, dtype=torch.int64)
    for step in range(8):
        images = torch.randint(0, 256, (4, height, width, 4), dtype=torch.uint8, generator=random)
        stack.reset(torch.rand(4, generator=random) < 0.3)
        stacked = stack(images[..., :3])
        copy_newest(stacked, frames[step], sums[step])
        hashed.update(stacked.numpy().tobytes() + normalized(stacked).numpy().tobytes())
    history, places = (
        torch.randint(0, 3, (6, 4), dtype=torch.uint8, generator=random),
        torch.randperm(24, generator=random),
    )
    gathered = gather_normalized(frames, sums, history, places, 3)
    hashed.update(gathered.numpy().tobytes() + sums.numpy().tobytes())
print(HAS_WARP, importlib.util.find_spec("envknee") is not None, hashed.hexdigest())
