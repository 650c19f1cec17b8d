"""This machine: its GPUs, memory, processes and versions. Independent of studies and of the simulator.

In: the operating system, NVML, git. Out: the resources of a trial, and the `Environment` of its record.
May use: `study`, `record`.
"""
