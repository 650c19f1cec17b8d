# All of the workflow but its default target: from a study's file to a verdict, figures, a report and runs in MLflow.
#
# Logic is in workflow/envknee. Reading these files changes nothing on the disk.
from snakemake.utils import min_version

min_version("9.0")

# Snakemake would merge the default study into the one given, key by key: read it only when none is given. `config` does not tell
# a file from --config KEY=VALUE, which changes the default study; there is no public way to ask for the files.
if not workflow.config_settings.configfiles:

    configfile: "config/config.yaml"


# `snakemake --lint` wants an image or a Conda environment named for each rule. Nothing else reads this: the packages come from
# `make setup`, and with `runtime: apptainer` the launcher enters the image around the trial's own process (envknee/run/container).
container: "containers/isaaclab.sif"


report: "../report/workflow.rst"


include: "common.smk"
include: "container.smk"
include: "cluster.smk"
include: "sweep.smk"
include: "report.smk"
include: "tracking.smk"


# One by one, too: a trial that was deleted, to be measured again, leaves nothing out of date that was drawn of it.
# Workers of a cluster are jobs that nothing else waits for.
WORKERS_ENDED = [mark for pool in POOLS for mark in ended_marks(pool)]
PRODUCTS = [*RECORDS, FOLDER.verdict, *FIGURES, FOLDER.published, FOLDER.report, *WORKERS_ENDED]
