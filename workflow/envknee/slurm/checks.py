"""Problems on a cluster that are known before anything is submitted. Pure."""

import re
from collections.abc import Iterable, Sequence, Set

from envknee.base.fields import Kind
from envknee.slurm import jobs
from envknee.slurm.facts import Cluster, Node
from envknee.slurm.jobs import Shape
from envknee.slurm.site import Site
from envknee.study import space
from envknee.study.errors import nearest
from envknee.study.model import Study
from envknee.study.space import Slot
from envknee.study.value_types import FIXED_DESIGNS

NAMED = 3
"""So many nodes are named in a sentence."""

MANY_JOBS = 16
"""With so many trials in jobs of their own, the key that saves jobs is named."""


def problems(study: Study, site: Site, cluster: Cluster) -> list[str]:
    """Return why a study's jobs cannot run; nothing if they can be submitted."""
    unknown = [name for name in site.partitions if name not in cluster.partitions]
    if unknown:
        return [
            f"partition {unknown[0]!r} does not exist on this cluster{nearest(unknown[0], cluster.partitions)};"
            f" it has {', '.join(sorted(cluster.partitions))}. Change `partition:` of the site"
        ]
    return [
        *_accounts(site, cluster),
        *_states(site, cluster),
        *_times(study, site, cluster),
        *(_constraint(site, cluster.nodes) or _sizes(study, site, _with_features(site, cluster.nodes))),
    ]


def warnings(study: Study, site: Site, cluster: Cluster) -> list[str]:
    """Return what a user should know beforehand."""
    return [
        *_cut_blocks(study, site, cluster),
        *_cut_workers(study, site, cluster),
        *_ended_for_good(site, cluster),
        *_out_of_use(site, _with_features(site, cluster.nodes)),
    ]


def of_site(study: Study, site: Site) -> list[str]:
    """Return what a user should know beforehand, as far as the cluster need not be asked."""
    alone = [job for job in space.jobs(space.plan(study)) if job[0].pool is None]  # workers have a number of their own
    lines = list[str]()
    for kind in study.sections:
        planned = [job for job in alone if job[0].kind == kind]
        windowed = [job for job in planned if not job[0].confirms]  # fresh seeds run side by side whatever the window
        said = (_narrow_window(study, site, kind, windowed), _a_job_each(study, kind, planned))
        lines += [line for line in said if line is not None]
    return lines


