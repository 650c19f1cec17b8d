"""`trainer: command`: a program that somebody else wrote, measured unchanged and from outside.

In: a request with a `command`. Out: rows, and how the program ended. `envknee.run.foreign` is the process that puts this together.
Imports neither torch nor Isaac Lab: the program has an environment of its own.

program     arguments and variables with everything filled in
sources     what its log says, as events with their own clocks
rows        events to rows; pure
ends        what its output says of memory, divergence and validity; pure
usage       memory, power and load of its processes and GPUs
presets/    flags and names of known programs
"""
