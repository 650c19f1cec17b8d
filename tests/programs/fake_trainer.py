"""A training program that knows nothing of envknee: it writes a log in one of four ways, and breaks as it is told to.

Its speed has a law: an iteration takes 0.02 s + 0.2 ms per environment.
"""

import argparse
import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--envs", type=int)
parser.add_argument("--steps", type=int)
parser.add_argument("--iterations", type=int)
parser.add_argument("--log", choices=["tensorboard", "jsonl", "csv", "print"], default="jsonl")
parser.add_argument("--breaks", default="")
parser.add_argument("--slower", type=float, default=1.0, help="how many times as long an iteration takes")
given = parser.parse_args()
if given.breaks == "half-above-32" and given.envs > 32:
    given.envs //= 2
iteration_s = given.slower * (0.02 + 0.0002 * given.envs)


def tensorboard() -> Callable[[int, dict[str, float]], None]:
    from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[attr-defined]  # made by protobuf when imported
    from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[attr-defined]  # made by protobuf when imported
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    Path("logs/run").mkdir(parents=True)
    writer = EventFileWriter("logs/whole" if given.breaks == "torn" else "logs/run", flush_secs=1)
    timed = {"fps": "total_fps", "collect": "collection time", "learn": "learning_time"}
    tags = {name: f"Perf/{tag}" for name, tag in timed.items()} | {"reward": "Train/mean_reward"}

    def write(number: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            summary = Summary(value=[Summary.Value(tag=tags.get(name, f"Loss/{name}"), simple_value=value)])
            writer.add_event(Event(wall_time=time.time(), step=number, summary=summary))
        writer.flush()
        if given.breaks == "torn":
            # As tensorboardX writes, 4 kB at a time: in the midst of an event, and the rest later.
            (whole,) = Path("logs/whole").iterdir()
            with Path("logs/run/events.out.tfevents.1").open("ab") as log:
                new = whole.read_bytes()[log.tell() :]
                log.write(new[:-20])
                log.flush()
                time.sleep(2.5 if number == 3 else 0)
                log.write(new[-20:])

    return write


def printed(number: int, values: dict[str, float]) -> None:
    print(f"\r iteration {number}/{given.iterations}: {values['fps']:,.1f} steps/s")
    print(f"   mean reward {values['reward']:.3f}, value loss {values['value']}")


def as_json(number: int, values: dict[str, float]) -> None:
    with Path("log.jsonl").open("a") as file:
        file.write(json.dumps({"step": number * given.envs * given.steps, "time": time.time(), "train": values}) + "\n")


def as_csv(number: int, values: dict[str, float]) -> None:
    is_new = not Path("log.csv").exists()
    with Path("log.csv").open("a") as file:
        if is_new:
            file.write(",".join(["step", "time", *values]) + "\n")
        file.write(",".join(map(str, [number, time.time(), *values.values()])) + "\n")


if given.breaks == "garbage":
    print("\x00\xff\x1b[31m~~~ {not json", flush=True)
    Path("log.jsonl").write_bytes(b"\x00\xff{{{\nstep step step\n")
    sys.exit(0)
if given.breaks in ("compiles", "starts"):
    print(
        "Module envs.physics 1f3a9c2 load on device 'cpu' took 812.52 ms  (compiled)"
        if given.breaks == "compiles"
        else "Starting",
        flush=True,
    )
    time.sleep(4.0)
write = tensorboard() if given.log == "tensorboard" else {"jsonl": as_json, "csv": as_csv, "print": printed}[given.log]
kept = []
for number in range(1, given.iterations + 1):
    time.sleep(iteration_s)
    fps = given.envs * given.steps / iteration_s
    value = 0.5
    if number == 3:
        if given.breaks == "oom" or (given.breaks == "oom-above-32" and given.envs > 32):
            sys.exit(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79 GiB"
            )
        if given.breaks == "crash" or (given.breaks == "crash-above-32" and given.envs > 32):
            raise KeyError("no such robot")
        if given.breaks == "asks":
            input("Overwrite old logs? ")
        if given.breaks == "full-disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "checkpoint.pt")
        if given.breaks == "killed-below":  # as a shell says that a signal ended its program
            sys.exit(128 + signal.SIGKILL)
        if given.breaks == "illegal-access":
            os.kill(os.getpid(), signal.SIGSEGV)
        if given.breaks == "quiet-crash":  # as Kit does: an exception, and exit status 0
            print("ValueError: the stage is gone")
            sys.exit(0)
        if given.breaks == "hang":
            time.sleep(600)
        value = {"nan": float("nan"), "diverge": 1e12}.get(given.breaks, value)
    if given.breaks == "overflow" and given.envs > 32:
        print(
            "PhysX error: the application needs to increase PxGpuDynamicsMemoryConfig::collisionStackSize to 12345",
            flush=True,
        )
    values = {
        "fps": 10 * fps if given.breaks == "lie" else fps,
        "collect": 0.7 * iteration_s,
        "learn": 0.3 * iteration_s,
    }
    write(number, values | {"reward": 0.5 * number, "value": value})
    if given.breaks == "leak":  # well apart from the rows before and after it, so that each is seen with its own memory
        time.sleep(0.6)
        kept.append(b"x" * 12_000_000)  # touched, so that it is resident
        time.sleep(0.6)
if given.breaks == "hangs-at-its-end":
    time.sleep(600)
