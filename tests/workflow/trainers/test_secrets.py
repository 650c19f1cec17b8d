"""A secret that a foreign command needs: it gets it from the environment, and no file of the sweep holds it."""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from environment import ENVIRONMENT
from envknee.record.read import load_records
from envknee.study.paths import StudyFolder
from foreign_commands import FAKE, FAKE_PRESET
from places import ROOT
from programs import ran, refused, succeeded

SECRET = "hunter2-0123456789abcdef"  # noqa: S105  nobody's
SIZES = ("--gpus", "0", "--num-envs", "8,16", "--repeats", "1", "--iterations", "2")


def envknee(folder: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    variables = ENVIRONMENT | {"API_KEY": SECRET, "HF_TOKEN": SECRET}
    command = [sys.executable, "-m", "envknee", *arguments]
    return ran(command, cwd=folder, env=variables, stderr=subprocess.STDOUT, timeout=600)


def contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of all files below a folder, those in zip files too."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path), path.read_bytes()
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                yield from ((name, archive.read(name)) for name in archive.namelist())


def test_a_command_has_its_secret_and_no_file_of_the_sweep_holds_it(tmp_path: Path):
    (tmp_path / "fake.yaml").write_text(FAKE_PRESET, encoding="utf-8")
    script = 'printf %s "$API_KEY" | sha256sum > got; exec "$@"'
    command = ("sh", "-c", script, "sh", sys.executable, FAKE)
    printed = succeeded(envknee(tmp_path, "knee", "--preset", "fake.yaml", "--name", "kept", *SIZES, "--", *command))
    printed += succeeded(envknee(tmp_path, "archive", "results/kept"))
    folder = StudyFolder(tmp_path / "results/kept")
    assert [record.outcome.status for record in load_records(folder)] == ["ok", "ok"]
    for trial in range(2):
        got = (folder.trial(trial).run / "got").read_text(encoding="utf-8")
        assert got.split()[0] == hashlib.sha256(SECRET.encode()).hexdigest(), "the program got what was exported"
    files = dict(contents(tmp_path))
    names = " ".join(files)
    places = (
        "study.json", "knee.yaml", "request.json", "resolved.yaml", "outcome.json", "record.json", "trial.log", "mlflow.db", ".zip",
        ".snakemake/metadata", ".snakemake/log", "published.json", "report.html", "records.csv",
    )  # fmt: skip
    assert [place for place in places if place not in names] == []
    assert [name for name, content in files.items() if SECRET.encode() in content] == []
    assert SECRET not in printed


@pytest.mark.parametrize("where", ["argv", "env"])
def test_a_secret_in_a_command_stops_everything_before_a_file_is_written(where: str, tmp_path: Path):
    preset = FAKE_PRESET.replace("env: {", f"env: {{HF_TOKEN: {SECRET}, ") if where == "env" else FAKE_PRESET
    (tmp_path / "fake.yaml").write_text(preset, encoding="utf-8")
    command = [sys.executable, FAKE, *([f"--api-key={SECRET}"] if where == "argv" else [])]
    done = envknee(tmp_path, "knee", "--preset", "fake.yaml", "--name", "kept", *SIZES, "--", *command)
    name = "api-key" if where == "argv" else "HF_TOKEN"
    printed = refused(done, f"the value of {name} is a secret", "a command inherits your environment", status=2)
    assert SECRET not in printed
    assert [path.name for path in tmp_path.rglob("*")] == ["fake.yaml"]


def test_snakemake_refuses_a_study_file_with_a_secret_and_writes_it_nowhere(tmp_path: Path):
    words = f"[{sys.executable}, {FAKE}, --api-key, {SECRET}]"
    rows = "{source: jsonl, path: log.jsonl, step: frames}"
    arm = f"{{trainer: command, gpus: 0, command: {{argv: {words}, rows: {rows}}}}}"
    throughput = "{num_envs: [8], horizon: 4, batch_size: library}"
    (tmp_path / "mine.yaml").write_text(f"study: mine\narms: {{a: {arm}}}\nthroughput: {throughput}\n")
    snakefile = ROOT / "Snakefile"
    command = [sys.executable, "-m", "snakemake", "--snakefile", snakefile, "--cores", "1", "--configfile", "mine.yaml"]
    done = ran(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.STDOUT, timeout=120)
    printed = refused(done, "arms.a.command.argv: the value of api-key is a secret")
    assert SECRET not in printed
    assert [name for name, content in contents(tmp_path) if SECRET.encode() in content] == [str(tmp_path / "mine.yaml")]
