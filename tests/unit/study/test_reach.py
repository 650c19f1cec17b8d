"""What a study from somebody else could run, read, write or contact: every field has a class, and every attack is listed or refused."""

import hashlib
import json
import os
import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import pytest
from archives import content_of, forged, tampered
from envknee.after import archive, received
from envknee.record import archive_file
from envknee.record.schema import Request
from envknee.study.command import ELSEWHERE
from envknee.study.errors import UserError
from envknee.study.load import parse_study, read_study
from envknee.study.model import Study
from envknee.study.paths import StudyFolder
from envknee.study.reach import FIELDS, LABELS, PLAIN, fields_of, reach_of
from pydantic import TypeAdapter, ValidationError
from records import GPU, a_study, a_trial, write_study

ROWS = {"source": "csv", "path": "log.csv", "step": "iterations"}
UNPACKING = "results/archives/.unpacking"


def a_foreign_study(**command: Any) -> dict[str, Any]:
    """Return the plain data of a study with a command."""
    whole = {"argv": ["train"], "rows": ROWS} | command
    throughput = {"num_envs": [8, 16], "horizon": 4, "batch_size": 16}
    arms = {"a": {"trainer": "command", "command": whole}}
    return {"study": "demo", "task": "foreign", "arms": arms, "throughput": throughput}


def lines_of(data: dict[str, Any]) -> list[str]:
    return [str(reached) for reached in reach_of(parse_study(data, context=ELSEWHERE))]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    folder = write_study(tmp_path / "results/demo", a_study(), [a_trial(16, number=0, fps=1600.0, device=GPU)])
    return archive.write(folder, tmp_path / "demo.zip")


def with_file(packed: Path, name: str, text: str) -> Path:
    """Put another file into an archive, with a hash that fits."""
    content = content_of(packed)
    crate = json.loads(content[archive_file.METADATA])
    entity = {"@id": name, "@type": "File", "sha256": hashlib.sha256(text.encode()).hexdigest()}
    crate["@graph"].append(entity)
    return tampered(packed, {name: text.encode(), archive_file.METADATA: json.dumps(crate).encode()})


HIDDEN = """
about: x
install: x
tested: x
example: [x]
horizon: 4
argv: [python3]
arguments: ["-c", "open('ran', 'w')"]
rows: {source: csv, path: log.csv, step: iterations}
"""


@pytest.mark.parametrize("trust", ["0", "1"])
@pytest.mark.parametrize(
    "preset",
    [
        f"{UNPACKING}/resolved.yaml",
        "results/archives/demo/resolved.yaml",
        "{here}/hidden.yaml",
        "../{folder}/hidden.yaml",
        "link.yaml",
        "./hidden.yml",
    ],
)
def test_no_preset_of_an_archive_is_a_file_trusted_or_not(
    packed: Path, tmp_path: Path, monkeypatch, preset: str, trust: str
):
    monkeypatch.chdir(tmp_path)
    for name in ("hidden.yaml", "hidden.yml"):
        Path(name).write_text(HIDDEN)
    Path("link.yaml").symlink_to("hidden.yaml")
    preset = preset.format(here=tmp_path, folder=tmp_path.name)
    study = a_foreign_study(preset=preset)
    del study["arms"]["a"]["command"]["argv"]
    with_file(packed, "resolved.yaml", HIDDEN)
    forged(packed, "study.json", **study, phases="off")
    monkeypatch.setenv("TRUST", trust)
    with pytest.raises(UserError, match=rf"preset '{re.escape(preset)}' is the path of a file"):
        received.unpack(packed, Path("results/archives"), trusted=trust == "1")
    assert not Path("results/archives").exists()


def test_a_file_that_no_study_may_have_is_not_even_opened(tmp_path: Path):
    os.mkfifo(tmp_path / "waits.yaml")  # whoever opens it waits without end
    study = a_foreign_study(preset=str(tmp_path / "waits.yaml"))
    (tmp_path / "study.json").write_text(json.dumps(study))
    with pytest.raises(UserError, match="is the path of a file"):
        read_study(tmp_path / "study.json")
    request = a_trial(16).request.model_dump(mode="json") | {"trainer": "command"}
    with pytest.raises(ValidationError, match="is the path of a file"):
        Request.model_validate(request | {"command": study["arms"]["a"]["command"]})


