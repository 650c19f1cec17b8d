"""Measuring: what happens inside a trial's process, turned into a row per iteration.

In: calls of a trainer (a step, an iteration), clocks, memory counters. Out: lines of metrics.jsonl, and how the trial ended.
May use: `study`, `record`, `machine`.

meter       what trainers report to
rows        the row of an iteration, from what each rank brings; pure
phases      where the time of an iteration goes
memory      peaks, and what takes the memory
load        use and power of the devices
episodes    which episodes ended, and what they earned
ranks       several processes that train together
watch       which number of a simulation broke first
diagnosis   what broke, as a failure of the trial
hints       what may help
validity    whether what was simulated is what was asked for; pure
keepsakes   frames and policy, for a person to look at
"""
