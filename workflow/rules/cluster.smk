# Trials as SLURM jobs, with `--profile slurm`, which names a site.yaml; or as steps of the job that Snakemake itself runs in, with
# `--profile allocation`.
#
# In:   the site, and what the cluster says of itself
# Out:  what rules ask SLURM for, in_step, which starts their commands, and TRIES
import functools
from pathlib import Path

from envknee.run import progress
from envknee.slurm import checks, facts
from envknee.slurm import site as slurm_site

SITE = None
# Tried once more when it broke without a result (a killed process, a lost node); a bad result is a result.
TRIES = 1

if SITE_FILE is not None:
    try:
        here = [Path(SITE_FILE), Path(workflow.basedir) / SITE_FILE]
        SITE_PATH = next((path for path in here if path.exists()), here[0])
        SITE = slurm_site.load(SITE_PATH)
        jobs.check_cap(STUDY, SITE)
    except UserError as error:
        raise WorkflowError(str(error))
    # On a node Snakemake runs a job's one rule, in two processes around each other: each would try again, before the job fails.
    TRIES = SITE.retries if workflow.is_main_process else 0
    # How many GPUs are taken at once; profiles/default says 1, for one machine, and Snakemake lets it win over --profile.
    workflow.register_resource("device", SITE.max_gpus)
    slurm_site.enter(SITE, SITE_PATH)


ALLOCATION = None

if MARGIN_MINUTES is not None:
    try:
        if type(MARGIN_MINUTES) not in (int, float) or MARGIN_MINUTES < 0:
            raise UserError(f"allocation_margin_minutes {MARGIN_MINUTES!r}: expected minutes, such as 5")
        ALLOCATION = allocation.observe(os.environ)
        found = allocation.problems(STUDY, ALLOCATION)
        if found:
            raise UserError("\n".join(["this study does not fit here:", *(f"  {line}" for line in found)]))
    except UserError as error:
        raise WorkflowError(str(error))
    allocation.enter(os.environ)
    workflow.register_resource("device", ALLOCATION.devices)
    # Each step is a waiting process here; what runs here beside them has this machine's own cores.
    workflow.resource_settings.cores = ALLOCATION.devices + os.cpu_count()
    workflow.register_resource("_cores", workflow.resource_settings.cores)


def in_step(command):
    """Return a rule's shell command, with what starts a step before it.

    That is a resource: as a parameter it would make finished trials look out of date.
    """
    return f"{{resources.step}} {command}" if ALLOCATION else command


def watch_allocation():
    """No trial begins that would be cut off."""
    global CLOSING
    if ALLOCATION is not None:
        CLOSING = allocation.Closing(FOLDER, ALLOCATION.job_id, 60.0 * MARGIN_MINUTES, close)
        CLOSING.start()


def close():
    """Trials that run may finish; Snakemake starts no further job, and ends then."""
    logger.warning(f"envknee: {CLOSING.why}. Those that run may finish.")
    workflow.scheduler.exit_gracefully()


def resources_of(slots_of):
    """Return a rule's resources, functions of wildcards and attempt: for SLURM its job's, or its step; none without a cluster.

    `slots_of` returns the trials to measure from wildcards; one job takes all, with the time of each. None: all arms are prepared.
    Each attempt gets more time, up to the partition's limit.
    """

    def work_of(wildcards, auto=1):
        return jobs.block_work(STUDY, slots_of(wildcards), auto) if slots_of else jobs.prepare_work(STUDY, auto)

    def step(wildcards):
        return ALLOCATION.prefix(work_of(wildcards, ALLOCATION.auto)[0])

    def value_of(name, wildcards, attempt):
        job = jobs.job_of(*work_of(wildcards), SITE, attempt, facts.longest_minutes(SITE.partition))
        return job.resources(SITE).get(name)

    if ALLOCATION is not None:
        return {"step": step}
    if SITE is None:
        return {}
    return {name: functools.partial(value_of, name) for name in jobs.resource_names()}


FOLLOWER = None


def follow_jobs():
    """What jobs print goes into logs of their own: say it here, too."""
    global FOLLOWER
    if SITE is not None:
        FOLLOWER = progress.Follower(FOLDER, TRIALS, logger.info)
        FOLLOWER.start()


def check_cluster():
    """What is wrong is said before anything is submitted: SLURM's own words would come job by job, or never."""
    if ALLOCATION is not None:
        return
    if SITE is None:
        jobs.check_one_node(STUDY)
        return
    cluster = facts.observe(SITE.partition)
    found = checks.problems(STUDY, SITE, cluster)
    if found:
        raise UserError("\n".join([f"{SITE_PATH} and this cluster do not fit:", *(f"  {line}" for line in found)]))
    for line in checks.warnings(STUDY, SITE, cluster):
        logger.warning(f"envknee: {line}")
