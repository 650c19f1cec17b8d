"""Whether a study may start on a cluster, or in an allocation: SLURM is asked once, and all problems are said before any job.

Input: a study, and the site or the margin that a profile names. Output: the site or the allocation, or a UserError.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from envknee.slurm import allocation, checks, facts, jobs
from envknee.slurm import site as sites
from envknee.slurm.allocation import Allocation
from envknee.slurm.site import Site
from envknee.study.errors import UserError
from envknee.study.model import Study


def find_site(name: str, folders: Sequence[Path]) -> Path:
    """Return the path of a site's file in the first of these folders that has it; in the first one where none has.

    `site.local.yaml` goes before `site.yaml`: git ignores it, so that a user's account is in no commit and no record is "dirty".
    """
    candidates = [path for folder in folders for path in (local_of(folder / name), folder / name)]
    return next((path for path in candidates if path.exists()), folders[0] / name)


def local_of(path: Path) -> Path:
    """Return the path of a site's file that git ignores: `site.local.yaml` beside `site.yaml`."""
    return path.with_name(f"{path.stem}.local{path.suffix}")


def to_site(study: Study, path: Path) -> Site:
    """Return the site that a file describes.

    Raises:
        UserError: for a file that describes none, or an arm that exceeds the site's max_gpus.
    """
    site = sites.load(path)
    jobs.check_cap(study, site)
    return site


def to_cluster(study: Study, site: Site, path: Path) -> list[str]:
    """Return what a user should know before jobs are submitted; `path` is the site's file.

    Raises:
        UserError: lists why jobs could not run.
    """
    cluster = facts.observe(site.partition)
    found = checks.problems(study, site, cluster)
    if found:
        raise UserError("\n".join([f"{path} and this cluster do not fit:", *(f"  {line}" for line in found)]))
    return checks.warnings(study, site, cluster)


def to_allocation(study: Study, margin_minutes: object, environment: Mapping[str, str]) -> Allocation:
    """Return the nodes of the job that this process runs in.

    Raises:
        UserError: for a margin that is no time, outside a job, or where an arm does not fit on the job's nodes.
    """
    if type(margin_minutes) not in (int, float) or margin_minutes < 0:  # type: ignore[operator]  # a number by then
        raise UserError(f"allocation_margin_minutes {margin_minutes!r}: expected minutes, such as 5")
    observed = allocation.observe(environment)
    found = allocation.problems(study, observed)
    if found:
        raise UserError("\n".join(["this study does not fit here:", *(f"  {line}" for line in found)]))
    return observed
