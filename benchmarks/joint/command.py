"""`python -m envknee prove-joint`: run rows of the joint proof, and write their tables.

Input: names of rows, a number of studies, a seed. Output: a file of counts for each part of a row, in a folder, and tables from all files
there. A part that has its file is not run again, so that a run that was stopped goes on, and machines can share the rows: copy their files
into one folder. After a change of the code, begin with an empty folder.

    python -m envknee prove-joint                                          every row and sampler: hours of one core, it uses all
    python -m envknee prove-joint --rows "the data's own fit" --studies 100
    python -m envknee prove-joint --rows "profile: *" "FPS: *"             by pattern
    python -m envknee prove-joint --rows "alike: *" --samplers none        comparisons of two arms
    python -m envknee prove-joint --rows none --samplers gp profile        samplers alone
    python -m envknee prove-joint --only-write --output docs/verdicts.md   tables from the files, into their place in a page

Without the package installed: `PYTHONPATH=workflow:. python -m benchmarks.joint.command`, with NumPy, SciPy, pydantic, PyYAML, rich, psutil
and threadpoolctl; samplers tpe and gp need Optuna, and gp PyTorch.
"""

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, NamedTuple

from envknee.record.schema import Frozen
from envknee.study.errors import UserError, run_command
from envknee.study.files import canonical_json, write_atomically
from rich.console import Console

from benchmarks.joint import alike, rows, samplers, tables
from benchmarks.joint.counts import Tally
from benchmarks.prove import within

STUDIES = 2000
OF_SAMPLERS = 200
PART_OF_SAMPLERS = 2
FOLDER = Path("results/prove-joint")

BEGIN, END = "<!-- make prove-joint -->\n", "<!-- end of make prove-joint -->\n"
"""Between these a page holds the tables (docs/verdicts.md)."""

NONE = "none"

What = Literal["row", "alike", "sampler"]
"""Kinds of part: a row of studies, one of comparisons between two arms, or a sampler."""


class Part(NamedTuple):
    """Studies that one process runs, one after the other."""

    what: What
    name: str
    number: int
    studies: int
    seed: int

    @property
    def file(self) -> str:
        """The name of its file."""
        slug = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        return f"{self.what}-{slug}-seed-{self.seed}-part-{self.number:03}-of-{self.studies}.json"


class Counted(Frozen):
    """A part's file."""

    what: What
    name: str
    seed: int
    number: int
    tally: Tally


def count(part: Part) -> Counted:
    """Run a part."""
    which = part.number, part.studies, part.seed
    if part.what == "row":
        tally = rows.ROWS[part.name].part(*which)
    elif part.what == "alike":
        tally = alike.ROWS[part.name].part(*which)
    else:
        tally = samplers.part(part.name, *which)
    return Counted(what=part.what, name=part.name, seed=part.seed, number=part.number, tally=tally)


def chosen(patterns: Sequence[str], names: Sequence[str], option: str) -> list[str]:
    """Return the names that are given, or that match a pattern.

    Raises:
        UserError: when one matches nothing.
    """
    if list(patterns) == [NONE]:
        return []
    for pattern in patterns:
        if not any(_matches(name, pattern) for name in names):
            raise UserError(f"{option} {pattern!r} is none of: {'; '.join(names)}.")
    return [name for name in names if any(_matches(name, pattern) for pattern in patterns)]


def _matches(name: str, pattern: str) -> bool:
    return name == pattern or fnmatchcase(name, pattern)


def parts_of(row_names: Sequence[str], sampler_names: Sequence[str], arguments: argparse.Namespace) -> list[Part]:
    """Return every part, those that take longest first."""
    of_rows = [
        Part("row" if name in rows.ROWS else "alike", name, number, size, arguments.seed)
        for name in row_names
        for number, size in rows.parts(arguments.studies)
    ]
    of_samplers = [
        Part("sampler", name, number, size, arguments.seed)
        for name in sampler_names
        for number, size in rows.parts(arguments.sampler_studies, PART_OF_SAMPLERS)
    ]
    searching = {name for name, row in rows.ROWS.items() if row.plan.search == "profile"}
    return [
        *of_samplers,
        *(part for part in of_rows if part.name in searching),
        *(part for part in of_rows if part.name not in searching),
    ]


