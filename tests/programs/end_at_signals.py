"""Starts two processes that ignore SIGTERM, one of them in a session of its own, and ends both when it gets a signal."""

import subprocess
import time

from envknee.machine import processes

processes.raise_at_signals(lambda number: SystemExit(number))
others = processes.adopt_orphans()
stubborn = "trap '' TERM; echo started; while :; do sleep 0.1; done"
process = subprocess.Popen(["bash", "-c", f'(setsid bash -c "{stubborn}" &); {stubborn}'], start_new_session=True)
try:
    print("waiting", flush=True)
    time.sleep(60)
finally:
    processes.end_all(process, 1.0, others)
    print("ended", flush=True)
