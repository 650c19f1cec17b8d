"""Measuring: turns the calls of a trainer in a trial's process into a row per iteration.

In: calls of a trainer (a step, an iteration), clocks, memory counters. Out: lines of metrics.jsonl, and the trial's end.
May use: `study`, `record`, `machine`, and nothing of Isaac Lab.

meter          receives a trainer's steps and iterations, and hands them to the parts below
learner        what a trainer tells the meter about its learner
stages         names the stage of a trial, times its start
row_log        clocks iterations, writes their rows, ends the trial
device_use     memory and load of an iteration
checks         ends a trial whose numbers break
rows           combines the measurements of all ranks into the row of an iteration; pure
phases         time of an iteration by phase
memory         memory use by purpose, with peaks
out_of_memory  recognizes exceptions and kills for lack of memory
load           use and power of CPU and GPU
episodes       returns and lengths of whole episodes
ranks          processes that train together
shared         a process that measures several trials
watch          finds the first broken number of a rollout
diagnosis      describes a broken number as the trial's failure, with remedies
validity       checks that the simulation did what was asked; pure
keepsakes      frames and policy, for people
"""
