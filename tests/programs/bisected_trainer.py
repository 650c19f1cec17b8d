"""A training program of a repository with a history: how long an iteration takes is a line that commits change.

It logs the time at which an iteration should end, never that at which a busy machine ended it: what commits cost is then
the same wherever and beside whatever it runs.
"""

import json
import sys
import time
from pathlib import Path

ITERATION_S = 0.02

envs, steps, iterations = (int(word) for word in sys.argv[1:])
start = time.time()
with Path("log.jsonl").open("w", encoding="utf-8") as log:
    for number in range(1, iterations + 1):
        end = start + number * ITERATION_S
        time.sleep(max(0.0, end - time.time()))
        row = {"step": number * envs * steps, "time": end, "fps": envs * steps / ITERATION_S}
        log.write(json.dumps(row) + "\n")
        log.flush()
