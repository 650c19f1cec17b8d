"""Trials as SLURM jobs, or as steps of one: the user's cluster, what a job asks for, whether the cluster can give it.

In: site.yaml, the study, what the cluster says of itself. Out: resources of Snakemake's rules. May use: `study`, `machine`.

allocation  nodes that a person already has, and steps on them
site    the user's cluster: site.yaml, with what each line is called in SLURM
jobs    what a job asks for
facts   what the cluster says of itself
checks  whether the cluster can give it, before anything is submitted
node    what a job's node shows of that
enter   the environment of jobs
fields  SLURM's lines of Name=value
"""
