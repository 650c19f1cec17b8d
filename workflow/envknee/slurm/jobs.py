"""The resources of a SLURM job: GPUs, cores, memory, time. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from envknee.slurm.site import Site
from envknee.study.errors import UserError
from envknee.study.model import Study
from envknee.study.space import Slot

TIME_FACTOR = 1.1
"""Factor on a trial's limit_s: other waiting of its job grows with it (a busy file system, a slow node)."""

GROWTH = 0.5
"""Extra time of each further attempt, as a share of the first one's."""

PREPARE_MINUTES_PER_ARM = 15
"""Preparing takes about a minute per arm to compile kernels; with a cold shared disk, ten times that was seen."""

COMPUTED = ("gres", "nodes", "cpus_per_task", "mem_mb", "runtime", "mpi", "tasks", "tasks_per_gpu")
"""Resources that follow from the study; lines of the site name the others."""


def resource_names() -> tuple[str, ...]:
    """Return every resource that a rule may give to the executor plugin."""
    return (*Site.resources(), *COMPUTED)


@dataclass(frozen=True, order=True)
class Shape:
    """The devices of an arm's trials."""

    gpus: int
    """On each node."""
    nodes: int = 1

    @property
    def devices(self) -> int:
        """Number of GPUs, or one for each node's CPU."""
        return max(1, self.gpus) * self.nodes

    def __str__(self) -> str:
        """Return `the CPU`, `1 GPU`, `4 GPUs` or `2 nodes of 4 GPUs`."""
        if self.gpus == 0:
            return "the CPU" if self.nodes == 1 else f"{self.nodes} nodes' CPUs"
        each = "1 GPU" if self.gpus == 1 else f"{self.gpus} GPUs"
        return each if self.nodes == 1 else f"{self.nodes} nodes of {each}"


@dataclass(frozen=True)
class Job:
    """Resources of one job; GPUs, cores and memory are per node."""

    shape: Shape
    cpus: int
    mem_mb: int
    minutes: int

    def resources(self, site: Site) -> dict[str, int | str]:
        """Return the executor plugin's resources (names as in snakemake-executor-plugin-slurm 2.8.0, further.md)."""
        asked, gpus, nodes = site.asked(), self.shape.gpus, self.shape.nodes
        asked |= {"nodes": nodes, "cpus_per_task": self.cpus, "mem_mb": self.mem_mb, "runtime": self.minutes}
        if gpus:  # per node: with `--gpus`, SLURM could spread them over several nodes
            asked["gres"] = f"gpu:{site.gpu_type}:{gpus}" if site.gpu_type else f"gpu:{gpus}"
        if nodes > 1:
            # The launcher itself starts a task on each node (see run.nodes). 0: `tasks` is not per GPU.
            asked |= {"mpi": "srun", "tasks": nodes, "tasks_per_gpu": 0}
        return asked


def shape_of(study: Study, arm: str, auto: int = 1) -> Shape:
    """Return the devices of a trial of an arm. 'auto' is `auto` GPUs, because a job needs a definite number."""
    gpus = study.arms[arm].gpus
    return Shape(auto if gpus == "auto" else gpus, study.arms[arm].nodes)


def job_of(shape: Shape, seconds: float, site: Site, attempt: int = 1, most_minutes: int | None = None) -> Job:
    """Return the job of work that takes `seconds` at most.

    Each attempt after the first gets more time, up to the partition's limit `most_minutes` (None: unknown or unlimited).
    """
    minutes = _whole(_whole(seconds * TIME_FACTOR / 60 + site.margin_minutes) * (1 + GROWTH * (attempt - 1)))
    share = max(1, shape.gpus)
    return Job(
        shape,
        cpus=site.cpus_per_gpu * share,
        mem_mb=round(site.mem_gb_per_gpu * share * 1000),
        minutes=minutes if most_minutes is None else min(minutes, most_minutes),
    )


def _whole(minutes: float) -> int:
    """Round up, but ignore floating-point noise."""
    return math.ceil(round(minutes, 6))


def block_work(study: Study, block: Sequence[Slot], auto: int = 1) -> tuple[Shape, float]:
    """Return the devices (`auto` as in `shape_of`) and seconds of trials of one arm that run one after the other."""
    return shape_of(study, block[0].arm, auto), study.sections[block[0].kind].limit_s * len(block)


def share_of(pool: Sequence[Slot], workers: int) -> Sequence[Slot]:
    """Return as many trials of a pool as one of its workers measures, if all measure equally many."""
    return pool[: -(-len(pool) // workers)]


def prepare_work(study: Study, auto: int = 1) -> tuple[Shape, float]:
    """Return the devices and seconds that prepare all arms, one after another: one node, with the most GPUs of any arm."""
    gpus = max(shape_of(study, arm, auto).gpus for arm in study.arms)
    return Shape(gpus), PREPARE_MINUTES_PER_ARM * 60.0 * len(study.arms)


def arms_by_shape(study: Study) -> dict[Shape, list[str]]:
    """Return the arms by their trials' devices, the smallest first."""
    arms: dict[Shape, list[str]] = {}
    for arm in sorted(study.arms):
        arms.setdefault(shape_of(study, arm), []).append(arm)
    return dict(sorted(arms.items()))


def check_one_node(study: Study) -> None:
    """Raise a UserError for an arm that needs several machines, which only a cluster has."""
    for name, arm in study.arms.items():
        if arm.nodes > 1:
            raise UserError(
                f"arms.{name}: nodes {arm.nodes} needs a SLURM cluster. Start with `envknee sweep --profile slurm`"
                " (or make sweep PROFILE=slurm), or give the arm `nodes: 1`"
            )


def check_cap(study: Study, site: Site) -> None:
    """Raise a UserError for an arm that exceeds the site's `max_gpus`: Snakemake would silently reduce its request."""
    for shape, arms in arms_by_shape(study).items():
        if shape.devices > site.max_gpus:
            raise UserError(
                f"arms.{arms[0]}: a trial asks for {shape}, and max_gpus of the site is {site.max_gpus}."
                " Raise max_gpus, or use fewer GPUs in that arm"
            )
