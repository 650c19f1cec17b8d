# The study, its folder and its plan: everything that the other rule files read.
#
# In:   the configuration that Snakemake was given
# Out:  STUDY, FOLDER, TRIALS; once a sweep starts, study.json and a lock on the folder
import functools
import os
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack

from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# The file that was named to Snakemake is Snakefile or workflow/Snakefile, so `workflow.basedir` is one folder or another.
ROOT = os.path.abspath(os.path.join(workflow.current_basedir.get_path_or_uri(secret_free=True), "../.."))
sys.path.insert(0, os.path.join(ROOT, "workflow"))

from envknee.ask.ask import recorded_in
from envknee.machine.processes import own_python_first
from envknee.run import attempts, claim, mend, messages, sweep_end, workers
from envknee.slurm import jobs
from envknee.study import space
from envknee.study.continued import continued, with_more_repeats
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

# Further repeats that a summary named: `--config more_throughput=3`.
MORE = {section: config.pop(f"more_{section}", None) for section in ("throughput", "learning")}

try:
    STUDY = with_more_repeats(config, MORE)
    STUDY = parse_study(STUDY, context=context_of(workflow.config_settings.configfiles or ()))
    FOLDER = claim.folder_of(STUDY)
    STUDY = continued(STUDY, FOLDER)
    PLAN = space.plan(STUDY)
    TRIALS = len(PLAN)
    claim.check(STUDY, FOLDER)
    recorded_in(STUDY, FOLDER)  # a replay without its requests stops here
except UserError as error:
    raise WorkflowError(str(error))


@functools.cache
def why_torn(number):
    """Return why a recorded trial must be measured again, such as rows that a power cut took; None if it need not."""
    try:
        return attempts.why_torn(FOLDER.trial(number))
    except UserError as error:
        raise WorkflowError(str(error))


def torn_marks(numbers):
    """Return what makes Snakemake run the job of recorded trials again: a mark that is newer than the record, for each torn one.

    The launcher then sets aside what is there. `rule torn` makes the marks.
    """
    return [FOLDER.root / "logs" / f"torn-{number:04d}" for number in numbers if why_torn(number)]


def tell_plan(tell):
    """What is measured, what is left out, and what the repeats can show: before anything runs."""
    from envknee.ask import plan  # seconds of SciPy that the processes of jobs should not pay

    elsewhere = None if DEVICES is None else plan.Elsewhere(*DEVICES)
    for line in [*plan.lines_here(STUDY, FOLDER.root.parent, elsewhere), *site_warnings()]:
        tell(f"envknee: {line}")
    for number in range(TRIALS):
        if why := why_torn(number):
            tell(f"envknee: {FOLDER.trial(number).root} is measured again: {why}")


# `cluster.smk` knows these: how many devices trials share if they do not run on this machine, and of what place; and whether the
# sweep ends because its allocation or its time does.
DEVICES, CLOSING = None, None

logger.addFilter(messages.BetweenTrials(lambda: CLOSING is not None and CLOSING.why is not None))
STOPPED = messages.Stopped(lambda line: print(f"envknee: {line}", file=sys.stderr, flush=True))
logger.addFilter(STOPPED)
logger.addHandler(messages.FailedJobs(sys.stderr))


def give_up(jobid):
    """Use up a job's retries: Snakemake makes them whatever ended the job, and has no other way to leave them out."""
    for job in workflow.dag.jobs:
        if job.jobid == jobid:
            job.attempt = job.restart_times + 1


logger.addHandler(mend.NotAgain(give_up))
# Whether this is a dry run is not known before the files are read.
logger.addHandler(messages.DryRun(lambda: workflow.dryrun, tell_plan, sys.stderr))


# Only what the user's own file names gets the user's credentials. As in all.smk, nothing public tells which files were named.
trust_address(STUDY, workflow.config_settings.configfiles or ())


