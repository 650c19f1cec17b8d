"""envknee: where more environments, longer rollouts and larger batches stop paying, with the evidence.

Data flows one way, through files that a person can read. Folders are the stages, in the order in which data passes:

    study -> ask -> run (tasks, trainers, lean, measure, machine) -> record -> verdict -> show, tracking -> after

Each folder's own docstring says what comes in, what goes out, and which folders it may use.
"""

__version__ = "0.1.0"
