"""Asking: which point is measured next. A pure function of the study, earlier requests and records.

In: study.json, requests and records so far. Out: request.json of one trial. May use: `study`, `record`, `verdict`.

plan         what a study would measure, and could show
ask          the next request; of a replay, the one that another study recorded
question     what a sampler is told of earlier trials, and may answer
samplers/    what picks points, a file each
search       the doublings that decide the verdict
enough       when repeats are enough
economy      learning trials that would change nothing
refusals     points that cannot fit the memory
"""
