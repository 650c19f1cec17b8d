"""A metric, a sampler, a figure, a SLURM option and a text of memory that ran out are each added in one place, in a copy of the project.

A trainer, a task and a memory remedy are added by tests/workflow/sweep/test_extending.py, which sweeps them.
"""

import json
import shutil
from pathlib import Path

import pytest
from places import PROGRAMS, ROOT
from programs import python, succeeded

PACKAGE = "workflow/envknee"


TWICE = """
from envknee.ask.question import Choice
from envknee.record.reasons import SamplerDone


def choose(question):
    asked = len(question.requests)
    return Choice(min(question.points), asked, SamplerDone() if asked > 1 else None)
"""
"""A sampler that chooses trials: the smallest point twice, then no more."""


def example(heading: str) -> str:
    section = (ROOT / "docs/extending.md").read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2]
    return section.partition("```python\n")[2].partition("```")[0]


def add(copy: Path, file: str, before: str, line: str) -> None:
    """Put one line into a file, in front of a line that is there once."""
    path = copy / file
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{file} has {before!r} {text.count(before)} times"
    path.write_text(text.replace(before, line + before), encoding="utf-8")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("project")
    for folder in ("workflow", "config"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    gpu_power = '    gpu_power_w: Annotated[float | None, Metric("sum"'
    add(copy, f"{PACKAGE}/record/schema.py", gpu_power, example("A metric"))
    add(copy, f"{PACKAGE}/slurm/site.py", "    scratch: str | None = None\n", example("An option of SLURM"))
    add(
        copy,
        f"{PACKAGE}/show/figures/registry.py",
        '    Entry("memory", THRESHOLDS',
        f"{example('A figure').rstrip()},\n",
    )
    add(copy, f"{PACKAGE}/measure/out_of_memory.py", '"out of memory", ', '"no room left on device", ')
    (copy / f"{PACKAGE}/ask/samplers/points/largest.py").write_text(example("A sampler"))
    (copy / f"{PACKAGE}/ask/samplers/trials/twice.py").write_text(TWICE)
    (copy / f"{PACKAGE}/show/figures/temperature.py").write_text(
        "from matplotlib.figure import Figure\n\n\ndef draw_temperature(evidence):\n    return Figure()\n"
    )
    (copy / "workflow/report/temperature.rst").write_text("Temperature\n\nHow warm the GPU was.\n")
    return copy


def run_in(copy: Path, program: str, *words: object) -> None:
    """Run a program of tests/programs, or a short one that is given, with the copy's package."""
    code = [PROGRAMS / program] if program.endswith(".py") else ["-c", program]
    succeeded(python(*code, *words, cwd=copy, env={"PYTHONPATH": str(copy / "workflow")}))


def test_a_metric_of_a_row_is_recorded_and_shown_once_it_is_declared(copy: Path):
    run_in(copy, "added_metric.py", ROOT)


@pytest.mark.parametrize(
    ("sampler", "expected"),
    [("largest", [[32, 128, None]]), ("twice", [[16, 64, None]] * 2 + [[16, 64, "sampler_done"]])],
)
def test_a_sampler_is_a_file(copy: Path, sampler: str, expected: list[list[int | str | None]]):
    sweep = {"num_envs": [16, 32], "horizon": [8], "batch_size": [64, 128], "repeats": 3, "sampler": sampler}
    run_in(copy, "added_sampler.py", sampler, json.dumps(sweep), json.dumps(expected))


def test_a_figure_is_a_module_a_caption_and_an_entry(copy: Path):
    run_in(copy, """
from pathlib import Path
from envknee.show.figures.registry import figures_of
from envknee.study.load import read_study
from matplotlib.figure import Figure
(entry,) = [entry for entry in figures_of(read_study(Path("config/config.yaml"))) if entry.name == "temperature"]
assert (entry.svg, entry.caption) == ("temperature.svg", "temperature.rst")
assert isinstance(entry.draw(None), Figure)
""")  # fmt: skip


def test_an_option_of_slurm_is_a_line(copy: Path):
    run_in(copy, """
from envknee.slurm.site import Site
asked = Site(partition="gpu", reservation="night").asked()
assert asked["slurm_partition"] == "gpu" and "--reservation=night" in asked["slurm_extra"]
""")  # fmt: skip


def test_how_memory_that_ran_out_says_so_is_a_line(copy: Path):
    run_in(copy, """
from envknee.measure.out_of_memory import is_out_of_memory
assert is_out_of_memory(RuntimeError("No room left on device 0"))
assert not is_out_of_memory(RuntimeError("boom"))
""")  # fmt: skip
