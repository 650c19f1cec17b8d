# Trials as SLURM jobs: only with `--profile slurm`, which names a site.yaml.
#
# In:   the site, and what the cluster says of itself
# Out:  what rules ask SLURM for, and TRIES
import functools
from pathlib import Path

from envknee.run import progress
from envknee.slurm import checks, facts
from envknee.slurm import site as slurm_site
from envknee.slurm.enter import enter

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
    enter(SITE, SITE_PATH)


def job_of_trial(wildcards, attempt):
    """Each attempt gets more time, up to what the partition allows."""
    most = facts.longest_minutes(SITE.partition)
    return jobs.trial_job(STUDY, PLAN[int(wildcards.number)], SITE, attempt, most)


def job_of_block(block, wildcards, attempt):
    """One job for all trials of a block, with the time of each of them."""
    most = facts.longest_minutes(SITE.partition)
    return jobs.block_job(STUDY, block, SITE, attempt, most)


def job_of_prepare(wildcards, attempt):
    return jobs.prepare_job(STUDY, SITE, attempt, facts.longest_minutes(SITE.partition))


def resources_of(job):
    """Return a rule's resources for SLURM, each a function of wildcards and attempt; none without a cluster."""
    if SITE is None:
        return {}

    def value_of(name, wildcards, attempt):
        return job(wildcards, attempt).resources(SITE).get(name)

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
    if SITE is None:
        jobs.check_one_node(STUDY)
        return
    cluster = facts.observe(SITE.partition)
    found = checks.problems(STUDY, SITE, cluster)
    if found:
        raise UserError("\n".join([f"{SITE_PATH} and this cluster do not fit:", *(f"  {line}" for line in found)]))
    for line in checks.warnings(STUDY, SITE, cluster):
        logger.warning(f"envknee: {line}")
