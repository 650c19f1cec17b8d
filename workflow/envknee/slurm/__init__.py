"""Trials as SLURM jobs, or as steps of one.

In: site.yaml, the study, SLURM's answers. Out: resources of Snakemake's rules. May use: `study`, `machine`.
"""
