"""The JSON of answering commands: each fits the schema that the docs have, and nothing else is on standard output."""

import importlib
import json
import re
from typing import Any

import jsonschema
import pytest
from envknee import commands
from envknee.json_schemas import answering, schema_of
from envknee.study import errors
from places import ROOT
from programs import run_main
from published import PUBLISHED

ONE, TWO = PUBLISHED["cartpole-one-gpu-learning"].root, PUBLISHED["cartpole-stock-lean-4096"].root
POSTED = ROOT / "tests/fixtures/published"

ASKED = {
    "plan": [[ROOT / "config/config.yaml"], [ROOT / "config/studies/learning-rules.yaml"]],
    "summary": [[ONE], [TWO]],
    "best": [[ONE], [TWO, "--arm", "lean", "--allow-undecided"]],
    "limits": [[POSTED / "isaac-lab-rtx-4090.csv"], [POSTED / "h100_anymal.csv", POSTED / "isaac-lab-rtx-4090.csv"]],
    "history": [[f"{TWO}:stock", f"{TWO}:lean", "--gate"]],
    "compare": [[f"{TWO}:stock", f"{TWO}:lean"]],
}
"""Command -> what is typed behind it."""


def test_every_answering_command_is_asked_here():
    assert set(ASKED) == set(answering())


@pytest.mark.parametrize(("name", "words"), [(name, words) for name, of_it in ASKED.items() for words in of_it])
def test_what_is_printed_fits_the_schema(name: str, words: list[Any], capsys):
    run_main(importlib.import_module(commands.find(name).module).main, *words, "--json")
    printed = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(schema_of(name)).validate(printed)


def test_a_schema_describes_its_fields_and_refuses_others():
    schema = schema_of("best")
    assert schema["properties"]["num_envs"]["description"] == "Environments on each rank."
    with pytest.raises(jsonschema.ValidationError, match="num_env"):
        jsonschema.validate({"num_env": 1}, schema)


def test_every_exit_status_of_the_code_is_in_the_table():
    page = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    table = {int(number) for row in re.findall(r"^\| ([\d, ]+) \|", page, re.MULTILINE) for number in row.split(", ")}
    of_code = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert of_code | {0, 1} <= table
    for row, name in re.findall(r"^\| [\d, ]+ \| (.*?`(\w+)`.*?) \|", page, re.MULTILINE):
        assert name in commands.COMMANDS, row


def test_the_page_for_agents_names_what_is_there():
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80, "one page"
    for target in re.findall(r"make ([a-z-]+)", text):
        assert re.search(rf"^{target}:.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), target
    for path in re.findall(r"`([\w./-]+/[\w.-]*|[\w-]+\.md)`", text):
        place = path.removesuffix("ROOM").removesuffix("NAME")
        assert any((ROOT / folder / place).exists() for folder in ("", "workflow/envknee")), path
    named = re.search(r"print JSON with `--json`: (.*?)\. ", text)
    assert named is not None and set(re.findall(r"`(\w+)`", named[1])) == set(answering())
