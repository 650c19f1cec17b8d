# The study, its folder and its plan: everything that the other rule files read.
#
# In:   the configuration that Snakemake was given
# Out:  STUDY, FOLDER, TRIALS; study.json and a lock on the folder while a sweep runs
import functools
import os
import subprocess
import sys

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger
from snakemake_interface_logger_plugins.common import LogEvent

sys.path.insert(0, os.path.join(workflow.basedir, "workflow"))

from envknee.ask.ask import recorded_in
from envknee.machine.processes import own_python_first
from envknee.run import attempts, claim
from envknee.slurm import allocation, jobs
from envknee.study import space
from envknee.study.errors import UserError
from envknee.study.files import canonical_json
from envknee.study.load import context_of, parse_study
from envknee.tracking import follow
from envknee.tracking.store import locate_store, trust_address

# Rules call `python -m envknee NAME`, also where no environment is activated.
own_python_first()

# Describes a SLURM cluster: set by the profile `slurm`, and no part of a study (see cluster.smk).
SITE_FILE = config.pop("site", None)
# Set by the profile `allocation`: trials run inside a SLURM job, and none begins in its last minutes.
MARGIN_MINUTES = config.pop("allocation_margin_minutes", None)

try:
    STUDY = parse_study(config, context=context_of(workflow.config_settings.configfiles or ()))
    FOLDER = claim.folder_of(STUDY)
    STUDY = claim.continued(STUDY, FOLDER)
    PLAN = space.plan(STUDY)
    TRIALS = len(PLAN)
    claim.check(STUDY, FOLDER)
    recorded_in(STUDY, FOLDER)  # a replay without its requests stops here
    if workflow.is_main_process and not workflow.dryrun:
        for path in FOLDER.trial_files("outcome.json"):
            if why := attempts.forget_torn(FOLDER.trial(int(path.parent.name))):
                logger.warning(f"envknee: {path.parent} is measured again: {why}")
except UserError as error:
    raise WorkflowError(str(error))


# Trials print a line each. Of what Snakemake says between them, this is left out: two lines per job, and that
# the container is not used where nobody asked for it.
LEFT_OUT = ("Select jobs to execute", "Execute ", "Singularity containers")
TOLD = set()
# Once a sweep ends because its allocation does, blocks stop between two trials: no error, whatever Snakemake says of it.
CLOSING = None
LEFT_OUT_AT_CLOSING = (
    "RuleException",
    "Removing output files of failed job",
    "Trying to restart job",
    "Will exit after",
)


def tell_plan(tell):
    """What is measured, what is left out, and what the repeats can show: before anything runs."""
    from envknee.ask import plan  # seconds of SciPy that the processes of jobs should not pay

    for line in plan.lines_here(STUDY, FOLDER.root.parent):
        tell(f"envknee: {line}")


def is_told(entry):
    """How many jobs there are is what a dry-run is for: the profile's `quiet` hides it, and Snakemake says it twice.

    It also hides what SLURM says of a job that it refuses or ends.
    """
    message = entry.getMessage()
    if getattr(entry, "event", None) == LogEvent.JOB_ERROR and entry.rule_msg:
        why = entry.rule_msg.splitlines()[0]
        print(f"envknee: a job of {entry.rule_name!r} failed: {why}", file=sys.stderr)
    if workflow.dryrun and getattr(entry, "event", None) == LogEvent.RUN_INFO:
        del entry.event
        if not TOLD:
            tell_plan(functools.partial(print, file=sys.stderr))
        first = message not in TOLD
        TOLD.add(message)
        return first
    return not message.startswith(LEFT_OUT + (LEFT_OUT_AT_CLOSING if CLOSING and CLOSING.why else ()))


logger.addFilter(is_told)


# Curves in the tracking store while trials run. Only what the user's own file names gets the user's credentials.
LIVE = None
trust_address(STUDY, workflow.config_settings.configfiles or ())


# Trials in a block have its rules; `request` and `trial` are for all others.
BLOCKS = [job for job in space.jobs(PLAN) if job[0].block is not None]
IN_BLOCKS = "|".join(f"{slot.number:04d}" for job in BLOCKS for slot in job)
OUTSIDE_BLOCKS = rf"(?!({IN_BLOCKS})/)\d+" if BLOCKS else r"\d+"


wildcard_constraints:
    number=r"\d+",


def known_to(number):
    """Request n follows from request n-1 and from records of all jobs but the newest: the window keeps several running."""
    known = {"resolved": ancient(FOLDER.resolved)}
    if number >= 1:
        known["previous"] = FOLDER.trial(number - 1).request
    if first_unknown := PLAN[number].first_unknown:
        # Measuring one trial again must not throw away those asked after it.
        known["newest_record"] = ancient(FOLDER.trial(first_unknown - 1).record)
    return known


def devices_of(wildcards):
    """A trial takes as many devices as it has ranks on GPUs; one for a node's CPU, however many ranks share that."""
    return jobs.shape_of(STUDY, PLAN[int(wildcards.number)].arm).devices


onstart:
    global sweep_lock, LIVE
    try:
        check_cluster()
        locate_store(STUDY, FOLDER)  # a wrong address is told before anything is measured
        sweep_lock = claim.take(STUDY, FOLDER)
        watch_allocation()
        if SITE is None:
            claim.wait_for_trials(FOLDER)
    except UserError as error:
        raise WorkflowError(str(error))
    tell_plan(logger.warning)
    follow_jobs()
    LIVE = follow.start(STUDY, FOLDER)


def run_on_study(command):
    """Run one of our commands on the whole study, after all rules."""
    subprocess.run([sys.executable, "-m", "envknee", command, str(FOLDER.root)], check=True)


def finish():
    """End what ran beside the sweep, and print the verdict of a whole study: also when only its publication failed."""
    if LIVE:
        follow.stop(LIVE, logger.warning)
    if FOLLOWER:
        FOLLOWER.look()
    if all(path.exists() for path in (*RECORDS, *FIGURES, FOLDER.verdict, FOLDER.report)):
        if FOLDER.published.exists() and FOLDER.report.stat().st_mtime_ns < FOLDER.published.stat().st_mtime_ns:
            run_on_study("report")  # once more, with links to the runs
        run_on_study("summary")
    if CLOSING and CLOSING.why:
        logger.warning(
            f"envknee: stopped in time: {CLOSING.why}. Run this again in another allocation: it goes on from here."
        )


onerror:
    finish()


onsuccess:
    finish()
    if set(workflow.dag_settings.targets) <= {"all"} and (
        missing := [path for path in RECORDS if not path.exists()]
    ):
        raise WorkflowError(
            f"{len(missing)} of {TRIALS} trials were not measured: {', '.join(path.parent.name for path in missing)}."
            " Something else changed this study's folder meanwhile. Run the sweep again: it measures these alone."
        )
