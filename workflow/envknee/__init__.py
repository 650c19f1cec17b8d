"""envknee: where more environments, longer rollouts and larger batches stop paying, with the evidence.

Data flows one way, through files that a person can read:

    config -> ask -> request.json -> launch -> metrics.jsonl -> record.json -> limits -> verdict.json -> figures
"""

__version__ = "0.1.0"
