"""A cluster as its user describes it in site.yaml, parsed once."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from envknee.machine import scratch
from envknee.study.errors import UserError
from envknee.study.load import explain, read_plain
from envknee.study.paths import PROJECT, shipped
from envknee.study.value_types import NotNegative, Positive, Strict

OPTION = re.compile(r"--[a-z][a-z-]*(=[A-Za-z0-9_.,:@%/+-]+)?")

MANAGED = {
    "--job-name", "--output", "--error", "--parsable", "--export", "--comment", "--chdir", "--workdir", "--account",
    "--partition", "--mem", "--mem-per-cpu", "--ntasks", "--ntasks-per-gpu", "--cpus-per-task", "--cpus-per-gpu", "--time",
    "--constraint", "--qos", "--nodes", "--clusters", "--gres", "--gpus", "--requeue", "--no-requeue", "--wrap", "--array",
    "--gpus-per-node", "--gpus-per-task", "--mem-per-gpu", "--ntasks-per-node",
}  # fmt: skip
"""Options of sbatch that other lines, the study or the executor plugin decide (its validation.py refuses most)."""


def _text(pattern: str, expected: str) -> BeforeValidator:
    """Return a check that a value is a text which matches `pattern` as a whole."""

    def check(value: Any) -> Any:
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            raise ValueError(f"expected {expected}")
        return value

    return BeforeValidator(check)


def _extra(value: Any) -> Any:
    """Accept plain options only, because the executor plugin passes them to a shell."""
    words = shlex.split(value) if isinstance(value, str) else [""]
    wrong = [word for word in words if not OPTION.fullmatch(word)]
    if wrong:
        raise ValueError(f"expected options as --name=value separated by blanks; {wrong[0]!r} is none")
    managed = [word for word in words if word.partition("=")[0] in MANAGED | {*Site.slurm_names().values()}]
    if managed:
        raise ValueError(f"{managed[0]} is decided by other lines of this file, or by the study")
    return " ".join(words)


@dataclass(frozen=True)
class Slurm:
    """SLURM's name of a line of site.yaml: a resource of the executor plugin, or an option of sbatch such as `--reservation`.

    A line with such a name needs nothing else: jobs ask for it, rules pass it on, and `slurm_extra` may not name it.
    """

    name: str


SHIPPED = "workflow/profiles/slurm/site.yaml"
"""The file that explains each line."""

PROGRAMS = "workflow/profiles/slurm/bin"
"""Programs that stand in for SLURM's own."""

EXTRA = "slurm_extra"
"""The executor plugin's resource for other options of sbatch."""

Name = Annotated[
    str,
    _text(r"[A-Za-z0-9][A-Za-z0-9_.,@-]*", "a name of letters, digits, '_', '.', '-' (in quotes, if it is a number)"),
]
"""Partitions (with commas between them), accounts and qualities of service, which end up on sbatch's command line."""

GpuType = Annotated[
    str, _text(r"[A-Za-z0-9_.]+", "a kind of GPU as `sinfo --format=%G` names it, such as h100 in gpu:h100:4")
]
"""What the executor plugin accepts in `gres` (snakemake-executor-plugin-slurm 2.8.0, utils.py)."""

Features = Annotated[
    str, _text(r"[A-Za-z0-9_.:=&|,*\[\]()-]+", "features as sbatch's --constraint takes them, such as a100&nvlink")
]


class Site(Strict):
    """One cluster, or one partition of it."""

    partition: Annotated[Name, Slurm("slurm_partition")]
    account: Annotated[Name | None, Slurm("slurm_account")] = None
    qos: Annotated[Name | None, Slurm("qos")] = None
    gpu_type: GpuType | None = None
    max_gpus: Positive = 8
    cpus_per_gpu: Positive = 8
    mem_gb_per_gpu: Annotated[float, Field(gt=0)] = 64.0
    constraint: Annotated[Features | None, Slurm("constraint")] = None
    slurm_extra: Annotated[Annotated[str, BeforeValidator(_extra)] | None, Slurm(EXTRA)] = None
    scratch: str | None = None
    margin_minutes: NotNegative = 5
    retries: NotNegative = 3

    @property
    def partitions(self) -> list[str]:
        """The names in `partition`."""
        return self.partition.split(",")

    @classmethod
    def slurm_names(cls) -> dict[str, str]:
        """Return key -> SLURM's name, for the lines that are passed on unchanged."""
        marks = ((key, mark) for key, field in cls.model_fields.items() for mark in field.metadata)
        return {key: mark.name for key, mark in marks if isinstance(mark, Slurm)}

    @classmethod
    def resources(cls) -> tuple[str, ...]:
        """Return those of SLURM's names that are resources of the executor plugin."""
        return tuple(name for name in cls.slurm_names().values() if not name.startswith("--"))

    def asked(self) -> dict[str, int | str]:
        """Return this site's own resources: name -> value."""
        given = {name: value for key, name in self.slurm_names().items() if (value := getattr(self, key)) is not None}
        options = [f"{name}={value}" for name, value in given.items() if name.startswith("--")]
        resources = {name: value for name, value in given.items() if not name.startswith("--")}
        if options:
            resources[EXTRA] = " ".join([*resources.get(EXTRA, "").split(), *options])
        return resources


def load(path: Path) -> Site:
    """Read a site file. Raises a UserError if it is missing, is not YAML, or a line is wrong."""
    try:
        return Site.model_validate(read_plain(path, "the description of a SLURM cluster", SHIPPED))
    except ValidationError as error:
        problems = "\n".join(f"  {explain(problem, lambda _: list(Site.model_fields))}" for problem in error.errors())
        raise UserError(
            f"{path} does not describe a cluster:\n{problems}\nEvery line is explained in {shipped(SHIPPED)}."
        ) from error


def enter(site: Site, path: Path) -> None:
    """Set the environment of this process, which SLURM passes on to jobs; `path` is the site's file.

    PATH begins with bin/ beside that file, or with the project's own: its sacct keeps a sweep going when the accounting database does
    not answer. Scratch is a variable, because as a parameter of rules it would make finished trials look out of date.
    """
    beside = path.parent / "bin"
    here = str((beside if (beside / "sacct").exists() else PROJECT / PROGRAMS).resolve())
    others = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != here]
    os.environ["PATH"] = os.pathsep.join([here, *others])
    if site.scratch:
        os.environ[scratch.VARIABLE] = site.scratch
