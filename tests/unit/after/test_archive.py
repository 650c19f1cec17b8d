"""A study in one file: whole, the same each time, and refused when somebody has changed it, or where it reaches outside."""

import json
import os
import re
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
from archives import content_of, forged, tampered
from envknee.after import archive, received
from envknee.after.keep import keep
from envknee.after.optuna_export import export
from envknee.record import archive_file
from envknee.record.read import load_records
from envknee.study.errors import UserError
from envknee.study.load import read_study
from envknee.study.paths import StudyFolder
from envknee.study.reach import reach_of
from places import ROOT
from programs import python, refused, run_main
from records import GPU, a_study, a_trial, write_study

SECRET = "hunter2"  # noqa: S105  nobody's


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    study = a_study(tracking={"uri": f"postgresql://me:{SECRET}@db/runs"})
    trials = [a_trial(n, number=i, fps=100.0 * n, device=GPU) for i, n in enumerate((16, 32))]
    made = write_study(tmp_path / "results/demo", study, [*trials, a_trial(64, number=2, status="oom", device=GPU)])
    made.figures.mkdir()
    (made.figures / "throughput.svg").write_text("<svg/>")
    (made.trial(0).root / "metrics.interrupted-1.jsonl").write_text("{}\n")
    (made.trial(0).root / "trial.log").write_text("words")
    return made


@pytest.fixture
def packed(folder: StudyFolder, tmp_path: Path) -> Path:
    return archive.write(folder, tmp_path / "demo.zip")


def test_what_comes_out_is_what_went_in(folder: StudyFolder, packed: Path, tmp_path: Path):
    there = received.unpack(packed, tmp_path / "elsewhere")
    assert there.root == tmp_path / "elsewhere/demo"
    assert load_records(there) == load_records(folder)
    assert (there.figures / "throughput.svg").read_text() == "<svg/>"
    assert (there.trial(0).root / "metrics.interrupted-1.jsonl").exists() and not there.trial(0).log.exists()
    assert (there.root / "containers/requirements.lock").exists()
    assert json.loads(there.study.read_text())["tracking"] == {"uri": None}
    assert SECRET not in "".join(data.decode() for data in content_of(packed).values())
    assert received.unpack(packed, tmp_path / "elsewhere") == there  # again: the same
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == [".unpacking.lock", "demo"]


def test_a_folder_is_no_file_to_write(folder: StudyFolder, tmp_path: Path):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match=r"is a folder, and the file to write was expected, such as .*/demo\.zip"):
        archive.write(folder, tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_same_results_give_the_same_bytes(folder: StudyFolder, tmp_path: Path):
    first, second = (archive.write(folder, tmp_path / name) for name in ("a.zip", "b.zip"))
    assert first.read_bytes() == second.read_bytes()


def test_it_describes_itself_as_a_research_object(packed: Path):
    content = content_of(packed)
    graph = {entity["@id"]: entity for entity in json.loads(content["ro-crate-metadata.json"])["@graph"]}
    assert graph["ro-crate-metadata.json"]["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"}
    assert {part["@id"] for part in graph["./"]["hasPart"]} == set(content) - {"ro-crate-metadata.json"}
    assert graph["trials/0000/metrics.jsonl"]["encodingFormat"] == "application/jsonl"
    assert "3 trials; hardware: NVIDIA H100" in graph["./"]["description"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trials/0000/record.json": b"{}"}, "trials/0000/record.json was changed"),
        ({"figures/more.png": b"x"}, "figures/more.png was added"),
        ({"extras.py": b"x"}, "holds 'extras.py', and plain files that a study has were expected"),
        ({"study.json": None}, "study.json is missing"),
        ({"ro-crate-metadata.json": None}, "a zip file with ro-crate-metadata.json in it"),
        ({"ro-crate-metadata.json": b"[]"}, "a zip file with ro-crate-metadata.json in it"),
        ({"../climbs.txt": b"x"}, "holds '../climbs.txt', and plain files that a study has"),
        ({"/etc/passwd": b"x"}, "holds '/etc/passwd'"),
        ({"a/": b""}, "holds 'a/'"),
        ({"a\\..\\b": b"x"}, "plain files that a study has were expected"),
        ({"trials/\uff11\uff11\uff11\uff11/record.json": b"x"}, "plain files that a study has"),
        ({"ro-crate-metadata.json": b'{"@graph": [{"@type": "File", "@id": 5, "sha256": ""}]}'}, "5 is missing"),
        ({"ro-crate-metadata.json": b"[" * 200_000}, "a zip file with ro-crate-metadata.json in it"),
    ],
)
def test_an_archive_that_was_changed_is_refused_and_nothing_is_unpacked(
    packed: Path, tmp_path: Path, changes: dict[str, bytes | None], words: str
):
    with pytest.raises(UserError, match=re.escape(words)):
        received.unpack(tampered(packed, changes), tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()


def test_a_study_from_elsewhere_reads_no_file_of_this_machine(packed: Path, tmp_path: Path):
    os.mkfifo(tmp_path / "waits.yaml")  # whoever reads it waits without end
    rows = {"source": "csv", "path": "log.csv", "step": "iterations"}
    command = {"preset": str(tmp_path / "waits.yaml"), "argv": ["train"], "rows": rows}
    arms = {"a": {"trainer": "command", "command": command}}
    with pytest.raises(UserError, match=r"waits\.yaml' is the path of a file"):
        received.study_in(forged(packed, "study.json", phases="off", arms=arms))


def test_a_link_is_refused(packed: Path):
    link = zipfile.ZipInfo("figures/link.svg")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(packed, "a") as target:
        target.writestr(link, "/etc")
    with pytest.raises(UserError, match="holds 'figures/link.svg'"):
        archive_file.check(packed)


def test_records_that_do_not_follow_from_their_measurements_are_refused(packed: Path, tmp_path: Path):
    with pytest.raises(UserError, match="does not follow from the files beside it"):
        received.unpack(forged(packed, "trials/0000/record.json", frames=1), tmp_path / "elsewhere")
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == [".unpacking.lock"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"task": {"id": "results.archives.demo.extras:X"}}, "runs 'results.archives.demo.extras:X' (task.id)"),
        ({"task": {"asset": "~/.ssh/id_rsa"}}, "reads '~/.ssh/id_rsa' (task.asset)"),
        (
            {"task": {"overrides": {"agent.algorithm.class_name": "os:getcwd"}}},
            "runs 'os:getcwd' (task.overrides.agent.algorithm.class_name)",
        ),
        ({"runtime": "docker", "image": "theirs"}, "runs 'theirs' (image)"),
    ],
)
def test_a_study_that_reaches_outside_is_listed_and_refused_until_it_is_trusted(
    packed: Path, tmp_path: Path, monkeypatch, capsys, changes: dict[str, object], words: str
):
    forged(packed, "study.json", **changes)
    monkeypatch.chdir(tmp_path)
    run_main(archive.main, "--check", packed)
    said = capsys.readouterr().out
    assert "by whom is not shown" in said and words in said
    monkeypatch.delenv("TRUST", raising=False)
    with pytest.raises(UserError, match="holds a study that does more than simulate") as error:
        run_main(archive.main, "--unpack", packed)
    assert words in str(error.value) and not (tmp_path / "results/archives").exists()
    monkeypatch.setenv("TRUST", "1")
    run_main(archive.main, "--unpack", packed)
    assert (tmp_path / "results/archives/demo/study.json").exists()


