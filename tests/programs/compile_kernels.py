"""Waits for its turn with a key in a folder, and compiles for so many seconds if nobody has: KEY FOLDER SECONDS."""

import sys
import time
from pathlib import Path

from envknee.run.kernel_cache import OneCompiles

one = OneCompiles(sys.argv[1], Path(sys.argv[2]))
one.wait()
if one.is_compiling:
    print("compiling", flush=True)
    time.sleep(float(sys.argv[3]))
    one.done()
print("ready", flush=True)
