"""A training program for `envknee drill --soak`: it logs a row every 10 ms and ends.

    python soaked_trainer.py ROWS

Out: log.jsonl in its working directory.
"""

import json
import sys
import time
from pathlib import Path

ROW_S = 0.01

with Path("log.jsonl").open("w", encoding="utf-8") as file:
    for row in range(1, int(sys.argv[1]) + 1):
        time.sleep(ROW_S)
        values = {"step": row, "time": time.time(), "fps": 8 / ROW_S, "collect": 0.7 * ROW_S, "learn": 0.3 * ROW_S}
        file.write(json.dumps(values | {"reward": 1.0}) + "\n")
