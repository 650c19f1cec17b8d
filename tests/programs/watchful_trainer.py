"""A training program that ignores SIGTERM, has a daemon, and notes which others of its kind run beside it: ROLE MARK WRAPPER."""

import json
import os
import signal
import sys
import time
from pathlib import Path

signal.signal(signal.SIGTERM, signal.SIG_IGN)
role, mark, wrapper = sys.argv[1:]
if role == "daemon":
    if os.fork():
        os._exit(0)
    time.sleep(600)


def others():
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if mark in words and wrapper not in words and process.name != wrapper:
            yield " ".join(words)


def note(path, line):
    with Path(path).open("a") as file:
        file.write(line + "\n")


note(mark + ".starts", "started")
for step in range(1, 13):
    for other in others():
        note(mark + ".beside", other)
    time.sleep(0.2)
    values = {"fps": 100.0, "collect": 0.1, "learn": 0.1, "reward": 1.0}
    note("log.jsonl", json.dumps({"step": 256 * step, "time": time.time(), "train": values}))
time.sleep(600)
