"""envknee installed from its wheel as pip does it, without extras: no checkout, no Isaac Lab, no PyTorch. Each command that is listed
there does its work.

Packages that it declares, and theirs, are those of this environment; there are no others.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from environment import ENVIRONMENT
from envknee.commands import BENCHMARKS, COMMANDS
from envknee.record.read import load_records
from envknee.study.paths import StudyFolder
from foreign_commands import FAKE_PRESET, KNEE, assert_whole
from installed import environment_as_declared, wheel_of
from places import PROGRAMS, ROOT
from programs import ran, refused, succeeded

PUBLISHED = "cartpole-stock-lean-4096"
"""A small published study, of two arms."""

KNEE_OF_FAKE = [
    *KNEE, "--num-envs", "16..64", "--preset", "fake.yaml", "--repeats", "2", "--iterations", "3", "--name", "fake",
    "--", sys.executable, str(PROGRAMS / "fake_trainer.py"),
]  # fmt: skip

HELP_ALONE = {
    "server": "runs until it is stopped",
    "docker": "needs Docker or Podman",
    "image": "needs an image",
    "tasks": "needs Isaac Lab",
    "bundle": "needs Isaac Lab",
    "workers": "the rule of a pool calls it; tests/workflow/run/test_workers.py",
    "work": "`envknee workers` starts it",
}
"""Commands without a use that ends in seconds here."""


class Installed:
    """envknee as a user has it who installed the wheel."""

    def __init__(self, root: Path) -> None:
        self.wheel = wheel_of(ROOT, root / "wheel")
        self.python = environment_as_declared(self.wheel, root)
        self.folder = root / "work"
        self.folder.mkdir()
        self.environment = {key: value for key, value in ENVIRONMENT.items() if key != "PYTHONPATH"}

    def envknee(self, *words: object, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a command in the user's folder, or in another one."""
        command = [self.python.with_name("envknee"), *words]
        where = self.folder if cwd is None else cwd
        return ran(command, cwd=where, env=self.environment, stderr=subprocess.STDOUT, timeout=600)

    def does(self, *words: object) -> str:
        """Return what a command prints that has to succeed."""
        return succeeded(self.envknee(*words))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def measured(installed: Installed) -> StudyFolder:
    """A foreign program, measured by `envknee knee`."""
    (installed.folder / "fake.yaml").write_text(FAKE_PRESET, encoding="utf-8")
    folder = StudyFolder(installed.folder / "results/fake")
    assert_whole(folder, installed.does(*KNEE_OF_FAKE), ["ok"] * 4 + ["oom"] * 2)
    return folder


@pytest.fixture(scope="module")
def published(installed: Installed) -> StudyFolder:
    """A copy of a study that was measured on a GPU, and its verdict."""
    folder = StudyFolder(installed.folder / "results" / PUBLISHED)
    shutil.copytree(ROOT / "results-published" / PUBLISHED, folder.root)
    installed.does("verdict", folder.root)
    assert len(json.loads(folder.verdict.read_text(encoding="utf-8"))["arms"]) == 2
    return folder


def listed(installed: Installed) -> Iterator[tuple[str, bool]]:
    """Yield each command that `envknee --help` lists, and whether it needs nothing else."""
    ready, _, waiting = installed.does("--help").partition("With Isaac Lab")
    for part, is_ready in ((ready, True), (waiting, False)):
        yield from ((line.split()[0], is_ready) for line in part.splitlines() if line.startswith("  "))


def test_the_wheel_holds_what_lies_beside_the_package(installed: Installed):
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    project = (
        "Snakefile", "workflow/rules/sweep.smk", "workflow/profiles/default/config.yaml", "config/config.yaml",
        "slurm/site.yaml", "slurm/bin/sacct", "containers/requirements.lock",
    )  # fmt: skip
    assert {f"envknee/project/{name}" for name in project} <= names
    assert {"envknee/trainers/command/presets/mjlab.yaml", "leanframes/frames.py", "leanframes/first_layer.cu"} <= names
    for name in ("torch", "isaaclab", "pytest", "snakemake_executor_plugin_slurm"):
        absent = ran([installed.python, "-c", f"import {name}"], env=installed.environment)
        assert f"No module named '{name}'" in absent.stderr


