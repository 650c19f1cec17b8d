"""A training program for `envknee drill`: it learns nothing, logs a row each time, and looks for others of its kind that still run.

    bash benchmarks/drilled_trainer.sh PYTHON drilled_trainer.py NAME ROWS        as the drill's study starts it

In: NAME, an absolute path that no other drill has. Out: log.jsonl in its working directory; NAME.beside, if another one measured at the
same time. It ignores SIGTERM, as a program may that is busy.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

ROW_S = 0.2


def others(name: str, wrapper: str) -> list[str]:
    """Return the command lines of processes of the same drill that belong to another start of it."""
    lines = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or folder.name == wrapper:
            continue
        try:
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if name in words and wrapper not in words:
            lines.append(" ".join(words))
    return lines


def main() -> None:
    """Log rows until somebody ends this process."""
    role, name, rows, wrapper = sys.argv[1:]
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if role == "daemon":
        time.sleep(600.0)
        return
    for row in range(1, int(rows) + 1):
        for other in others(name, wrapper):
            with Path(f"{name}.beside").open("a", encoding="utf-8") as file:
                file.write(f"{os.getpid()} beside {other}\n")
        time.sleep(ROW_S)
        values = {
            "step": row,
            "time": time.time(),
            "fps": 8 / ROW_S,
            "collect": 0.7 * ROW_S,
            "learn": 0.3 * ROW_S,
            "reward": 1.0,
        }
        with Path("log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")
    time.sleep(600.0)  # like a program that hangs at its end


if __name__ == "__main__":
    main()
