"""`trainer: command`: measures a foreign program from outside, without changing it.

In: a request with a `command`. Out: rows, and how the program ended. `envknee.run.foreign` combines these modules.
They import neither torch nor Isaac Lab: the program has its own Python environment.

program     arguments and environment variables, with placeholders replaced
bounded     lines, numbers and JSON of a foreign program, within bounds; pure
scan        many lines searched at once; pure
sources     the program's log as events with their own times
rows        events to rows; pure
clock       the log's own times, compared with arrivals; pure
ends        out of memory, divergence and invalid simulation, from its output; pure
telling     which line of a log says why a program broke; pure
usage       memory, power and load of its processes and GPUs
presets/    flags and log names of known programs
known       `envknee presets`
"""
