"""Running: one trial in processes of its own, from request.json to record.json.

In: request.json. Out: metrics.jsonl, outcome.json, cost.json, record.json. May use: all of `study`, `record`, `machine`,
`measure`, `trainers`, `slurm`.

claim        a results folder belongs to one study, and to one sweep at a time
init         `envknee init`: a first study of a task
check        `envknee check`: a study file
launch       the launcher: image, outcome, exit status, record
worker       measures a trial, or those of a block, in processes of their own
command      the command of those processes, and its variables
resources    variables and GPUs that they get on a machine
turns        how a block's trials are named to their process
process      the trial's own process: starts ranks, or trains
training     a trainer with a meter, in that process
foreign      a program of `trainer: command`, in that process
printed      reads what that program prints, and keeps the trial's log short
supervise    time limit, hanging ranks and kernel kills of running processes
hang_watch   ranks that make no progress
progress     how far a sweep is
time_left    how long it still takes, a range for each kind of trial
prepare      checks before the first trial
nodes        a trial on several machines
attempts     attempts at a trial, and what lost ones cost
ends         outcomes of trials, and the last words of a process that wrote none
cost         GPUs, time and energy of a trial
kernel_cache Warp's kernels: compiled once, while other processes wait
container/   how a trial enters its image
answers      the store of what studies decided here
live         Snakemake, with the process beside it that draws the live view
tail         what is added to a log
snakemake_here what .venv/bin/snakemake runs
knee         `envknee knee`: a study from a command line
"""
