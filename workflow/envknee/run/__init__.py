"""Running: one trial in processes of its own, from request.json to record.json.

In: request.json. Out: metrics.jsonl, outcome.json, cost.json, record.json. May use: all of `study`, `record`, `machine`,
`measure`, `trainers`, `slurm`.
"""
