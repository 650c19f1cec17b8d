"""Trials as SLURM jobs: what the user's cluster is, what a job asks for, and whether the cluster can give it."""