def test_what_is_listed_explains_itself_and_what_needs_isaac_lab_says_so(installed: Installed):
    commands = dict(listed(installed))
    assert commands.keys() == COMMANDS.keys() and {name for name, is_ready in commands.items() if not is_ready} == {
        "tasks", "bundle",
    }  # fmt: skip
    ready = [name for name, is_ready in commands.items() if is_ready]
    printed = succeeded(
        ran([installed.python, PROGRAMS / "help_of_each.py", *ready], env=installed.environment, timeout=300)
    )
    assert printed.split() == ready
    said = refused(installed.envknee("tasks", "--help"), "needs Isaac Lab", "make setup", status=2)
    locks = [Path(word) for word in said.split() if word.endswith(".lock") and os.sep in word]
    assert len(locks) == 2 and all(lock.is_file() for lock in locks)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_not_listed_and_says_where_it_runs(installed: Installed, name: str):
    refused(installed.envknee(name, "--help"), f"`envknee {name}` runs only in a checkout", status=2)


def test_a_mistake_names_files_that_are_there(installed: Installed):
    wrong = installed.folder / "wrong.yaml"
    wrong.write_text(
        "study: wrong\narms: {a: {trainer: rslrl}}\nthroughput: {num_envs: 8, horizon: 8, batch_size: 8}\n"
    )
    said = refused(installed.envknee("check", wrong), "expected 'command', 'rl_games', 'rsl_rl'", status=2)
    example = Path(said.rpartition("explained in ")[2].strip().removesuffix("."))
    assert installed.does("check", example) == "cartpole-cpu\n"
    site = "from envknee.slurm import site; from pathlib import Path; site.load(Path('none.yaml'))"
    python = [installed.python, "-c", site]
    said = ran(python, env=installed.environment, cwd=installed.folder).stderr
    (copied,) = (word for word in said.split() if word.endswith("site.yaml"))
    assert "partition" in yaml.safe_load(Path(copied).read_text(encoding="utf-8"))


USED = {
    "knee", "presets", "check", "plan", "prepare", "ask", "launch", "trial", "record", "verdict", "figures", "report",
    "summary", "watch", "init", "sweep", "history",
    "best", "limits", "compare", "replay", "repeats", "keep", "archive", "optuna", "publish", "gpus",
}  # fmt: skip
"""Commands that the tests below use, apart from `--help`; `knee` and the rules of its sweep are among those who call them."""


def test_every_command_is_used_or_says_why_not():
    assert USED | HELP_ALONE.keys() == COMMANDS.keys() and not USED & HELP_ALONE.keys()


def test_commands_before_a_study(installed: Installed):
    assert "mjlab" in installed.does("presets").split()
    assert yaml.safe_load(installed.does("presets", "mjlab"))["rows"]["source"] == "tensorboard"
    assert int(installed.does("gpus")) >= 1
    assert "51 trials" in installed.does("plan", ROOT / "config/config.yaml")
    assert "36,447" in installed.does("limits", ROOT / "tests/fixtures/published/h100_anymal.csv")


def test_a_foreign_program_is_measured_and_one_of_its_trials_by_hand(installed: Installed, measured: StudyFolder):
    assert "6 requests recomputed, all identical" in installed.does("replay", "--verify", measured.root)
    other = installed.envknee(*[word if word != "16..64" else "16..32" for word in KNEE_OF_FAKE])
    refused(other, "holds another study of that name", status=2)
    # What the rules of a sweep call, one after the other.
    folder = StudyFolder(installed.folder / "results/by-hand")
    folder.root.mkdir()
    study = json.loads(measured.study.read_text(encoding="utf-8")) | {"study": "by-hand"}
    folder.study.write_text(json.dumps(study), encoding="utf-8")
    installed.does("prepare", folder.root)
    installed.does("ask", "--study-file", folder.study, "--folder", folder.root, "--number", 0, 1)
    first, second = folder.trial(0), folder.trial(1)
    installed.does("launch", first.root)
    before = first.record.read_text(encoding="utf-8")
    first.record.unlink()
    installed.does("record", first.root)
    assert first.record.read_text(encoding="utf-8") == before
    installed.does("trial", second.root)
    assert second.outcome.exists() and not second.record.exists()


