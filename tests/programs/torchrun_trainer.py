"""A training program of several ranks, as torchrun starts them: each has environments of its own, and the first writes the log."""

import argparse
import time

import torch
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter

parser = argparse.ArgumentParser()
parser.add_argument("--num_envs", type=int)
parser.add_argument("--seed", type=int)
parser.add_argument("--max_iterations", type=int)
parser.add_argument("hydra", nargs="*", help="agent.num_steps_per_env=4")
given = parser.parse_args()
horizon = int(dict(word.split("=") for word in given.hydra)["agent.num_steps_per_env"])

dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
writer = SummaryWriter("logs") if rank == 0 else None
environments = torch.zeros(given.num_envs)
began = time.perf_counter()
for iteration in range(given.max_iterations):
    for _ in range(horizon):
        environments += 1.0
        time.sleep(0.01)
    steps = environments.sum()
    dist.all_reduce(steps)  # of all ranks, since the start
    now = time.perf_counter()
    # From row to row, as its log is timed.
    seconds, began = now - began, now
    print(f"rank {rank}, iteration {iteration}: {int(steps)} transitions so far", flush=True)
    if writer is not None:
        writer.add_scalar("Perf/total_fps", given.num_envs * horizon * ranks / seconds, iteration)
        writer.flush()
dist.destroy_process_group()