@pytest.mark.parametrize(
    ("command", "listed"),
    [
        ({"argv": ["python3"], "arguments": ["-c", "import os; os.system('x')"]}, """python3 -c 'import os; os.system('"'"'x'"'"')'"""),
        ({"env": {"LD_PRELOAD": "evil.so"}}, "env LD_PRELOAD=evil.so train"),
        ({"env": {"PYTHONPATH": "a b"}}, "env 'PYTHONPATH=a b' train"),
        ({"env": {"BASH_ENV": "$(x)"}}, "env 'BASH_ENV=$(x)' train"),
        ({"batch_arguments": ["--then", "; rm -rf ~"]}, "train --then '; rm -rf ~'"),
        ({"argv": ["sh", "-c", "a\nb\x1b[2K"]}, r"sh -c $'a\nb\x1b[2K'"),
        ({"argv": ["sh", "-c", "a\u202e\\'b"]}, r"sh -c $'a\u202e\\\'b'"),
        ({"preset": "mjlab", "argv": ["train", "Mjlab-X"]}, "train Mjlab-X --env.scene.num-envs '{num_envs}'"),
    ],
)  # fmt: skip
def test_the_list_shows_the_whole_command_as_a_shell_would(command: dict[str, Any], listed: str):
    first = lines_of(a_foreign_study(**command))[0]
    assert first.startswith(f"runs {listed}") and first.endswith("(arms.a.command)")
    assert first.isprintable()


def test_what_is_listed_is_what_would_run():
    argv = ["python3", "it's", "", "a b", '"', "--x=$HOME"]
    (reached, *_) = reach_of(parse_study(a_foreign_study(argv=argv), context=ELSEWHERE))
    assert shlex.split(reached.value) == argv


@pytest.mark.parametrize(
    ("word", "does"),
    [
        ("train.py", "reads 'train.py'"),
        ("~/.ssh/id_rsa", "reads '~/.ssh/id_rsa'"),
        ("--config=/etc/passwd", "reads '/etc/passwd'"),
        ("--upload=https://theirs/x", "contacts 'https://theirs/x'"),
        ("http://theirs/?a=b", "contacts 'http://theirs/?a=b'"),
    ],
)
def test_each_file_and_address_of_a_command_is_listed(word: str, does: str):
    assert f"{does} (arms.a.command.argv)" in lines_of(a_foreign_study(argv=["train", word]))
    value = word.partition("=")[2] if word.startswith("--") else word
    assert f"{does} (arms.a.command.env.X)" in lines_of(a_foreign_study(env={"X": value}))


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"image": "docker://theirs/image", "runtime": "apptainer"}, "runs 'docker://theirs/image' (image)"),
        ({"image": "docker://theirs/image", "runtime": "apptainer"}, "contacts 'docker://theirs/image' (image)"),
        ({"image": "results/archives/demo/x.sif", "runtime": "apptainer"}, "runs 'results/archives/demo/x.sif' (image)"),
        ({"tracking": {"uri": "http://theirs"}}, "contacts 'http://theirs' (tracking.uri)"),
        ({"tracking": {"uri": "sqlite:////elsewhere/new.db"}}, "writes 'sqlite:////elsewhere/new.db' (tracking.uri)"),
        ({"task": {"asset_root": "x"}}, "reads 'x' (task.asset_root)"),
        ({"task": {"asset": "id_rsa"}}, "reads 'id_rsa' (task.asset)"),
        ({"task": "results.archives.demo.evil:Task"}, "runs 'results.archives.demo.evil:Task' (task.id)"),
        (
            {"task": {"overrides": {"env.scene.robot.spawn.usd_path": "id_rsa"}}},
            "reads 'id_rsa' (task.overrides.env.scene.robot.spawn.usd_path)",
        ),
        ({"arms": {"a": {"overrides": {"agent.x": "a.b"}}}}, "runs 'a.b' (arms.a.overrides.agent.x)"),
    ],
)  # fmt: skip
def test_every_other_way_out_is_listed(changes: dict[str, Any], line: str):
    study = a_study().model_dump(mode="json") | changes
    assert line in lines_of(study)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rows": ROWS | {"path": "../../x.csv"}}, "leaves the folder that the command runs in"),
        ({"rows": ROWS | {"path": "/srv/x.csv"}}, "leaves the folder that the command runs in"),
        ({"rows": ROWS | {"path": "~/x.csv"}}, "leaves the folder that the command runs in"),
        ({"rows": ROWS | {"path": "a/../../x.csv"}}, "leaves the folder that the command runs in"),
        ({"rows": ROWS | {"path": "a**b"}}, "is no pattern of files"),
        ({"rows": ROWS | {"path": "a\0b"}}, "is no pattern of files"),
        ({"argv": ["train", "a\0b"]}, "a NUL character"),
        ({"env": {"A=B": "x"}}, "'A=B' is no name of a variable"),
    ],
)
@pytest.mark.parametrize("context", ["here", ELSEWHERE])
def test_rows_are_below_the_commands_own_folder_in_every_study(changes: dict[str, Any], words: str, context: str):
    with pytest.raises(UserError, match=re.escape(words)):
        parse_study(a_foreign_study(**changes), context=context)