def test_a_tracking_store_in_an_archive_is_left_out(packed: Path, tmp_path: Path):
    forged(packed, "study.json", tracking={"uri": "http://theirs"})
    for _ in range(2):
        there = received.unpack(packed, tmp_path / "elsewhere")
        assert json.loads(there.study.read_text())["tracking"] == {"uri": None}


def test_no_archive_takes_more_memory_or_disk_than_it_may(folder: StudyFolder, tmp_path: Path, monkeypatch):
    packed = archive.write(folder, tmp_path / "demo.zip")
    with zipfile.ZipFile(packed, "a") as target:
        target.writestr("figures/bomb.png", bytes(10_000_000), zipfile.ZIP_BZIP2)
    with pytest.raises(UserError, match=r"holds 'figures/bomb.png', .* packed by method 0 or 8 .*this one: 12"):
        received.unpack(packed, tmp_path / "elsewhere")
    packed = archive.write(folder, tmp_path / "demo.zip")
    with zipfile.ZipFile(packed, "a") as target:
        target.writestr("figures/large.png", bytes(50_000_000), zipfile.ZIP_DEFLATED)
    monkeypatch.setattr(archive_file, "LARGEST_BYTES", 1_000_000)
    tracemalloc.start()
    with pytest.raises(UserError, match="unpacks to more than 1,000,000 bytes"):
        received.unpack(packed, tmp_path / "elsewhere")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()
    assert not (tmp_path / "elsewhere").exists()


def test_what_a_link_leads_to_is_not_packed(folder: StudyFolder, tmp_path: Path):
    (tmp_path / "key").write_text(SECRET)
    (folder.figures / "memory.svg").symlink_to(tmp_path / "key")
    with pytest.raises(UserError, match=r"memory\.svg is a link"):
        archive.write(folder, tmp_path / "demo.zip")
    (folder.figures / "memory.svg").unlink()
    folder.trial(1).root.rename(tmp_path / "elsewhere")
    folder.trial(1).root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=r"0001 is a link"):
        archive.write(folder, tmp_path / "demo.zip")