# Trials in a block or a pool have its rules; `request` and `trial` are for all others.
POOLS = space.pools(PLAN)
BLOCKS = [job for job in space.jobs(PLAN) if job[0].block is not None and job[0].pool is None]
TOGETHER = "|".join(f"{slot.number:04d}" for trials in (*BLOCKS, *POOLS) for slot in trials)
ALONE = rf"(?!({TOGETHER})/)\d+" if TOGETHER else r"\d+"


wildcard_constraints:
    number=r"\d+",


def known_to(number):
    """Request n follows from request n-1 and from records of all jobs but the newest: the window keeps several running.

    The first fresh seed follows from the whole search, and so from several records that no earlier request knew.
    """
    known = {"resolved": ancient(FOLDER.resolved)}
    if number >= 1 and PLAN[number - 1].pool is None:
        known["previous"] = FOLDER.trial(number - 1).request
    elif number >= 1:  # workers write the requests of a pool as they go: no rule has them as outputs
        known["previous"] = ancient(FOLDER.trial(number - 1).record)
    if first_unknown := PLAN[number].first_unknown:
        first_new = min(PLAN[number - 1].first_unknown, first_unknown - 1)
        # Measuring one trial again must not throw away those asked after it.
        known["newest_records"] = ancient([FOLDER.trial(n).record for n in range(first_new, first_unknown)])
    return known


def known_to_pool(pool):
    """Workers ask for requests themselves. Whatever those may know of earlier trials is there before the first worker starts."""
    first = pool[0].number
    return {"resolved": ancient(FOLDER.resolved), "earlier": ancient([FOLDER.trial(n).record for n in range(first)])}


def devices_of(wildcards):
    """A trial takes as many devices as it has ranks on GPUs; one for a node's CPU, however many ranks share that."""
    return jobs.shape_of(STUDY, PLAN[int(wildcards.number)].arm).devices


# What a sweep holds until its process ends, and what runs beside it until its last trial.
HELD, BESIDE = ExitStack(), ExitStack()


def end_gracefully(*_):
    """Let jobs that run finish, and start no other. Snakemake's own handler may wait for ever: what it interrupts may hold its lock."""
    threading.Thread(target=workflow.scheduler.exit_gracefully).start()


onstart:
    signal.signal(signal.SIGTERM, end_gracefully)
    try:
        check_cluster()
        locate_store(STUDY, FOLDER)  # a wrong address is told before anything is measured
        HELD.enter_context(claim.take(STUDY, FOLDER))
        HELD.enter_context(claim.environment_kept())
        workers.forget_given_up(FOLDER)
        mend.forget(FOLDER.root / "logs")
        if CLOSING is not None:
            CLOSING.start()
        if SITE is None:
            claim.wait_for_trials(FOLDER)
    except UserError as error:
        raise WorkflowError(str(error))
    tell_plan(logger.warning)
    follow_jobs(BESIDE)
    # Curves in the tracking store while trials run.
    if publisher := follow.start(STUDY, FOLDER):
        BESIDE.callback(follow.stop, publisher, logger.warning)


def finish():
    """End what ran beside the sweep, and print the verdict of a whole study: also when only its publication failed."""
    BESIDE.close()
    for command in sweep_end.commands(FOLDER, [*RECORDS, *FIGURES]):
        subprocess.run([sys.executable, "-m", "envknee", command, str(FOLDER.root)], check=True)
    if STOPPED.is_stopped:
        logger.warning("envknee: stopped. The same command goes on from here.")
    if CLOSING is not None and CLOSING.why and CLOSING.then:
        logger.warning(f"envknee: stopped in time: {CLOSING.why}. {CLOSING.then}.")


onerror:
    finish()


onsuccess:
    finish()
    if why := sweep_end.why_none_ran(FOLDER):
        raise WorkflowError(why)
    # Whoever names a target wants no more than that. Snakemake has no public way to ask for the targets.
    if set(workflow.dag_settings.targets) <= {"all"} and (why := sweep_end.why_incomplete(RECORDS)):
        raise WorkflowError(why)
