"""Secrets in a study or a preset: refused before anything is written, and never shown. What is no secret passes."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from envknee.run import knee
from envknee.study import presets, secret_values
from envknee.study.errors import UserError
from envknee.study.load import parse_study, read_study
from envknee.study.plain import read_plain
from places import ROOT
from programs import run_main
from published import PUBLISHED

SECRET = "hunter2-and-more"  # noqa: S105  nobody's


def a_study(**command: Any) -> dict[str, Any]:
    rows = {"source": "csv", "path": "log.csv", "step": "iterations"}
    arms = {"a": {"trainer": "command", "command": {"argv": ["train"], "rows": rows} | command}}
    return {"study": "demo", "arms": arms, "throughput": {"num_envs": [8], "horizon": 4, "batch_size": 16}}


ARGUMENTS = [
    [f"--api-key={SECRET}"],
    ["--api-key", SECRET],
    ["--apikey", SECRET],
    [f"--password={SECRET}"],
    ["--wandb-token", SECRET],
    [f"wandb.api_key={SECRET}"],
    [f"+logger.wandb.apiKey={SECRET}"],
    ["env", f"HF_TOKEN={SECRET}", "python"],
    ["-c", f"HF_TOKEN={SECRET} python train.py"],
    ["-c", f"python train.py --secret {SECRET}"],
    ["-c", f"curl -H 'Authorization: Bearer {SECRET}' x"],
    [f'{{"api_key": "{SECRET}"}}'],
    [f"https://me:{SECRET}@host/x"],
    [f"--store=postgresql://me:{SECRET}@host/x"],
    [f"https://{SECRET}@host/x"],
    [f"https://host/x?token={SECRET}"],
    ["docker", "run", f"--env=HF_TOKEN={SECRET}"],
    ["docker", "run", "-e", f"HF_TOKEN={SECRET}"],
    ["hf_" + "a" * 34],
    ["--login", "ghp_" + "b" * 36],
    ["AKIA" + "C" * 16],
    ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.sig"],
    ["-----BEGIN OPENSSH PRIVATE KEY-----\nx"],
    ["--password", "123456"],
]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=lambda words: words[0][:30])
@pytest.mark.parametrize("place", ["argv", "arguments", "batch_arguments"])
def test_a_secret_in_a_command_is_refused_and_not_shown(arguments: list[str], place: str):
    with pytest.raises(UserError, match=rf"arms\.a\.command\.{place}: .* is a secret") as error:
        parse_study(a_study(**{place: ["train", *arguments]}))
    said = str(error.value)
    assert "export " in said and "a command inherits your environment" in said
    assert SECRET not in said and arguments[-1] not in said


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "MYSQL_PWD", "DB_PASS", "PGPASSWORD", "SECRET",
     "client_secret", "GITHUB_TOKEN_2", "KEY"],
)  # fmt: skip
def test_a_variable_with_the_name_of_a_secret_is_refused(name: str):
    with pytest.raises(UserError, match=rf"arms\.a\.command\.env\.{name}: the value of {name} is a secret") as error:
        parse_study(a_study(env={name: SECRET}))
    assert SECRET not in str(error.value) and f"`export {name.upper()}=...`" in str(error.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"task": {"id": "X", "overrides": {"agent.wandb_api_key": SECRET}}},
        {"task": {"id": "X", "asset": f"https://me:{SECRET}@host/x.usd"}},
        {"image": f"docker://me:{SECRET}@host/x", "runtime": "apptainer"},
    ],
)
def test_a_secret_anywhere_else_in_a_study_is_refused(changes: dict[str, Any]):
    with pytest.raises(UserError, match="is a secret") as error:
        parse_study(a_study() | changes)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "words",
    [
        ["--api-key=$API_KEY"],
        ["--api-key", "${{API_KEY}}"],
        ["-c", 'exec train "$@" --api-key="$API_KEY" --token "$HF_TOKEN"'],
        ["wandb.api_key=${{oc.env:WANDB_API_KEY}}"],
        ["-c", "login(token=os.environ['HF_TOKEN'])"],
        ["-c", "sorted(x, key=lambda y: y)"],
        ["--obs-key", "policy"],
        ["--max-tokens", "512"],
        ["--tokenizer", "gpt2"],
        ["--eos-token=2"],
        ["--token", "false"],
        ["--keyframe=3"],
        ["--monkey=business"],
        ["--pwd", "{run_dir}"],
        ["--key", "/home/me/key.pem"],
        ["--api-key-file", "x.txt"],
        ["https://host:8080/x"],
        ["ssh://git@host/x"],
        ["--seed", "{seed}", "--password-stdin"],
    ],
    ids=lambda words: " ".join(words)[:40],
)
def test_what_only_looks_like_one_passes(words: list[str]):
    study = parse_study(a_study(argv=["train", *words], env={"PWD": "x", "TOKENIZERS_PARALLELISM": "false"}))
    assert study.arms["a"].command is not None


def test_names_of_what_is_logged_are_no_secrets():
    rows = {
        "source": "csv",
        "path": "log.csv",
        "step": "iterations",
        "losses": {"token": "Loss/token", "key": "Loss/key"},
    }
    parse_study(a_study(rows=rows))


def test_the_projects_own_studies_and_presets_hold_none():
    files = [*(ROOT / "config").rglob("*.yaml"), *presets.FOLDER.glob("*.yaml")]
    assert len(files) > 30
    assert [(path, found) for path in files for found in secret_values.find(read_plain(path, "x", "x"))] == []
    studies = {name: read_plain(folder.study, "x", "x") for name, folder in PUBLISHED.items()}
    assert [(name, found) for name, data in studies.items() for found in secret_values.find(data)] == []


def a_preset(path: Path, **changes: Any) -> Path:
    data = yaml.safe_load((presets.FOLDER / "mjlab.yaml").read_text()) | changes
    path.write_text(yaml.safe_dump(data))
    return path


def test_a_secret_in_a_preset_is_refused(tmp_path: Path):
    own = a_preset(tmp_path / "mine.yaml", env={"HF_TOKEN": SECRET})
    with pytest.raises(UserError, match=r"mine\.yaml: env\.HF_TOKEN: the value of HF_TOKEN is a secret") as error:
        parse_study(a_study(preset=str(own)))
    assert SECRET not in str(error.value)


def test_knee_writes_no_study_with_a_secret(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ("--num-envs", "8", "--preset", "mjlab", "--dry-run", "--name", "x", "--", "true", f"--api-key={SECRET}")
    with pytest.raises(UserError, match="the value of api-key is a secret"):
        run_main(knee.main, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_study_file_with_a_secret_is_refused_by_every_command(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(a_study(env={"HF_TOKEN": SECRET})))
    with pytest.raises(UserError, match=re.escape("mine.yaml: arms.a.command.env.HF_TOKEN")):
        read_study(tmp_path / "mine.yaml")


def test_data_that_contains_itself_ends():
    data: list[Any] = ["x"]
    data.append(data)
    with pytest.raises(UserError, match="more than 10,000 keys and values"):
        list(secret_values.find(data))


def test_a_long_text_is_looked_through_at_once():
    """No expression may take longer than in proportion to the text: a study file has up to 1 MB."""
    for text in (
        "a=" * 100_000,
        "-" * 200_000,
        "a" * 200_000,
        "://" * 60_000,
        "key " * 50_000,
        "eyJ" * 60_000,
        "k='" * 60_000,
    ):
        assert isinstance(list(secret_values.find([text])), list)
