"""This machine: its GPUs, memory, processes and versions. Knows nothing of studies, requests or the simulator.

In: plain values, the operating system, NVML, git. Out: locked devices, ended processes, and the `Environment` that a record keeps.
May use: `study.errors`, for messages.
"""
