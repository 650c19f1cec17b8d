"""README, tutorial, FAQ, places to run: commands are run by tests, keys exist, studies are legal. Numbers: test_pages.py."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from envknee import commands
from envknee.study.load import read_study
from envknee.study.schema import study_schema
from programs import python, succeeded
from published import ROOT

README, TUTORIAL, FAQ = ROOT / "README.md", ROOT / "docs/tutorial.md", ROOT / "docs/faq.md"
PLACES = [ROOT / "docs" / name for name in ("this-machine.md", "clusters.md", "allocation.md", "containers.md")]
"""Where a study runs, a page each."""


def test_the_readme_is_read_at_one_sitting():
    """Marks of generated numbers, and the empty lines beside them, are not read."""
    text = re.sub(r"<!-- /?numbers\b[^>]*-->\n\n?", "", README.read_text(encoding="utf-8"))
    assert len(text.splitlines()) <= 150


def keys_of(schema: Any) -> Iterator[str]:
    """Yield every key that a part of a JSON schema names."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        for part in schema.values():
            yield from keys_of(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from keys_of(part)


@pytest.mark.parametrize("page", [README, TUTORIAL, FAQ, *PLACES], ids=lambda page: page.name)
def test_every_key_of_a_study_that_a_page_names_exists(page: Path):
    """`batch_size: library`, `decide.delta` and the like."""
    known = set(keys_of(study_schema()))
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    spans = re.findall(r"`([a-z_]+(?:\.[a-z_]+)*):(?: [^`\n]*)?`", text)
    spans += re.findall(r"`((?:task|decide|tracking|memory|throughput|learning)\.[a-z_]+)`", text)
    named = {key for span in spans for key in span.split(".")} - {"tags"}
    assert named and named <= known | {"presets"}, named - known


# --- Commands ----------------------------------------------------------------------------------------------------------

RUN_BY = {
    "make sweep": "tests/helpers/slurm_site.py: \"make\", \"sweep\"",
    "make sweep FROM=study.zip": "tests/workflow/project/test_setup.py: FROM=",
    "make sweep PROFILE=slurm": "tests/helpers/slurm_site.py: PROFILE=",
    "make prepare PROFILE=slurm": "tests/workflow/project/test_setup.py: \"make\", \"prepare\"",
    "make sweep PROFILE=allocation": "tests/workflow/slurm/test_allocations_and_workers.py: test_blocks_run_as_steps_of_an_allocation",
    "make test": ".ci/run: make test",
    "make setup": "tests/workflow/project/test_setup.py: workflow/setup.sh",
    "make setup PHYSICS=ovphysx": "tests/workflow/project/test_setup.py: PHYSICS",
    "make setup TRAINERS=all": "tests/workflow/project/test_setup.py: TRAINERS",
    "make ui": "tests/workflow/tracking/test_mlflow_ui.py: --ui",
    "make compare": "tests/workflow/project/test_setup.py: compare",
    "make replay": "tests/workflow/project/test_setup.py: \"make\", \"replay\"",
    "make archive": "tests/workflow/project/test_setup.py: archive",
    "make verify": "tests/workflow/project/test_setup.py: \"make\", \"verify\"",
    "make prove": "tests/unit/project/test_prove.py: prove",
    "make docs": "tests/workflow/project/test_docs.py: mkdocs",
    "make": "tests/workflow/project/test_setup.py: project.does(\"make\")",
    **dict.fromkeys(("envknee plan", "envknee knee", "envknee limits", "envknee presets", "envknee --help"), "here"),
    "envknee init": "tests/unit/run/test_init.py: \"init\"",
    "envknee sweep": "tests/workflow/project/test_wheel.py: envknee(\"sweep\", cwd=mine)",
    "envknee history": "tests/unit/after/test_history.py: run_main(command.main",
    "envknee summary": "tests/unit/show/test_summary.py: --all",
    "envknee compare": "tests/unit/after/test_compare.py: run_main(compare.main",
    "envknee watch": "tests/unit/show/test_watch.py: \"watch\"",
    "envknee best": "tests/unit/after/test_best.py: --only",
    "envknee repeats": "tests/unit/after/test_repeats.py: repeats",
    "envknee neighbours": "tests/workflow/run/test_gpu.py: module(\"neighbours\"",
    "salloc": "tests/workflow/slurm/test_allocations_and_workers.py: \"salloc\"",
    "sbatch": "tests/workflow/slurm/test_allocations_and_workers.py: \"sbatch\"",
}  # fmt: skip
"""By command, the test that runs it: a file, and a word of it."""

NOT_RUN = {
    "apt-get install": "changes the machine",
    "isaaclab train": "an argument of `envknee knee`, which test_foreign_trainers.py runs, and with `envknee best` test_best_trains.py",
    "cp config/": "an ordinary copy",
    "cp slurm/": "an ordinary copy",
    "mkdir -p slurm": "an ordinary folder",
    "source .venv/bin/activate": "a shell's own command",
    "$EDITOR": "an editor",
}
"""By command, why no test runs it."""


def commands_of(page: Path) -> set[str]:
    """Return what a page asks the reader to type, in blocks and in the text, without variables before a command."""
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines()
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    lines = [line.split("  #")[0].strip() for line in blocks] + [
        span for span in spans if re.match(r"make\b|envknee .|apt-get|isaaclab ", span)
    ]
    return {re.sub(r"^(?:[A-Z_]+=\S+ )+", "", line).removeprefix(".venv/bin/") for line in lines if line}


@pytest.mark.parametrize("page", [README, TUTORIAL, FAQ, *PLACES], ids=lambda page: page.name)
def test_every_command_is_run_by_a_test_or_marked(page: Path):
    for command in commands_of(page):
        known = [start for start in RUN_BY if command == start or command.startswith((f"{start} ", f"{start}\n"))]
        if not known:
            assert any(command.startswith(start) for start in NOT_RUN), f"{command}: no test runs it"
            continue
        where = RUN_BY[max(known, key=len)]
        if where != "here":
            file, _, word = where.partition(": ")
            assert word in (ROOT / file).read_text(), f"{command}: {file} has no {word!r}"
        program, *words = command.split()
        if program == "make" and words:
            assert re.search(rf"^{words[0]}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE), command
        elif program == "envknee" and words[0] != "--help" and words[0] != "COMMAND":
            assert words[0] in commands.listed()
        for study in re.findall(r"(?:CONFIG=| )(config/\S+\.yaml)", command):
            read_study(ROOT / study)


@pytest.mark.parametrize(
    "command",
    [
        "plan config/config.yaml",
        "plan config/studies/quick.yaml",
        "limits tests/fixtures/published/isaac-lab-rtx-4090.csv",
        "presets",
        "--help",
        "knee --preset isaaclab-rsl-rl --dry-run -- {python} train --rl_library rsl_rl --task Isaac-Ant",
    ],
)
def test_what_takes_seconds_is_run_here(command: str, tmp_path: Path):
    words = [
        str(ROOT / word) if "/" in word and not word.startswith("{") else word.replace("{python}", sys.executable)
        for word in command.split()
    ]
    variables = {"PYTHONPATH": str(ROOT / "workflow"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    assert succeeded(python("-m", "envknee", *words, cwd=tmp_path, env=variables))


# --- Studies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["compare.md", "small-card.md", "commands.md", "history.md", "isaac-sim.md"]
)  # test_extending sweeps that of extending.md
def test_studies_in_the_docs_are_legal(name: str, tmp_path: Path):
    blocks = re.findall(r"```yaml\n(study: .*?)```", (ROOT / "docs" / name).read_text(), re.DOTALL)
    assert len(blocks) == 1
    (tmp_path / "study.yaml").write_text(blocks[0])
    study = read_study(tmp_path / "study.yaml")
    assert study.throughput is not None and len(study.arms) >= 1
