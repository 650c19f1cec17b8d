# Trials as SLURM jobs, with `--profile slurm`, which names a site.yaml; or as steps of the job that Snakemake itself runs in, with
# `--profile allocation`.
#
# In:   the site, and what the cluster says of itself
# Out:  what rules ask SLURM for, in_step, which starts their commands, and TRIES
#
# How many devices are taken at once follows from the site's file or from the allocation, so no profile can say it, and Snakemake has
# no directive for it: `workflow.register_resource`, `resource_settings` and `scheduler` are touched for this, and for what
# envknee/slurm/executor.py changes.
from pathlib import Path

from envknee.run import deadline, progress
from envknee.slurm import admission, allocation, checks, executor, job_logs, login_node, rule_resources, waits
from envknee.slurm import site as slurm_site

SITE = None
# Tried once more when it broke without a result (a killed process, a lost node); a bad result is a result.
TRIES = 1

if SITE_FILE is not None:
    SITE_PATH = admission.find_site(SITE_FILE, [Path(), Path(ROOT)])
    try:
        SITE = admission.to_site(STUDY, SITE_PATH)
    except UserError as error:
        raise WorkflowError(str(error))
    # On a node Snakemake runs a job's one rule, in two processes around each other: each would try again, before the job fails.
    TRIES = SITE.retries if workflow.is_main_process else 0
    # profiles/default says 1, for one machine, and Snakemake lets it win over --profile.
    workflow.register_resource("device", SITE.max_gpus)
    DEVICES = SITE.max_gpus, "site"
    slurm_site.enter(SITE, SITE_PATH)


ALLOCATION = None


def close():
    """Trials that run may finish; Snakemake starts no further job, and ends then, as after a signal."""
    logger.warning(f"envknee: {CLOSING.why}. Those that run may finish.")
    workflow.scheduler.exit_gracefully()


if MARGIN_MINUTES is not None:
    try:
        ALLOCATION = admission.to_allocation(STUDY, MARGIN_MINUTES, os.environ)
    except UserError as error:
        raise WorkflowError(str(error))
    # No trial begins that would be cut off.
    CLOSING = allocation.Closing(FOLDER, ALLOCATION.job_id, 60.0 * MARGIN_MINUTES, close)
    allocation.enter(os.environ)
    workflow.register_resource("device", ALLOCATION.devices)
    DEVICES = ALLOCATION.devices, "allocation"
    # Each step is a waiting process here; what runs here beside them has this machine's own cores.
    workflow.resource_settings.cores = ALLOCATION.devices + os.cpu_count()
    workflow.register_resource("_cores", workflow.resource_settings.cores)
elif deadline.is_set():
    CLOSING = deadline.Watch(FOLDER)


def in_step(command):
    """Return a rule's shell command, with what starts a step before it.

    That is a resource: as a parameter it would make finished trials look out of date.
    """
    return f"{{resources.step}} {command}" if ALLOCATION else command


def resources_of(slots_of):
    """Return a rule's resources; `slots_of` returns the trials to measure from wildcards, None: all arms are prepared."""
    return rule_resources.of_rule(STUDY, slots_of, SITE, ALLOCATION)


def workers_of(pool):
    """Return how many workers share a pool: no more than it has trials."""
    return min(STUDY.sections[pool[0].kind].workers, len(pool))


def ended_marks(pool):
    """Return what jobs of a pool's workers leave when every trial has a record; nothing of a pool that is complete."""
    left = sum(not FOLDER.trial(slot.number).record.exists() or why_torn(slot.number) is not None for slot in pool)
    marks = range(workers_of(pool)) if SITE is not None and left else ()
    return [FOLDER.root / "logs" / f"worker-{pool[0].number:04d}-{worker}-{left}.ended" for worker in marks]


def jobs_to_wait_for(pool):
    """Return the marks of a pool's jobs if the sweep has targets other than all files: nothing else would start its workers.

    Otherwise they are among all files, and whatever follows from the records waits for no job that the cluster has not started.
    """
    return [] if set(workflow.dag_settings.targets) <= {"all"} else ended_marks(pool)


def follow_jobs(beside):
    """What jobs print goes into logs of their own: say it here, too, until `beside` is closed."""
    if SITE is not None:
        follower = progress.Follower(FOLDER, STUDY, logger.info)
        follower.start()
        beside.callback(follower.look)


if SITE is not None and workflow.is_main_process:
    logger.addHandler(workers.GivenUp(FOLDER, TRIES))


def site_warnings():
    """What is known of a study on a cluster without asking that: a dry run says it, too."""
    return [] if SITE is None else checks.of_site(STUDY, SITE)


def watch_jobs(jobs_executor, logs):
    """Jobs print into `logs`, and are cancelled at once by Ctrl-C. Why they wait is told.

    No profile can say it: the folder follows from the study.
    """

    def tell(line):
        logger.warning(f"envknee: {line}")

    executor.adapt(jobs_executor, logs, tell)
    watch = waits.Watch(jobs_executor.run_uuid, tell)
    watch.start()
    BESIDE.callback(watch.stop)


def check_cluster():
    """What is wrong is said before anything is submitted: SLURM's own words would come job by job, or never."""
    more = "raise max_gpus of the site" if SITE else "say --resources device=N if there are N"
    workers.check_devices(
        STUDY, workflow.global_resources["device"].value, "ask for more nodes" if ALLOCATION else more
    )
    if SITE is not None:
        for line in admission.to_cluster(STUDY, SITE, SITE_PATH):
            logger.warning(f"envknee: {line}")
        logs = job_logs.prepare(FOLDER)
        if hasattr(workflow.scheduler._executor, "run_uuid"):  # it has none with --executor local
            watch_jobs(workflow.scheduler._executor, logs)
    elif ALLOCATION is None:
        jobs.check_one_node(STUDY)
        if warning := login_node.check():
            logger.warning(f"envknee: {warning}")