def test_results_of_an_earlier_version_with_a_secret_do_not_leave_this_machine(folder: StudyFolder, tmp_path: Path):
    """That version recorded commands whole; results can be read, and their copies are refused."""
    rows = {"source": "csv", "path": "log.csv", "step": "iterations"}
    command = {"argv": ["train", "--api-key", SECRET], "rows": rows}
    data = json.loads(folder.study.read_text()) | {"phases": "off"}
    folder.study.write_text(json.dumps(data | {"arms": {"stock": {"trainer": "command", "command": command}}}))
    assert read_study(folder.study).arms["stock"].command is not None
    for write in (archive.write, keep):
        with pytest.raises(UserError, match=r"arms\.stock\.command\.argv holds a secret \(api-key\)") as error:
            write(folder, tmp_path / "written")
        assert SECRET not in str(error.value) and not (tmp_path / "written").exists()
    publish = ("-m", "envknee.tracking", folder.root, "--config", folder.study)
    assert SECRET not in refused(python(*publish, timeout=60), "holds a secret (api-key)", status=2)


def test_what_a_killed_unpacking_left_is_removed(packed: Path, tmp_path: Path):
    (left := tmp_path / "elsewhere/.unpacking/figures/left.svg").parent.mkdir(parents=True)
    left.write_text("<svg/>")
    assert received.unpack(packed, tmp_path / "elsewhere").figures.exists()
    assert not left.exists()


def test_what_is_no_archive_and_no_study_to_write_says_so(tmp_path: Path):
    with pytest.raises(UserError, match="does not exist"):
        archive_file.check(tmp_path / "none.zip")
    (tmp_path / "text.zip").write_text("words")
    with pytest.raises(UserError, match="is not a whole archive of a study, a zip file"):
        archive_file.check(tmp_path / "text.zip")
    nothing = write_study(tmp_path / "demo", a_study(), [])
    for write in (archive.write, keep, lambda folder, _: export(folder)):
        with pytest.raises(UserError, match="holds no finished trial"):
            write(nothing, tmp_path / "written")


def test_another_study_of_that_name_is_left_alone(folder: StudyFolder, tmp_path: Path):
    received.unpack(archive.write(folder, tmp_path / "one.zip"), tmp_path / "elsewhere")
    other = write_study(tmp_path / "other/demo", a_study(), [a_trial(16, fps=7.0)])
    with pytest.raises(UserError, match="holds another study of that name"):
        received.unpack(archive.write(other, tmp_path / "two.zip"), tmp_path / "elsewhere")
    assert len(load_records(StudyFolder(tmp_path / "elsewhere/demo"))) == 3


def test_unpacking_never_takes_away_what_was_measured(folder: StudyFolder, packed: Path, tmp_path: Path):
    with pytest.raises(UserError, match=r"demo holds another study of that name.*nothing there was touched"):
        received.unpack(packed, folder.root.parent)  # where it was measured
    assert folder.trial(0).log.exists()
    there = received.unpack(packed, tmp_path / "elsewhere")
    there.trial(3).root.mkdir()  # a sweep goes on there
    received.unpack(packed, tmp_path / "elsewhere")
    assert there.trial(3).root.exists()
    there.trial(0).record.write_text("{}")
    with pytest.raises(UserError, match=r"its trials/0000/record\.json is not this archive.s\. Move it away"):
        received.unpack(packed, tmp_path / "elsewhere")
    assert there.trial(0).record.read_text() == "{}"


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("**/*.yaml")), ids=lambda path: path.stem)
def test_the_projects_own_studies_reach_nowhere(file: Path):
    if file.name != "server.yaml":
        assert list(reach_of(read_study(file))) == []


@pytest.mark.parametrize(
    ("value", "does"),
    [
        ("adaptive", None),
        ("newton_mjwarp,rgb-24", None),
        (1e-3, None),
        ([1, 2.0, "elu"], None),
        ("package:newton/examples/assets/ant.usda", None),
        ("package:newton/../../../../etc/passwd", "reads"),
        ("robots/ant.usd", "reads"),
        ("~", "reads"),
        ("$HOME", "reads"),
        ("https://theirs/ant.usd", "contacts"),
        ("extras:X", "runs"),
        ("os.getcwd", "runs"),
        ("lambda: 0", "runs"),
        ("dict(a=exit())", "runs"),  # skrl and Stable-Baselines3 evaluate such texts
        ("\uff4fs", "runs"),
        (["elu", "extras:X"], "runs"),
    ],
)
def test_each_override_that_is_more_than_a_number_or_a_word_is_told(value: Any, does: str | None):
    study = a_study(arms={"a": {"overrides": {"agent.algorithm.class_name": value}}})
    assert [reached.does for reached in reach_of(study)] == ([] if does is None else [does])


def test_what_a_person_reads_holds_no_control_character():
    (reached,) = reach_of(a_study(task={"overrides": {"env.\x1b[2J": "\x1b]0;x:y"}}))
    assert "\x1b" not in str(reached)


def test_a_tracking_store_and_a_server_of_assets_are_contacted():
    study = a_study(task={"asset": "nucleus"}, tracking={"uri": "http://there"})
    assert [(reached.does, reached.field) for reached in reach_of(study)] == [
        ("contacts", "task.asset"),
        ("contacts", "tracking.uri"),
    ]
