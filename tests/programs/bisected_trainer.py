"""A training program of a repository with a history: how long an iteration takes is a line that commits change."""

import json
import sys
import time
from pathlib import Path

ITERATION_S = 0.02

envs, steps, iterations = (int(word) for word in sys.argv[1:])
with Path("log.jsonl").open("w", encoding="utf-8") as log:
    for number in range(1, iterations + 1):
        time.sleep(ITERATION_S)
        row = {"step": number * envs * steps, "time": time.time(), "fps": envs * steps / ITERATION_S}
        log.write(json.dumps(row) + "\n")
        log.flush()
