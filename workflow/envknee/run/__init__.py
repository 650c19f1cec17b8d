"""Running: one trial in processes of its own, from request.json to record.json.

In: request.json. Out: metrics.jsonl, outcome.json, cost.json, record.json. May use: all of `study`, `record`, `machine`,
`measure`, `trainers`, `slurm`.

launch       the launcher: time limit, exit status, record
process      the trial's own process
prepare      what is checked before the first trial
nodes        a trial on several machines
container/   how a trial enters its image
"""
