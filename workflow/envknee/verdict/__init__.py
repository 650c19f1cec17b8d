"""The verdict: from records to limits, with their confidence. Pure.

In: records and the study. Out: verdict.json and records.csv. May use: `study`, `record`.

rule/         the decision rule (doublings), laws through noisy points (affine, residuals)
series        what stays the same while num_envs doubles
throughput, learning, memory_limit      the three limits
throughput_law                          why FPS saturate
learning_cost, learning_trials          what the seeds of a point cost
memory_sample, memory_fit, memory_model what a peak is made of, and memory_cards: what other cards fit
scaling, phase_law, batch, noise_scale  what several GPUs give, which phase sets the knee, how large a batch pays
savings, levers, remedies, advice       what to do next
machines, hardware, spending, broken    what it ran on, what it took, what broke
headline      one recommendation per arm
decide        all of it
schema/       the models of verdict.json;  words/ every sentence;  csv, read  the files
"""
