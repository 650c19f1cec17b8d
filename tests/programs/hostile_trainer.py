"""A training program that means harm: its clock jumps, or it prints and logs what nobody can read."""

import argparse
import json
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int)
parser.add_argument("--log", choices=["jsonl", "csv", "print", "tensorboard"], default="jsonl")
parser.add_argument("--does", default="")
parser.add_argument("--row-s", type=float, default=0.3)
given = parser.parse_args()

JUMPS_S = {"an hour back": -3600.0, "an hour on": 3600.0}
NONSENSE = {
    "NaN time": '{"step": 1, "time": NaN}', "NaN step": '{"step": NaN, "time": 1.0}', "nested": "[" * 30_000, "deep": '{"a":' * 9_000,
    "400 digits": '{"step": ' + "9" * 400 + "}", "bytes": "\x00\x1b[2J\x07",
}  # fmt: skip


def now_s(row: int) -> float:
    return time.time() + (JUMPS_S.get(given.does, 0.0) if row >= 3 else 0.0)


def spoil() -> None:
    """Write what cannot be read, beside a row."""
    with Path("log.jsonl").open("a", encoding="utf-8") as file:
        file.write(NONSENSE[given.does] + "\n")


def write_event(row: int) -> None:
    from tensorboard.compat.proto.event_pb2 import Event  # type: ignore[attr-defined]  # made by protobuf when imported
    from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[attr-defined]  # made by protobuf when imported
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    values = {"Perf/total_fps": 100.0, "Perf/collection_time": 0.2, "Perf/learning_time": 0.1, "Train/mean_reward": 1.0}
    payloads = [
        Event(
            wall_time=now_s(row), step=row, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)])
        ).SerializeToString()
        for tag, value in values.items()
    ]
    if given.does == "bad record":
        payloads.insert(2, b"\xff" * 40)
    with Path("events.out.tfevents.1").open("ab") as file:
        for payload in payloads:
            header = len(payload).to_bytes(8, "little")
            crcs = [masked_crc32c(part).to_bytes(4, "little") for part in (header, payload)]
            file.write(header + crcs[0] + payload + crcs[1])


def write(row: int) -> None:
    values = {"fps": 100.0, "collect": 0.2, "learn": 0.1, "reward": 1.0}
    if given.log == "tensorboard":
        write_event(row)
    elif given.log == "print":
        print(f"row {row} at {now_s(row)!r} with {values['fps']}", flush=True)
    elif given.log == "csv":
        is_new = not Path("log.csv").exists()
        with Path("log.csv").open("a", encoding="utf-8") as file:
            if is_new:
                file.write(",".join(["step", "time", *values]) + "\n")
            file.write(",".join(map(str, [row, now_s(row), *values.values()])) + "\n")
    else:
        with Path("log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": 256 * row, "time": now_s(row), "train": values}) + "\n")


for row in range(1, given.iterations + 1):
    time.sleep(given.row_s)
    if given.does in NONSENSE:
        spoil()
    if given.does == "a long line":
        for _ in range(25):
            sys.stdout.write("x" * 1_000_000)
        sys.stdout.write("\n")
    if given.does == "many lines" and row == 1:
        line = "step 12345 of nothing in particular\n" * 1_000
        for _ in range(2_000):
            sys.stdout.write(line)
    if given.does == "escapes" and row == 2:
        sys.exit("\x1b[2J\x1b]0;evil\x07RuntimeError: \u202ethe reason " + "y" * 100_000)
    write(row)
