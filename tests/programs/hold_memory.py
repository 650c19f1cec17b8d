"""Waits for a line, holds 200 MB for 0.15 s, which is well within the 0.25 s between two looks, and waits for another line."""

import mmap
import time

input()
memory = mmap.mmap(-1, 200_000_000)
for page in range(0, len(memory), mmap.PAGESIZE):
    memory[page] = 1
time.sleep(0.15)
memory.close()
print("freed", flush=True)
input()
