"""Resources of the workflow's rules: for SLURM a job's, in an allocation a step's, else none.

Input: a study, and the trials that a job measures. Output: functions as Snakemake calls them, of wildcards and attempt.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from envknee.slurm import facts, jobs
from envknee.slurm.allocation import Allocation
from envknee.slurm.jobs import Shape
from envknee.slurm.site import Site
from envknee.study.model import Study
from envknee.study.space import Slot

SlotsOf = Callable[[Any], Sequence[Slot]]
"""From a job's wildcards to the trials that it measures, one after the other."""


def of_rule(
    study: Study, slots_of: SlotsOf | None, site: Site | None, allocation: Allocation | None
) -> Mapping[str, Callable[..., int | str | None]]:
    """Return a rule's resources; none without a cluster. `slots_of` is None where all arms are prepared.

    Each attempt of a job gets more time, up to the partition's limit.
    """
    if allocation is not None:
        return {"step": functools.partial(_step, study, slots_of, allocation)}
    if site is None:
        return {}
    return {name: functools.partial(_of_job, study, slots_of, site, name) for name in jobs.resource_names()}


def _work(study: Study, slots_of: SlotsOf | None, wildcards: Any, auto: int) -> tuple[Shape, float]:
    if slots_of is None:
        return jobs.prepare_work(study, auto)
    return jobs.block_work(study, slots_of(wildcards), auto)


# Snakemake passes arguments by their names: these are its own.


def _step(study: Study, slots_of: SlotsOf | None, allocation: Allocation, wildcards: Any) -> str:
    shape, _ = _work(study, slots_of, wildcards, allocation.auto)
    return allocation.prefix(shape)


def _of_job(
    study: Study, slots_of: SlotsOf | None, site: Site, name: str, wildcards: Any, attempt: int
) -> int | str | None:
    shape, seconds = _work(study, slots_of, wildcards, auto=1)
    job = jobs.job_of(shape, seconds, site, attempt, facts.longest_minutes(site.partition))
    return job.resources(site).get(name)
