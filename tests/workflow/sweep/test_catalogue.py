"""The workflow as Snakemake's users expect it: the rules of the workflow catalogue, and its test case.

The catalogue's rules are those of its page on adding workflows, section "standardized usage".
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from environment import ENVIRONMENT, SNAKEMAKE
from places import ROOT
from programs import ran, succeeded


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """Return a copy of the workflow's test case: Snakemake writes beside it."""
    return shutil.copytree(ROOT / ".test/config", tmp_path / "config").parent


def snakemake(folder: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run Snakemake to a good end; its messages come on standard error."""
    done = ran([SNAKEMAKE, *arguments], cwd=folder, env=ENVIRONMENT)
    succeeded(done)
    return done


def test_the_files_are_those_that_the_catalogue_looks_for():
    readme = (ROOT / "README.md").read_text(encoding="utf-8").lower()
    assert "snakemake" in readme and "workflow" in readme
    assert (ROOT / "workflow/Snakefile").is_file() and list((ROOT / "workflow/rules").glob("*.smk"))
    assert "config.yaml" in (ROOT / "config/README.md").read_text(encoding="utf-8")
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text(encoding="utf-8"))["usage"]
    assert usage.keys() == {"mandatory-flags", "software-stack-deployment", "report"}
    assert usage["mandatory-flags"].keys() == {"desc", "flags"}
    deployment = usage["software-stack-deployment"]
    assert deployment.keys() == {"conda", "apptainer", "apptainer+conda"}
    assert {type(value) for value in (*deployment.values(), usage["report"])} == {bool}


@pytest.mark.parametrize("snakefile", ["workflow/Snakefile", "Snakefile"])
def test_the_graph_of_rules_is_drawn_as_the_catalogue_draws_it(case: Path, snakefile: str):
    graph = snakemake(ROOT, "-s", snakefile, "-c", "1", "-d", case, "--forceall", "--rulegraph").stdout
    assert graph.startswith("digraph")
    for rule in ("all", "prepare", "request", "trial", "verdict", "figures", "report", "publish"):
        assert f'label = "{rule}"' in graph


def test_the_test_case_is_planned(case: Path):
    planned = snakemake(ROOT, "-n", "--directory", case).stderr
    assert "Study workflow-test: 2 trials at most, 1 arm (stock)" in planned
    assert re.search(r"^trial +2$", planned, re.MULTILINE), planned
    assert not (case / "results").exists()


def test_the_workflow_runs_from_another_folder(case: Path):
    planned = snakemake(case, "-n", "--snakefile", ROOT / "workflow/Snakefile").stderr
    assert "Using workflow specific profile" in planned and "Study workflow-test: 2 trials at most" in planned
    assert not (case / "results").exists()
