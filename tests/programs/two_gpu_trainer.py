"""A training program of one process that uses two GPUs: environments and rollout on one, the learner on the other."""

import argparse
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--envs", type=int)
parser.add_argument("--steps", type=int)
parser.add_argument("--iterations", type=int)
given = parser.parse_args()

GB = 10**9
rollout = torch.zeros(given.envs * 10**6, dtype=torch.uint8, device="cuda:0")  # 1 GB for every 1,000 environments
weights = torch.randn(8192, 8192, device="cuda:1")
learner = torch.zeros(3 * GB, dtype=torch.uint8, device="cuda:1")

for iteration in range(1, given.iterations + 1):
    began = time.perf_counter()
    rollout += 1
    torch.cuda.synchronize("cuda:0")
    for _ in range(4):
        weights = torch.nn.functional.normalize(weights @ weights)
    learner += 1
    torch.cuda.synchronize("cuda:1")
    time.sleep(0.2)
    fps = given.envs * given.steps / (time.perf_counter() - began)
    print(f"iteration {iteration}/{given.iterations}: {fps:,.1f} steps/s", flush=True)
