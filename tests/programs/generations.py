"""Forks 40 times, each generation in a session of its own; all ignore SIGTERM, and note their PIDs in the file FILE."""

import os
import signal
import sys
import time
from pathlib import Path

signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(40):
    if os.fork():
        break
    os.setsid()
with Path(sys.argv[1]).open("a") as file:
    file.write(f"{os.getpid()}\n")
time.sleep(600)