def run_parts(parts: Sequence[Part], folder: Path, workers: int, progress: Console) -> None:
    """Run parts that have no file yet, and write the file of each as it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    todo = [part for part in parts if not (folder / part.file).exists()]
    for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[threads] = "1"  # of each worker: many small steps are slower on more
    with ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn")) as processes:
        running = {processes.submit(count, part): part for part in todo}
        for done, future in enumerate(as_completed(running), start=1):
            part, counted = running[future], future.result()
            write_atomically(folder / part.file, canonical_json(counted))
            if progress.is_terminal:
                seconds = counted.tally.seconds / counted.tally.studies
                progress.print(f"{done} of {len(todo)}: {part.name}, part {part.number}, {seconds:.2f} s a study")


def counts_in(folder: Path, what: What, names: Sequence[str]) -> dict[str, Tally]:
    """Return the counts of all files in a folder, by name, in the order of `names`."""
    found: dict[str, Tally] = {}
    for counted in _files(folder):
        if counted.what == what:
            found[counted.name] = found.get(counted.name, Tally()) + counted.tally
    return {name: found[name] for name in names if name in found}


def _files(folder: Path) -> Iterator[Counted]:
    for path in sorted(folder.glob("*.json")):
        yield Counted.model_validate_json(path.read_text(encoding="utf-8"))


def main() -> int:
    """Print how often joint answers are right in simulated studies with known truth; fail where a promise is not kept."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--rows", nargs="+", default=["*"], help="names or patterns, or none (all)")
    parser.add_argument("--samplers", nargs="+", default=["*"], help="names or patterns, or none (all)")
    parser.add_argument("--studies", type=int, default=STUDIES, help="of each row (%(default)s)")
    parser.add_argument("--sampler-studies", type=int, default=OF_SAMPLERS, help="of each sampler (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of all noise (%(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the counts (%(default)s)")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes (all cores)")
    parser.add_argument("--list", action="store_true", help="list the rows and end")
    parser.add_argument("--only-write", action="store_true", help="run nothing: tables from the files that are there")
    parser.add_argument("--output", type=Path, help="write the tables into this page, .md")
    arguments = parser.parse_args()
    for name in ("studies", "sampler_studies", "workers"):
        if getattr(arguments, name) < 1:
            shown = name.replace("_", "-")
            raise UserError(f"--{shown} is {getattr(arguments, name)}: expected a whole number of at least 1.")
    output: Path | None = arguments.output
    if output is not None and output.suffix != ".md":
        raise UserError(f"--output is {output}: expected a name that ends in .md.")
    console = Console(markup=False, highlight=False, emoji=False)
    if arguments.list:
        console.print("\n".join([*rows.ROWS, *alike.ROWS]), soft_wrap=True)
        return 0
    row_names = chosen(arguments.rows, [*rows.ROWS, *alike.ROWS], "--rows")
    sampler_names = chosen(arguments.samplers, list(samplers.SAMPLERS), "--samplers")
    if not arguments.only_write:
        progress = Console(stderr=True, markup=False, highlight=False)
        parts = parts_of(row_names, sampler_names, arguments)
        run_parts(parts, arguments.folder, arguments.workers, progress)
    of_rows = counts_in(arguments.folder, "row", row_names)
    of_arms = counts_in(arguments.folder, "alike", row_names)
    of_samplers = counts_in(arguments.folder, "sampler", sampler_names)
    text = tables.all_of_it(of_rows, of_samplers, of_arms)
    console.print(text, soft_wrap=True)
    if output is not None:
        page = output.read_text(encoding="utf-8") if output.exists() else ""
        write_atomically(output, within(page, text, BEGIN, END))
    in_scope = [tally for name, tally in of_rows.items() if rows.ROWS[name].in_scope]
    return int(any(map(tables.missed, [*in_scope, *of_arms.values()])))


if __name__ == "__main__":
    run_command(main)
