"""Problems on a cluster that are known before anything is submitted. Pure."""

from collections.abc import Iterable

from envknee.slurm import jobs
from envknee.slurm.facts import Cluster, Node
from envknee.slurm.site import Site
from envknee.study import space
from envknee.study.errors import nearest
from envknee.study.model import Study


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
        *_sizes(study, site, cluster.nodes),
    ]


def warnings(study: Study, site: Site, cluster: Cluster) -> list[str]:
    """Return what a user should know beforehand."""
    return [*_cut_blocks(study, site, cluster), *_ended_for_good(site, cluster)]


def _ended_for_good(site: Site, cluster: Cluster) -> Iterable[str]:
    return (
        f"partition {name} ends preempted jobs (PreemptMode {cluster.partitions[name].preempt_mode}) and does not start them again:"
        " a sweep would wait for such a job; stop it with Ctrl-C then, and start it again"
        for name in site.partitions
        if cluster.partitions[name].preempt_mode.startswith("CANCEL")
    )


def _cut_blocks(study: Study, site: Site, cluster: Cluster) -> Iterable[str]:
    """Trials of a block together may take longer than a partition allows; the block then goes on in another job."""
    longest: dict[str, list[space.Slot]] = {}
    for block in space.jobs(space.plan(study)):
        kind = block[0].kind
        longest[kind] = max(longest.get(kind, []), block, key=len)
    for kind, block in longest.items():
        minutes = jobs.job_of(*jobs.block_work(study, block), site).minutes
        for name in site.partitions:
            limit = cluster.partitions[name].max_minutes
            if len(block) > 1 and limit is not None and minutes > limit:
                yield (
                    f"{kind}: {len(block)} trials of a block may take {minutes} minutes together (limit_s of each), and partition"
                    f" {name!r} ends jobs after {limit}. A block that is not done by then goes on in another job, up to"
                    f" {site.retries} times; smaller blocks (`block:`) avoid that"
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
        of_type = f" of type {site.gpu_type}" if site.gpu_type else ""
        with_gpus = [node for node in nodes if node.count(site.gpu_type) >= shape.gpus]
        if not with_gpus:
            most = max((node.count(site.gpu_type) for node in nodes), default=0)
            auto = " (gpus: auto asks for one here)" if study.arms[arms[0]].gpus == "auto" else ""
            yield (
                f"{named}{of_type} asked for{auto}, and no node of partition {site.partition!r} has more than {most}{of_type}"
                f" (there: {_kinds(nodes)}). Change `gpus:` of the arm, or `gpu_type:` or `partition:` of the site"
            )
            continue
        if len(with_gpus) < shape.nodes:
            yield (
                f"{named}{of_type if shape.gpus else ''} asked for, and partition {site.partition!r} has only {len(with_gpus)} such."
                " Change `nodes:` of the arm, or `partition:` of the site"
            )
            continue
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


def _kinds(nodes: tuple[Node, ...]) -> str:
    kinds = sorted({f"gpu:{kind}:{count}" if kind else f"gpu:{count}" for node in nodes for kind, count in node.gpus})
    return ", ".join(kinds) or "no GPUs"
