# envknee: where more environments, longer rollouts and larger batches stop paying.
#
#     snakemake                                            the default study, config/config.yaml
#     snakemake --configfile config/studies/one-gpu.yaml   another one
#     snakemake -n                                         what would run, and nothing else
#     snakemake --profile slurm                            as jobs of a cluster, described in slurm/site.yaml
#     snakemake --profile allocation                       as steps on nodes that you have (salloc, sbatch)
#
# Everything a study produces is under results/<study>/. Rules are in workflow/rules, logic in workflow/envknee.
from snakemake.utils import min_version

min_version("9.0")

# Snakemake would merge the default study into the one given, key by key: read it only when none is given.
if not workflow.config_settings.configfiles:

    configfile: "config/config.yaml"


# What `snakemake --lint` asks for, and no more: with `runtime: apptainer` the launcher enters the image around the trial's own
# process (see envknee.launch), and `--sdm apptainer` is not needed.
container: "containers/isaaclab.sif"


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/container.smk"
include: "workflow/rules/cluster.smk"
include: "workflow/rules/sweep.smk"
include: "workflow/rules/report.smk"
include: "workflow/rules/tracking.smk"


rule all:
    default_target: True
    input:
        # One by one, too: a trial that was deleted, to be measured again, leaves nothing out of date that was drawn of it.
        RECORDS,
        FOLDER.verdict,
        FIGURES,
        FOLDER.published,
        FOLDER.report,
