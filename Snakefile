# envknee: where more environments, longer rollouts and larger batches stop paying.
#
#     snakemake                                            the default study, config/config.yaml
#     snakemake --configfile config/studies/one-gpu.yaml   another one
#     snakemake -n                                         what would run, and nothing else
#     snakemake --profile slurm                            as jobs of a cluster, described in slurm/site.local.yaml
#     snakemake --profile allocation                       as steps on nodes that you have (salloc, sbatch)
#
# Everything a study produces is under results/<study>/. Rules are in workflow/rules, logic in workflow/envknee.
include: "workflow/rules/all.smk"


rule all:
    default_target: True
    input:
        PRODUCTS,