def test_an_image_is_no_option():
    study = a_study().model_dump(mode="json") | {"runtime": "docker", "image": "--format={{.}}"}
    with pytest.raises(UserError, match="would read it as an option"):
        parse_study(study, context=ELSEWHERE)


def test_a_drill_of_somebody_else_reaches_nowhere():
    study = a_study().model_dump(mode="json") | {"task": {"inject": {"kind": "huge_actions"}}}
    assert lines_of(study) == []


def test_every_field_of_a_study_has_a_class():
    assert {key for key, _ in fields_of(Study)} == FIELDS.keys()


def test_a_field_without_a_class_is_refused():
    class WithNew(Study):
        hook: str = "rm -rf ~"

    given = a_study().model_dump(mode="json")
    assert {key for key, _ in fields_of(WithNew)} - FIELDS.keys() == {"hook"}
    with pytest.raises(UserError, match="hook: nobody has said whether this field may run"):
        list(reach_of(WithNew.model_validate(given)))


def free_texts(schema: dict[str, Any], definitions: dict[str, Any]) -> bool:
    """Tell whether a JSON schema admits a text that is not in a list of words."""
    if "$ref" in schema:
        return free_texts(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    if schema.get("type") == "string":
        return "enum" not in schema and "const" not in schema
    inner = [*schema.get("anyOf", []), *schema.get("properties", {}).values()]
    inner += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    return any(free_texts(item, definitions) for item in inner)


def test_what_is_classified_as_plain_admits_no_text():
    for key, field in fields_of(Study):
        if FIELDS[key] is PLAIN:
            annotated: Any = field.annotation
            for item in field.metadata:
                annotated = Annotated[annotated, item]
            schema = TypeAdapter(annotated).json_schema()
            assert not free_texts(schema, schema.get("$defs", {})), key


def test_labels_are_compared_or_shown_and_nothing_else():
    """A new label is a decision: this list says which fields it was made for."""
    rows = {f"arms.*.command.rows.{name}" for name in ("patterns", "step_name", "time_name", "row", "names", "losses")}
    others = {"replay.of", "decide.baseline", "arms.*.learns_like", "arms.*.command.oom", "arms.*.command.invalid"}
    assert {key for key, kind in FIELDS.items() if kind is LABELS} == rows | others


def test_the_unpacked_study_names_the_whole_command(packed: Path, tmp_path: Path, monkeypatch):
    """What was listed is what is written, whatever the presets of this machine become."""
    monkeypatch.chdir(tmp_path)
    study = a_foreign_study(preset="mjlab", argv=["train", "X"])
    forged(packed, "study.json", **study, phases="off")
    with pytest.raises(UserError, match=r"runs train X --env\.scene\.num-envs"):
        received.unpack(packed, Path("results/archives"))
    there: StudyFolder = received.unpack(packed, Path("results/archives"), trusted=True)
    written = json.loads(there.study.read_text())["arms"]["a"]["command"]
    assert written["argv"] == ["train", "X"] and "--env.scene.num-envs" in written["arguments"]
