"""Holds a lock, starts a command under a keeper that has the lock, too, and tells the keeper's PID: LOCK FOLDER COMMAND."""

import subprocess
import sys
from pathlib import Path

from envknee.machine import lock, processes

with lock.locked(Path(sys.argv[1])):
    command = [*processes.kept(Path(sys.argv[2])), sys.argv[3]]
    keeper = subprocess.Popen(command, start_new_session=True, pass_fds=lock.held())
    print(keeper.pid, flush=True)
    keeper.wait()