def test_a_project_is_made_and_swept_without_a_clone(installed: Installed, measured: StudyFolder):
    study = yaml.safe_load((measured.root / "knee.yaml").read_text(encoding="utf-8"))
    study["study"] = "in-a-project"
    study["throughput"] |= {"num_envs": [16, 32], "repeats": 1}
    (installed.folder / "short.yaml").write_text(yaml.safe_dump(study), encoding="utf-8")
    said = installed.does("init", "mine", "--workflow", "--study", "short.yaml")
    mine = installed.folder / "mine"
    assert "wrote a project into mine" in said and "2 trials" in said and "mine/slurm/site.yaml" in said
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    refused(installed.envknee("init", "mine", "--workflow"), "mine is not empty", "nothing is overwritten", status=2)
    assert {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()} == before

    # Its own Snakefile and profiles, by the Snakemake that came along.
    snakemake = [installed.python, "-m", "snakemake", "-n"]
    printed = ran(snakemake, cwd=mine, env=installed.environment, stderr=subprocess.STDOUT, timeout=300)
    assert printed.returncode == 0 and "workflow specific profile profiles/default" in printed.stdout
    assert re.search(r"^verdict +1$", printed.stdout, re.MULTILINE) and not (mine / "results").exists(), printed.stdout
    refused(installed.envknee("sweep", "--profile", "slurm", cwd=mine), "pip install 'envknee[slurm]'", status=2)

    done = succeeded(installed.envknee("sweep", cwd=mine))
    assert "2 trials done; report results/in-a-project/report.html" in done.rstrip().splitlines()[-1]
    assert {record.outcome.status for record in load_records(StudyFolder(mine / "results/in-a-project"))} == {"ok"}


def test_without_isaac_lab_a_study_of_a_task_says_how_to_get_it(installed: Installed):
    refused(installed.envknee("init", "a-task"), "`envknee init` needs Isaac Lab", "envknee[isaaclab]", status=2)
    said = installed.does("init", "example", "--workflow")
    assert "pip install 'envknee[isaaclab]'" in said and "envknee knee --dry-run" in said
    shipped = (ROOT / "config/config.yaml").read_text(encoding="utf-8")
    assert (installed.folder / "example/config/config.yaml").read_text(encoding="utf-8") == shipped


def test_a_published_study_is_drawn_summed_up_and_recomputed(
    installed: Installed, measured: StudyFolder, published: StudyFolder
):
    installed.does("figures", published.root)
    assert "<svg" in (published.figures / "throughput.svg").read_text(encoding="utf-8")
    installed.does("report", published.root)
    assert "<html" in published.report.read_text(encoding="utf-8")
    assert "171,233" in installed.does("summary", published.root)
    assert "The sweep is whole" in installed.does("watch", "--once", measured.root)
    asked = ("best", published.root, "--arm", "lean", "--format", "env", "--allow-undecided")
    assert installed.does(*asked).endswith("NUM_ENVS=4096\nHORIZON=32\n")
    assert "10 requests recomputed, all identical" in installed.does("replay", "--verify", published.root)
    assert "3.339" in installed.does("compare", f"{published.root}:stock", f"{published.root}:lean")
    assert "stock → lean: total throughput +2" in installed.does(
        "history", f"{published.root}:stock", f"{published.root}:lean"
    )


def test_a_published_study_is_copied_packed_and_exported(installed: Installed, published: StudyFolder):
    installed.does("keep", published.root, "--to", "kept")
    assert (installed.folder / "kept" / PUBLISHED / "records.csv").exists()
    installed.does("archive", published.root)
    (packed,) = (installed.folder / "results").glob("*.zip")
    installed.does("archive", "--check", packed)
    installed.does("archive", "--unpack", packed, "--into", "unpacked")
    (unpacked,) = (installed.folder / "unpacked").rglob("study.json")
    assert len(load_records(StudyFolder(unpacked.parent))) == 10
    assert "5 of 5" in installed.does("repeats", published.root, unpacked.parent)
    installed.does("optuna", published.root)
    assert (published.root / "optuna.journal").stat().st_size > 0
