# The study, its folder and its plan: everything that the other rule files read.
#
# In:   the configuration that Snakemake was given
# Out:  STUDY, FOLDER, TRIALS; study.json and a lock on the folder while a sweep runs
import os
import subprocess
import sys

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

sys.path.insert(0, os.path.join(workflow.basedir, "workflow"))

from envknee import claim, replayed, space
from envknee import config as study_config
from envknee.errors import UserError
from envknee.files import canonical_json
from envknee.processes import own_python_first
from envknee.slurm import jobs
from envknee.tracking.beside import LiveProcess
from envknee.tracking.store import locate_store

# Rules call `python -m envknee.<module>`, also where no environment is activated.
own_python_first()

# Describes a SLURM cluster: set by the profile `slurm`, and no part of a study (see cluster.smk).
SITE_FILE = config.pop("site", None)

try:
    STUDY = study_config.parse(config)
    FOLDER = claim.folder_of(STUDY)
    PLAN = space.plan(STUDY)
    TRIALS = len(PLAN)
    claim.check(STUDY, FOLDER)
    replayed.read(STUDY, FOLDER)  # a replay without its requests stops here
except UserError as error:
    raise WorkflowError(str(error))


# Trials print a line each. Of what Snakemake says between them, this is left out: two lines per job, and that
# the container is not used where nobody asked for it.
LEFT_OUT = ("Select jobs to execute", "Execute ", "Singularity containers")
TOLD = set()


def is_told(entry):
    """How many jobs there are is what a dry-run is for: the profile's `quiet` hides it, and Snakemake says it twice."""
    message = entry.getMessage()
    if workflow.dryrun and getattr(entry, "event", None) == LogEvent.RUN_INFO:
        del entry.event
        first = message not in TOLD
        TOLD.add(message)
        return first
    return not message.startswith(LEFT_OUT)


logger.addFilter(is_told)


# Curves in the tracking store while trials run.
LIVE = LiveProcess()


wildcard_constraints:
    number=r"\d+",


def what_is_known(wildcards):
    """Request n follows from request n-1 and from records up to n - window: the window keeps several trials running."""
    number = int(wildcards.number)
    known = {"resolved": ancient(FOLDER.resolved)}
    if number >= 1:
        known["previous"] = FOLDER.trial(number - 1).request
    if number >= STUDY.window:
        # Measuring one trial again must not throw away those asked after it.
        known["newest_record"] = ancient(FOLDER.trial(number - STUDY.window).record)
    return known


def devices_of(wildcards):
    """A trial takes as many devices as it has ranks on GPUs; one for a node's CPU, however many ranks share that."""
    return jobs.shape_of(STUDY, PLAN[int(wildcards.number)].arm).devices


onstart:
    global sweep_lock
    try:
        check_cluster()
        locate_store(STUDY, FOLDER)  # a wrong address is told before anything is measured
        sweep_lock = claim.take(STUDY, FOLDER)
        if SITE is None:
            claim.wait_for_trials(FOLDER)
    except UserError as error:
        raise WorkflowError(str(error))
    for line in space.left_out(STUDY):
        logger.warning(f"envknee: {line}")
    follow_jobs()
    LIVE.start(STUDY, FOLDER)


def tell(module):
    """Run one of our modules on the whole study, after all rules."""
    subprocess.run([sys.executable, "-m", f"envknee.{module}", str(FOLDER.root)], check=True)


onerror:
    LIVE.stop(logger.warning)
    if FOLLOWER:
        FOLLOWER.look()
    # All is measured and drawn, and only the tracking store is away: what was found is told all the same.
    if all(path.exists() for path in (*RECORDS, *FIGURES)) and not FOLDER.published.exists():
        tell("report")
        tell("summary")


onsuccess:
    LIVE.stop(logger.warning)
    if FOLLOWER:
        FOLLOWER.look()
    # Of a whole study, not of one file somebody asked for.
    if FOLDER.verdict.exists() and FOLDER.report.exists():
        tell("summary")
