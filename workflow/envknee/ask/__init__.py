"""Asking: which point is measured next. A pure function of the study, earlier requests and records.

In: study.json, requests and records so far. Out: request.json of one trial. May use: `study`, `record`, `verdict`.

plan         what a study would measure, and could show
expected_time how long a study takes, and what it costs
ask          the next request; of a replay, the one that another study recorded
history      what a request may use: earlier requests and records
journal      the same in one file, so that not every file is read again
question     what a sampler is told of earlier trials, and may answer
samplers/    what picks points, a file each
settings_left settings that may fit the memory
confirm      fresh seeds of the settings that the search found
versions     which rules ask: those of the study's ask_version
policies     why a trial is not run: reasons in order
repeat       what earlier repeats tell of the next one
enough       when every series is decided
clear        points whose doublings clearly pay
further      further repeats that may decide what is open
time_limit   how long another repeat takes
horizons     points that follow from those of another horizon
economy      learning trials that would change nothing
refusals     points that cannot fit the memory
search       the doublings that decide the verdict
version_1    all rules and texts of version 1, for studies that were begun with it
"""
