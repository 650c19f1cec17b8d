"""`git bisect run` with the gate of `envknee history`, by the script of docs/history.md, in a repository that became slower."""

import re
import subprocess
from pathlib import Path

from environment import ENVIRONMENT
from places import PROGRAMS, ROOT
from programs import ran, succeeded

PRESET = """\
about: a program of the tests
install: none
tested: here
example: [x]
horizon: 4
arguments: ["{num_envs}", "{horizon}", "{iterations}"]
rows: {source: jsonl, path: log.jsonl, step: frames, time_name: time, names: {fps: fps}}
"""

SLOWER_S = 0.02 / (1.0 - 0.42)
"""An iteration of the commit that loses 42% of its FPS."""


def repository(folder: Path) -> list[str]:
    """Make a repository of four commits, of which the third is slower, and return them."""
    program = (PROGRAMS / "bisected_trainer.py").read_text(encoding="utf-8")
    slower = program.replace("ITERATION_S = 0.02\n", f"ITERATION_S = {SLOWER_S}\n")
    assert slower != program
    commits = []
    folder.mkdir()
    git(folder, "init", "--quiet")
    for number, text in enumerate((program, program, slower, slower)):
        (folder / "train.py").write_text(f"{text}# commit {number}\n", encoding="utf-8")
        git(folder, "add", "train.py")
        git(folder, "-c", "user.name=T", "-c", "user.email=t@example", "commit", "--quiet", "-m", f"commit {number}")
        commits.append(git(folder, "rev-parse", "HEAD").strip())
    return commits


def git(folder: Path, *words: str) -> str:
    return succeeded(ran(["git", *words], cwd=folder, env=ENVIRONMENT, stderr=subprocess.STDOUT, timeout=600))


def test_git_finds_the_commit_that_lost_speed(tmp_path: Path):
    page = (ROOT / "docs/history.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"^(#!/bin/sh\n.*?)```$", page, re.MULTILINE | re.DOTALL)
    options = "--num-envs 1024..1024 --repeats 5"
    assert options in script
    script = script.replace(options, "--num-envs 16..16 --repeats 5 --iterations 3 --gpus 0")
    commits = repository(tmp_path / "repository")
    (tmp_path / "mine.yaml").write_text(PRESET, encoding="utf-8")
    (tmp_path / "repository/bisect.sh").write_text(script, encoding="utf-8")

    # The good commit is measured with the same line.
    git(tmp_path / "repository", "checkout", "--quiet", commits[0])
    (measure,) = (line for line in script.splitlines() if line.startswith("envknee knee"))
    good = measure.replace('"$name"', "good").removesuffix(" || exit 125")
    succeeded(
        ran(["sh", "-c", good], cwd=tmp_path / "repository", env=ENVIRONMENT, stderr=subprocess.STDOUT, timeout=600)
    )

    git(tmp_path / "repository", "bisect", "start", commits[3], commits[0])
    said = git(tmp_path / "repository", "bisect", "run", "sh", "bisect.sh")
    assert f"{commits[2]} is the first bad commit" in said
    assert f"passed: commit-{commits[1][:7]} after good" in said and "REGRESSION" in said
