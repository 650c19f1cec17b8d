"""This machine: its GPUs, memory, processes and versions. Knows no study's settings and no simulator.

In: the operating system, NVML, git. Out: what a trial can use, and what its record says of where it ran.
May use: `study`, `record`.
"""
