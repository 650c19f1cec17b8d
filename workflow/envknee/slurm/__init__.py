"""Trials as SLURM jobs, or as steps of one.

In: site.yaml, the study, SLURM's answers. Out: resources of Snakemake's rules. May use: `study`, `machine`.

allocation  steps on the nodes of a user's own job
site        the user's cluster: site.yaml, SLURM's names of its lines, and the environment of jobs
jobs        the resources of a job
facts       partitions, nodes and accounts of the cluster, and how SLURM's answers are read
login_node  whether trials may train where Snakemake runs
checks      problems that are known before anything is submitted
job_logs    where jobs print
executor    what a sweep changes of Snakemake's executor
waits       why jobs wait
node        host and GPUs of a job, for its log
"""
