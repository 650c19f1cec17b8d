"""docs/extending.md does what it says: its files, put where it says, are swept."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from environment import ENVIRONMENT
from places import ROOT
from programs import a_program, succeeded
from workspaces import Workspace

FILE = re.compile(r"^`(?P<path>[\w./-]+)`:\n\n```\w+\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "results*", "__pycache__", ".snakemake", "*.sif")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a copy of the project, as a person who extends it has it, with its Python where `make setup` puts that."""
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT, symlinks=True)
    # Not a link, behind which Python would not find its packages.
    a_program(copy / ".venv/bin", "python", f'exec "{sys.executable}" "$@"')
    return copy


def test_the_task_and_the_trainer_of_the_page_are_swept(checkout):
    page = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
    files = {match["path"]: match["text"] for match in FILE.finditer(page)}
    lengths = [len(list(filter(str.strip, text.splitlines()))) for path, text in files.items() if path.endswith(".py")]
    assert len(lengths) == 3 and max(lengths) < 75, lengths  # "15 to 70 lines of code"
    for path, text in files.items():
        assert not (checkout / path).exists()
        (checkout / path).write_text(text, encoding="utf-8")
    workspace = Workspace(checkout)
    workspace.environment = ENVIRONMENT | {"PYTHONPATH": str(checkout / "workflow")}
    (sweep,) = COMMANDS.findall(page)
    schema = workspace.run([sys.executable, "-m", "envknee", "check", "--schema"], timeout_s=60)
    assert '"a2c"' in schema.stdout and '"collect_garbage_at"' in schema.stdout  # a file is all that a name needs

    # What `make sweep` runs once it has set up the machine.
    (study,) = re.findall(r"^make sweep CONFIG=(\S+)$", sweep, re.MULTILINE)
    verdict = "results/swing-up/verdict.json"
    workspace.prepared("swing-up")
    words = [
        sys.executable,
        "-m",
        "snakemake",
        verdict,
        "--snakefile",
        str(checkout / "Snakefile"),
        "--configfile",
        study,
    ]
    succeeded(workspace.run(words, timeout_s=540))
    # As plain data: this process knows neither the trainer nor the remedy.
    files = workspace.results("swing-up").trial_files("record.json")
    records = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    assert sorted(record["request"]["trainer"] for record in records) == ["a2c", "rsl_rl"]
    for record in records:
        request, outcome = record["request"], record["outcome"]
        if request["trainer"] == "a2c":
            assert request["memory"]["collect_garbage_at"] == 0.8
        assert outcome["status"] == "ok" and record["fps_total"] is not None
        assert record["num_mini_batches"] == request["num_envs"] * 8 // 64
        assert record["phases_s"]["learning"]["median"] > 0
        assert outcome["memory_map"]["model_gb"] > 0
    assert "a2c" in workspace.results("swing-up").verdict.read_text(encoding="utf-8")
