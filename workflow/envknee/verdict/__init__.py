"""The verdict: from records to limits, with their confidence, as numbers and states. Pure; it says no sentence.

In: records and plain settings. Out: a `Verdict`. May use: `record`, `base`.

settings      what a verdict is decided with
rule/         the decision rule (doublings), lines through noisy points (affine)
series        records by arm, horizon and batch size
measurements  the records of a study, grouped once for all that follows
throughput, learning, memory_limit      the three limits
learning_cost the cost of a point, from its seeds
memory_sample, memory_fit, memory_model the parts of a memory peak, and predictions for other cards
gpu_peaks     the peak memory of each GPU of a command
gpu_scaling, phase_law, batch, noise_scale  several GPUs, phases, and the critical batch size
joint/        one model over num_envs, horizon and batch size at once
scaling_rules the limit of each scaling rule
statistical_blocks  the process or machine of each trial, within which sizes are compared
levers, remedies, waits, measure_next   what to do next
machines, hardware, spending            machines and cost
headline      one recommendation per arm
decide        the whole verdict
card          what learns soonest and has most FPS, and ratios of arms, for terminal, report and MLflow
best          the setting that a shell or a script asks for, also on a smaller GPU
lead          arms by rank: which one is ahead, and how far
durations     how long more trials take
schema/       the models of verdict.json
"""
