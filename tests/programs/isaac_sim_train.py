"""Isaac Lab 2's train.py as far as envknee sees it: its flags, and RSL-RL's event file in a folder of the working directory.

It runs in a stand-in for Isaac Sim's image, and needs TensorBoard alone.
"""

import argparse
import os
import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[attr-defined]  # made by protobuf when imported
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[attr-defined]  # made by protobuf when imported
from tensorboard.summary.writer.event_file_writer import EventFileWriter

parser = argparse.ArgumentParser()
parser.add_argument("--task", required=True)
parser.add_argument("--num_envs", type=int, required=True)
parser.add_argument("--seed", type=int, required=True)
parser.add_argument("--max_iterations", type=int, required=True)
parser.add_argument("--headless", action="store_true", required=True)
parser.add_argument("--enable_cameras", action="store_true")
given, overrides = parser.parse_known_args()
assert os.environ["ACCEPT_EULA"] == "Y", "Isaac Sim asks for it"
horizon = next(int(word.partition("=")[2]) for word in overrides if word.startswith("agent.num_steps_per_env="))

folder = Path("logs/rsl_rl/ant/2026-01-01_00-00-00")
folder.mkdir(parents=True)
writer = EventFileWriter(str(folder), flush_secs=1)
iteration_s = 0.02 + 0.0002 * given.num_envs
start = time.time()
for number in range(given.max_iterations):
    # When an iteration should end: what a busy machine adds is not the program's.
    ends = start + (number + 1) * iteration_s
    time.sleep(max(ends - time.time(), 0.0))
    values = {
        "Perf/total_fps": given.num_envs * horizon / iteration_s,
        "Perf/collection time": 0.7 * iteration_s,
        "Perf/learning_time": 0.3 * iteration_s,
        "Loss/value_function": 0.5,
        "Loss/surrogate": 0.1,
        "Train/mean_reward": float(number),
    }
    for name, value in values.items():
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
        writer.add_event(Event(wall_time=ends, step=number, summary=summary))
    writer.flush()