def _narrow_window(study: Study, site: Site, kind: Kind, planned: Sequence[Sequence[Slot]]) -> str | None:
    """Return that a study's window keeps GPUs idle that the site allows; None if it does not."""
    each = max((jobs.shape_of(study, job[0].arm).devices for job in planned), default=1)
    at_once = min(len(planned), site.max_gpus // each)
    if at_once <= study.window:
        return None
    what = "blocks" if any(len(job) > 1 for job in planned) else "trials"
    return (
        f"{kind}: window {study.window} lets {study.window} of {len(planned)} {what} run at once. They use {study.window * each} devices"
        f" (GPUs, or a CPU as one), and max_gpus of the site is {site.max_gpus}. Set window: {at_once} in the study before its first trial"
        f" to use {at_once * each}"
    )


def _a_job_each(study: Study, kind: Kind, planned: Sequence[Sequence[Slot]]) -> str | None:
    """Return that each trial of a section has a job, and the key that saves jobs; None with few trials, or where none saves any."""
    sweep = study.sections[kind]
    single = [job[0] for job in planned if len(job) == 1]
    if sweep.sampler in FIXED_DESIGNS:
        key = "block: all"
        single = [slot for slot in single if study.shares_processes(slot.arm)] if sweep.block == 1 else []
    else:
        key = f"workers: {study.window}"
    if len(single) < MANY_JOBS:
        return None
    return (
        f"{kind}: {len(single)} trials have a job each, and more than half of a short job is its start. `{key}` in this section"
        " measures them in fewer jobs; set it before the first trial"
    )


def _out_of_use(site: Site, nodes: Sequence[Node]) -> Iterable[str]:
    """Return how many of the nodes take no jobs now, with the first reasons."""
    out = [node for node in nodes if node.out_of_use is not None]
    if out:
        named = "; ".join(f"{node.name} ({node.out_of_use})" for node in out[:NAMED])
        more = "" if len(out) <= NAMED else f"; and {len(out) - NAMED} more"
        waits = ". Jobs wait until one does" if len(out) == len(nodes) else ""
        take = "takes" if len(out) == 1 else "take"
        yield f"{len(out)} of {len(nodes)} nodes of {_place(site)} {take} no jobs now: {named}{more}{waits}"


def _place(site: Site) -> str:
    """Return the partition, and what else a node must have, as a part of a sentence."""
    return f"partition {site.partition!r}{f' with constraint {site.constraint!r}' if site.constraint else ''}"


def _with_features(site: Site, nodes: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes that the site's constraint allows."""
    return tuple(node for node in nodes if site.constraint is None or allows(site.constraint, node.features))


def allows(constraint: str, features: Set[str]) -> bool:
    """Tell whether a node with these features may run jobs with a constraint of sbatch.

    One with brackets, counts, or both of `&` and `|`, is not read as SLURM does: there, one of its features is enough.
    """
    names = re.findall(r"[A-Za-z0-9_.:=-]+", constraint)
    needs_all = not re.search(r"[\[\](|*]", constraint)
    return all(name in features for name in names) if needs_all else any(name in features for name in names)


def _constraint(site: Site, nodes: Sequence[Node]) -> list[str]:
    """Return why no node may run jobs with the site's constraint."""
    if site.constraint is None or _with_features(site, nodes):
        return []
    there = sorted({feature for node in nodes for feature in node.features})
    return [
        f"constraint {site.constraint!r}: no node of partition {site.partition!r} has these features; there:"
        f" {', '.join(there) or 'none'}. Change `constraint:` of the site, or `partition:`"
    ]


def _ended_for_good(site: Site, cluster: Cluster) -> Iterable[str]:
    return (
        f"partition {name} ends preempted jobs (PreemptMode {cluster.partitions[name].preempt_mode}) and does not start them again:"
        f" the sweep submits their trials anew, up to {site.retries} times each (retries of the site)"
        for name in site.partitions
        if cluster.partitions[name].preempt_mode.startswith("CANCEL")
    )


def _cut_blocks(study: Study, site: Site, cluster: Cluster) -> Iterable[str]:
    """Trials of a block together may take longer than a partition allows; the block then goes on in another job."""
    blocks = space.jobs(space.plan(study))
    for kind in dict.fromkeys(block[0].kind for block in blocks):
        block = max((block for block in blocks if block[0].kind == kind), key=len)
        minutes = jobs.job_of(*jobs.block_work(study, block), site).minutes
        for name in site.partitions:
            limit = cluster.partitions[name].max_minutes
            if len(block) > 1 and limit is not None and minutes > limit:
                yield (
                    f"{kind}: {len(block)} trials of a block may take {minutes} minutes together (limit_s of each), and partition"
                    f" {name!r} ends jobs after {limit}. A block that is not done by then goes on in another job, up to"
                    f" {site.retries} times; smaller blocks (`block:`) avoid that"
                )


def _cut_workers(study: Study, site: Site, cluster: Cluster) -> Iterable[str]:
    """Return which workers may not measure their share of trials in one job; they then go on in another one."""
    for pool in space.pools(space.plan(study)):
        kind = pool[0].kind
        workers = study.sections[kind].workers
        assert workers is not None, "a pool has workers"
        share = jobs.share_of(pool, workers)
        minutes = jobs.job_of(*jobs.block_work(study, share), site).minutes
        for name in site.partitions:
            limit = cluster.partitions[name].max_minutes
            if limit is not None and minutes > limit:
                yield (
                    f"{kind}: {len(share)} trials of a worker may take {minutes} minutes together (limit_s of each), and partition"
                    f" {name!r} ends jobs after {limit}. A worker that is not done by then goes on in another job, up to {site.retries}"
                    " times; more workers have fewer trials each"
                )


def _accounts(site: Site, cluster: Cluster) -> Iterable[str]:
    # Associations that name no quality of service do not say which are allowed.
    for key, named, yours in (("account", site.account, cluster.accounts), ("qos", site.qos, cluster.qos or None)):
        if named is not None and yours is not None and named not in yours:
            yield (
                f"{key} {named!r} is not one of yours{nearest(named, yours)}; yours: {', '.join(sorted(yours)) or 'none'}."
                f" Change `{key}:` of the site"
            )


def _states(site: Site, cluster: Cluster) -> Iterable[str]:
    for name in site.partitions:
        if not cluster.partitions[name].is_up:
            yield f"partition {name!r} takes no jobs now (`scontrol show partition {name}` tells its state). Wait, or choose another"


def _times(study: Study, site: Site, cluster: Cluster) -> Iterable[str]:
    limits = {name: cluster.partitions[name].max_minutes for name in site.partitions}
    for kind, sweep in study.sections.items():
        minutes = jobs.job_of(jobs.Shape(0), sweep.limit_s, site).minutes
        for name, limit in limits.items():
            if limit is not None and minutes > limit:
                yield (
                    f"{kind}.limit_s {sweep.limit_s:g} needs jobs of {minutes} minutes (margin_minutes {site.margin_minutes}"
                    f" included), and partition {name!r} ends jobs after {limit}. Lower limit_s, or choose another partition"
                )


def _sizes(study: Study, site: Site, nodes: tuple[Node, ...]) -> Iterable[str]:
    for shape, arms in jobs.arms_by_shape(study).items():
        job = jobs.job_of(shape, 0.0, site)
        named = f"arms.{arms[0]}: {shape}"
        auto = " (gpus: auto asks for one here)" if study.arms[arms[0]].gpus == "auto" else ""
        place, instead = _place(site), "`gpu_type:` or `partition:` of the site"
        if why := lacking(f"arms.{arms[0]}{auto}", shape, nodes, place, instead, site.gpu_type):
            yield why
            continue
        with_gpus = [node for node in nodes if node.count(site.gpu_type) >= shape.gpus]
        if max(node.cpus for node in with_gpus) < job.cpus:
            yield (
                f"{named} with {job.cpus} CPU cores (cpus_per_gpu {site.cpus_per_gpu}), and no such node of partition"
                f" {site.partition!r} has more than {max(node.cpus for node in with_gpus)}. Lower cpus_per_gpu"
            )
        if max(node.mem_mb for node in with_gpus) < job.mem_mb:
            yield (
                f"{named} with {job.mem_mb:,} MB (mem_gb_per_gpu {site.mem_gb_per_gpu:g}), and no such node of partition"
                f" {site.partition!r} has more than {max(node.mem_mb for node in with_gpus):,}. Lower mem_gb_per_gpu"
            )


def lacking(
    named: str, shape: Shape, nodes: Sequence[Node], place: str, instead: str, gpu_type: str | None = None
) -> str | None:
    """Return why trials of an arm (`named`) do not fit on the nodes of a `place`, and what to change `instead` of it; None if they do."""
    of_type = f" of type {gpu_type}" if gpu_type and shape.gpus else ""
    counts = [node.count(gpu_type) for node in nodes]
    fitting = sum(count >= shape.gpus for count in counts)
    if not fitting:
        return (
            f"{named}: {shape}{of_type} asked for, and no node of {place} has more than {max(counts, default=0)}{of_type}"
            f" (there: {_kinds(nodes)}). Change `gpus:` of the arm, or {instead}"
        )
    if fitting < shape.nodes:
        return f"{named}: {shape}{of_type} asked for, and {place} has only {fitting} such. Change `nodes:` of the arm, or {instead}"
    return None


def _kinds(nodes: Sequence[Node]) -> str:
    kinds = sorted({f"gpu:{kind}:{count}" if kind else f"gpu:{count}" for node in nodes for kind, count in node.gpus})
    return ", ".join(kinds) or "no GPUs"
